package records

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

// Bounds of views.
const (
	// IDs with counts in memory that aren't written yet; those of a flush in progress come on top
	MaxPendingViews = 10_000
	MaxViews        = 1_000_000      // of one ID in one call
	MaxViewIDs      = 256            // of a call
	FlushEvery      = time.Second    // how long a count is in memory at most, while the storage answers
	endOfRun        = 5 * FlushEvery // limits the last flush
)

// ViewStore keeps views. Several goroutines may call it at the same time.
type ViewStore interface {
	// Add adds the counts of a flush, each of which has an error of its own. Counts of a flush that were added are not
	// added again for ten minutes after that. ErrCounterRange: the count can never be added, as the stored value is not a
	// counter, or is at its maximum.
	Add(ctx context.Context, f ViewFlush, counts []ViewCount) []error
	// Totals returns the views of IDs, in their order; none is an error.
	Totals(ctx context.Context, ids []string) ([]ViewTotal, error)
	// Resolve returns the IDs of slugs, in their order; "" for a slug that isn't known.
	Resolve(ctx context.Context, slugs []string) (ids []string, err error)
	// Import adds a part of an import. Errors: ErrImportConflict.
	Import(ctx context.Context, p ImportPart) (Import, error)
	// AddSlugs adds slugs, each with the ID that it stands for.
	AddSlugs(ctx context.Context, slugs map[string]string) error
}

// ViewFlush identifies a flush: those of one process have rising numbers, and don't overlap.
type ViewFlush struct {
	Process string
	Number  uint64
}

// ViewCount is a number of views of an ID.
type ViewCount struct {
	ID    string
	Views int64
}

// ViewTotal is the views of an ID.
type ViewTotal struct {
	ID       string
	Slug     string // by which it was asked for, if it was
	Counted  int64  // by Views.Count, and flushed
	Migrated int64  // by the last import that is complete
}

// Views counts views. Counts wait in memory for up to FlushEvery, and are lost if the process dies meanwhile. Several
// goroutines may call its methods at the same time.
type Views struct {
	store   ViewStore
	log     *slog.Logger
	process string
	wake    chan struct{} // buffered (capacity 1): counts are pending
	full    chan struct{} // buffered (capacity 1): there is no room

	mu      sync.Mutex
	pending map[string]int64
}

// NewViews returns views in a store. Call Run.
func NewViews(s ViewStore, log *slog.Logger) *Views {
	return &Views{
		store: s, log: log, process: id.New(), pending: map[string]int64{},
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1),
	}
}

// Count counts views of IDs, all or none, in memory. Errors: invalid-id, invalid-amount, and overloaded if too many
// other IDs wait to be written.
func (v *Views) Count(counts ...ViewCount) error {
	if err := checkCounts(counts); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	added := 0
	for _, c := range counts {
		if _, ok := v.pending[c.ID]; !ok {
			added++
		}
	}
	if added > 0 && len(v.pending)+added > MaxPendingViews {
		return &fault.Error{
			Kind: fault.Unavailable, Slug: fault.SlugOverloaded, RetryAfter: FlushEvery,
			Detail: "too many views wait to be written",
		}
	}
	for _, c := range counts {
		v.pending[c.ID] = min(v.pending[c.ID]+c.Views, MaxCounter)
	}
	pace.Signal(v.wake)
	if len(v.pending) >= MaxPendingViews/2 {
		pace.Signal(v.full)
	}
	return nil
}

func checkCounts(counts []ViewCount) error {
	if len(counts) == 0 || len(counts) > MaxViewIDs {
		return invalid(fault.SlugInvalidAmount, "views", "%d IDs, 1 to %d are allowed", len(counts), MaxViewIDs)
	}
	for _, c := range counts {
		if err := CheckViewID("id", c.ID); err != nil {
			return err
		}
		if c.Views < 1 || c.Views > MaxViews {
			return invalid(fault.SlugInvalidAmount, "views", "views are %d, 1 to %d are allowed", c.Views, MaxViews)
		}
	}
	return nil
}

