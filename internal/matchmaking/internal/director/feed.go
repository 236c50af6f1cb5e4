package director

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

const (
	feedEvery  = 2 * time.Second // interval of reads of the changes without a notification
	feedLimit  = 1000            // changes that are read at once
	auditEvery = 5               // leases after which the pool is compared with the storage
)

// feed reads the queue for a term: first all waiting tickets, then the changes. After an error, which may have hidden
// changes, it reads all tickets again.
type feed struct {
	store interface {
		matchmaking.Feed
		TakeOver(ctx context.Context, queue string, fence uint64, ids []string) ([]string, error)
		Describe(ctx context.Context, queue string, matches int) (matchmaking.QueueState, error)
	}
	queue      string
	fields     matchmaking.Fields // of tickets that are kept in memory
	fence      uint64             // of the term's lease
	takesOver  bool               // claims of earlier directors end at once
	auditEvery time.Duration      // interval of comparisons of the pool with the storage
	clock      *clock
	log        *slog.Logger
	pooled     atomic.Int64 // tickets in the pool; set by the term
	out        chan feedUpdate
}

// feedUpdate holds all tickets of the queue, or the changes.
type feedUpdate struct {
	snapshot *matchmaking.Snapshot
	changes  []matchmaking.Change
}

// run feeds the term until ctx ends.
func (f *feed) run(ctx context.Context) {
	failing := outage.New(f.log, "cannot read the queue's tickets")
	wait := pace.NewBackoff()
	for ctx.Err() == nil {
		err := f.readAll(ctx, func() {
			failing.Report(ctx, nil)
			wait.Reset()
		})
		failing.Report(ctx, err)
		pace.Sleep(ctx, wait.NextBackOff())
	}
}

// readAll reads all tickets, and then changes, until a read fails or the pool may be wrong. It calls succeeded after
// each read.
func (f *feed) readAll(ctx context.Context, succeeded func()) error {
	if _, err := f.audit(ctx); err != nil {
		return err
	}
	s, err := f.store.Snapshot(ctx, matchmaking.WaitingRequest{Queue: f.queue, Fields: f.fields})
	if err != nil {
		return fmt.Errorf("read the waiting tickets: %w", err)
	}
	succeeded()
	if err := f.takeOver(ctx, &s); err != nil {
		return err
	}
	if !f.send(ctx, feedUpdate{snapshot: &s}) {
		return nil
	}
	return f.readChanges(ctx, s.After, succeeded)
}

// readChanges reads the changes after a point.
func (f *feed) readChanges(ctx context.Context, after string, succeeded func()) error {
	follower := f.store.Follow(matchmaking.ChangesRequest{Queue: f.queue, After: after, Limit: feedLimit,
		Fields: f.fields})
	defer follower.Stop()
	audited, differed := time.Now(), false
	for ctx.Err() == nil {
		c, err := follower.Next(ctx, feedEvery)
		if err != nil {
			return fmt.Errorf("read the changes: %w", err)
		}
		succeeded()
		if len(c.Changes) > 0 && !f.send(ctx, feedUpdate{changes: c.Changes}) {
			return nil
		}
		if time.Since(audited) <= f.auditEvery {
			continue
		}
		switch same, err := f.audit(ctx); {
		case err != nil, differed && !same && len(c.Changes) == 0:
			return err
		case same, len(c.Changes) > 0:
			audited, differed = time.Now(), false
		default:
			differed = true // the term may not know yet of an assigned match: compare once more
		}
	}
	return nil
}

// audit reports whether the pool has as many tickets as wait in the storage, which isn't so after a fail-over that lost
// some. It also compares the clocks, by a reply that is fast.
func (f *feed) audit(ctx context.Context) (same bool, err error) {
	sent := time.Now()
	state, err := f.store.Describe(ctx, f.queue, 0)
	if err != nil {
		return false, fmt.Errorf("count the waiting tickets: %w", err)
	}
	f.clock.Observe(sent, state.Now)
	return int64(state.Searching+state.Pending) == f.pooled.Load(), nil
}

// takeOver ends claims of earlier directors on the tickets of a snapshot, which makes these available: only the holder
// of the lease claims. Tickets for which an allocation may be in progress stay claimed until the claim's deadline.
func (f *feed) takeOver(ctx context.Context, s *matchmaking.Snapshot) error {
	if len(s.Held) == 0 || !f.takesOver {
		return nil
	}
	freed, err := f.store.TakeOver(ctx, f.queue, f.fence, slices.Collect(maps.Keys(s.Held)))
	if err != nil {
		return fmt.Errorf("take over the claims of an earlier director: %w", err)
	}
	for _, id := range freed {
		delete(s.Held, id)
	}
	for _, ticket := range s.Tickets {
		if _, held := s.Held[ticket.ID]; !held {
			ticket.Status = matchmaking.Searching
		}
	}
	if len(freed) > 0 {
		f.log.DebugContext(ctx, "took over claims of an earlier director", "tickets", len(freed))
	}
	return nil
}

func (f *feed) send(ctx context.Context, u feedUpdate) bool {
	select {
	case f.out <- u:
		return true
	case <-ctx.Done():
		return false
	}
}
