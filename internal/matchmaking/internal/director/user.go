package director

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

// userTerm is the term of a queue that is directed by its user. It forms no matches, and has no tickets in memory. It
// does only what takes time, not calls, to become due: it removes tickets and backfills that have expired, and counts
// the others.
type userTerm struct {
	store       userStore
	queue       string
	sweeper     *sweeper
	metrics     Metrics
	sweeping    *outage.Outage
	maintaining *outage.Outage
	every       time.Duration
	idleAfter   time.Duration
}

// userStore is the part of the store that a userTerm uses.
type userStore interface {
	ExpireBackfills(ctx context.Context, queue string, limit int) (removed int, err error)
	DropChanges(ctx context.Context, queue string) error
	Describe(ctx context.Context, queue string, matches int) (matchmaking.QueueState, error)
}

// newUserTerm returns the term of a lease.
func newUserTerm(d *director) *userTerm {
	s := newSweeper(d, &players{subscriptions: d.Subscriptions, log: d.log})
	s.out = nil
	return &userTerm{
		store: d.Store, queue: d.Definition.Name, sweeper: s, metrics: d.metrics, idleAfter: d.IdleAfter,
		every:       min(s.every, d.Definition.BackfillTTL.Std()/4),
		sweeping:    outage.New(d.log, "cannot take expired tickets out of the queue"),
		maintaining: outage.New(d.log, "cannot maintain the queue"),
	}
}

// run looks after the queue until ctx ends or the queue was empty for a while.
func (t *userTerm) run(ctx context.Context) error {
	defer t.metrics.Backfills(0)
	defer t.metrics.Tickets(0, 0)
	for busy := time.Now(); time.Since(busy) < t.idleAfter; {
		t.sweeper.sweep(ctx, t.sweeping)
		empty, err := t.maintain(ctx)
		t.maintaining.Report(ctx, err)
		if err != nil || !empty {
			busy = time.Now()
		}
		if !pace.Sleep(ctx, pace.Jitter(t.every)) {
			break
		}
	}
	return nil
}

// expireLimit is the largest number of backfills that maintain removes.
const expireLimit = 1000

// maintain removes backfills that have expired, and the changes of the queue, which nobody reads, and counts its
// tickets and backfills. It reports whether the queue is empty.
func (t *userTerm) maintain(ctx context.Context) (empty bool, err error) {
	removed, err := t.store.ExpireBackfills(ctx, t.queue, expireLimit)
	t.metrics.BackfillsExpired(removed)
	if err != nil {
		return false, err
	}
	if err := t.store.DropChanges(ctx, t.queue); err != nil {
		return false, err
	}
	state, err := t.store.Describe(ctx, t.queue, 0)
	if err != nil {
		return false, err
	}
	t.metrics.Tickets(state.Searching+state.Pending, state.Pending)
	t.metrics.Backfills(state.Backfills)
	return state.Searching+state.Pending+state.Backfills+removed == 0, nil
}