// CheckViewID checks an ID of views, as records.CheckID does. The names of an import's own fields can't be IDs.
func CheckViewID(field, id string) error {
	if id == ImportTimestamp || id == ImportTotal {
		return invalid(fault.SlugInvalidID, field, "%s is reserved for imports", id)
	}
	return CheckID(field, id)
}

// Run writes counts until ctx ends, and then the remaining ones for a few seconds at most. Call it once, and end ctx
// after the last call of Count.
func (v *Views) Run(ctx context.Context) error {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(endOfRun, cancel) })()
	for number := uint64(1); ; number++ {
		more := v.await(ctx)
		v.flush(writing, ViewFlush{Process: v.process, Number: number}, v.take())
		if !more {
			return nil
		}
	}
}

// await returns when counts have waited for FlushEvery, or fill half of the room. It reports whether ctx is still
// active.
func (v *Views) await(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-v.wake:
	}
	timer := time.NewTimer(FlushEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-v.full:
	}
	return true
}

// flush writes counts until all are written, or ctx ends. It retries with the same number, as the storage may have
// added the counts although the answer was lost.
func (v *Views) flush(ctx context.Context, f ViewFlush, counts []ViewCount) {
	failing := false
	for len(counts) > 0 {
		unwritten, err := v.try(ctx, f, counts)
		switch counts = unwritten; {
		case len(unwritten) == 0 && failing:
			v.log.InfoContext(ctx, "views are written again")
		case len(unwritten) == 0:
		case ctx.Err() != nil:
			v.log.ErrorContext(ctx, "views are lost", "ids", len(unwritten), "error", err)
			return
		default:
			if !failing {
				v.log.WarnContext(ctx, "cannot write views, trying again", "ids", len(unwritten), "error", err)
			}
			failing = true
			select {
			case <-ctx.Done():
			case <-time.After(FlushEvery):
			}
		}
	}
}

// try writes counts once, and returns those that may be written later, with one of their errors.
func (v *Views) try(ctx context.Context, f ViewFlush, counts []ViewCount) (unwritten []ViewCount, last error) {
	for i, err := range v.store.Add(ctx, f, counts) {
		switch {
		case errors.Is(err, ErrCounterRange):
			v.log.ErrorContext(ctx, "views can't be added to their counter", "id", counts[i].ID, "views",
				counts[i].Views, "error", err)
		case err != nil:
			unwritten, last = append(unwritten, counts[i]), err
		}
	}
	return unwritten, last
}

func (v *Views) take() []ViewCount {
	v.mu.Lock()
	defer v.mu.Unlock()
	counts := make([]ViewCount, 0, len(v.pending))
	for id, views := range v.pending {
		counts = append(counts, ViewCount{ID: id, Views: views})
	}
	v.pending = map[string]int64{} // a cleared one would keep the memory of its largest size
	return counts
}

// Totals returns the views of IDs and slugs, 1 to MaxViewIDs together: first of the IDs, in their order, then of the
// slugs. A slug that isn't known is left out. Errors: invalid-id, invalid-amount.
func (v *Views) Totals(ctx context.Context, ids, slugs []string) ([]ViewTotal, error) {
	if n := len(ids) + len(slugs); n == 0 || n > MaxViewIDs {
		return nil, invalid(fault.SlugInvalidAmount, "id", "%d IDs and slugs, 1 to %d are allowed", n, MaxViewIDs)
	}
	for _, id := range ids {
		if err := CheckViewID("id", id); err != nil {
			return nil, err
		}
	}
	of, err := v.resolve(ctx, slugs)
	if err != nil {
		return nil, err
	}
	all, named := slices.Clone(ids), make([]string, len(ids))
	for i, id := range of {
		if id != "" {
			all, named = append(all, id), append(named, slugs[i])
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	totals, err := v.store.Totals(ctx, all)
	if err != nil {
		return nil, err
	}
	for i := range totals {
		totals[i].Slug = named[i]
	}
	return totals, nil
}

func (v *Views) resolve(ctx context.Context, slugs []string) ([]string, error) {
	if len(slugs) == 0 {
		return nil, nil
	}
	for _, slug := range slugs {
		if err := CheckID("slug", slug); err != nil {
			return nil, err
		}
	}
	return v.store.Resolve(ctx, slugs)
}
