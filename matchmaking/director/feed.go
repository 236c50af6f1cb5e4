package director

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
)

const (
	feedEvery = 2 * time.Second // how often changes are read, although nothing is told of any
	feedLimit = 1000            // changes that are read at once
)

// fed is what the loop of a term is told of the queue: everything, or what has changed.
type fed struct {
	snapshot *matchmaking.Snapshot
	changes  []matchmaking.Change
}

// feed tells the loop what there is, and from then on what changes, until ctx ends. After anything that went wrong,
// and so perhaps was missed, it reads everything again.
func (t *term) feed(ctx context.Context) {
	down := outage.New(t.log, "the queue's tickets can't be read")
	wait := pace.NewBackoff()
	for ctx.Err() == nil {
		err := t.feedOn(ctx, func() {
			down.Report(ctx, nil)
			wait.Reset()
		})
		down.Report(ctx, err)
		pace.Sleep(ctx, wait.NextBackOff())
	}
}

// auditEvery is how often, in leases, memory and storage are compared, while nothing happens.
const auditEvery = 5

// audit tells whether the loop knows as many tickets as wait. It doesn't where the storage has lost what it had
// answered, in a fail-over.
func (t *term) audit(ctx context.Context) (same bool, err error) {
	state, err := t.Store.Describe(ctx, t.Definition.Name, 0)
	if err != nil {
		return false, fmt.Errorf("count the waiting tickets: %w", err)
	}
	return int64(state.Searching+state.Pending) == t.known.Load(), nil
}

// feedOn feeds until something goes wrong, or may have gone wrong. It calls works after every read.
func (t *term) feedOn(ctx context.Context, works func()) error {
	sent := time.Now()
	s, err := t.Store.Snapshot(ctx, t.Definition.Name)
	if err != nil {
		return fmt.Errorf("read the waiting tickets: %w", err)
	}
	works()
	t.clock.observe(sent, s.Now)
	if err := t.takeOver(ctx, &s); err != nil {
		return err
	}
	after := s.After
	if !t.tell(ctx, fed{snapshot: &s}) {
		return nil
	}
	audited := time.Now()
	for more := true; more || t.news.awaitChange(ctx, feedEvery); {
		c, err := t.Store.Changes(ctx, matchmaking.ChangesRequest{Queue: t.Definition.Name, After: after, Limit: feedLimit})
		if err != nil {
			return fmt.Errorf("read the changes: %w", err)
		}
		works()
		after, more = c.After, len(c.Changes) == feedLimit
		if len(c.Changes) > 0 && !t.tell(ctx, fed{changes: c.Changes}) {
			return nil
		}
		if len(c.Changes) == 0 && time.Since(audited) > auditEvery*t.LeaseTTL {
			audited = time.Now()
			if same, err := t.audit(ctx); err != nil || !same {
				return err
			}
		}
	}
	return nil
}

// takeOver makes tickets of a snapshot available that an earlier director has claimed. It is over: only who has the lease
// claims. Where an allocation may be under way for them they are left to it until the claim's deadline.
func (t *term) takeOver(ctx context.Context, s *matchmaking.Snapshot) error {
	if len(s.Held) == 0 || !t.immediate() {
		return nil
	}
	freed, err := t.Store.TakeOver(ctx, t.Definition.Name, t.lease.id, slices.Collect(maps.Keys(s.Held)))
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
		t.log.DebugContext(ctx, "took over claims of an earlier director", "tickets", len(freed))
	}
	return nil
}

func (t *term) tell(ctx context.Context, f fed) bool {
	select {
	case t.fed <- f:
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	sweepLimit       = 500
	sweepEvery       = time.Second // or a quarter of a ticket's life
	sweepUnsubscribe = 16          // channels that are told at the same time
)

// sweep ends the fetches that wait on the channels of tickets whose life has ended, and takes those tickets out of the
// queue, until ctx ends. Telling comes first: a director that ends in between leaves the rest to the next one.
func (t *term) sweep(ctx context.Context) {
	every := min(sweepEvery, t.Definition.TicketTTL.Std()/4)
	if beat := t.Definition.Heartbeat.Std(); beat > 0 {
		every = min(every, beat/4)
	}
	down := outage.New(t.log, "expired tickets can't be taken out of the queue")
	for pace.Sleep(ctx, pace.Jitter(every)) {
		var told []string
		for more := true; more && ctx.Err() == nil; more = len(told) > 0 {
			swept, err := t.Store.Sweep(ctx, t.Definition.Name, told, sweepLimit)
			down.Report(ctx, err)
			t.metrics.Expired(swept.Taken)
			told = t.tellPlayers(ctx, swept.Expired)
		}
	}
}

// tellPlayers tells the players of tickets that have expired, and gives the tickets whose players know.
func (t *term) tellPlayers(ctx context.Context, ids []string) []string {
	if len(ids) == 0 {
		return nil
	}
	select {
	case t.swept <- ids:
	case <-ctx.Done(): // the memory is dropped, the players are told all the same
	}
	know := make([]bool, len(ids))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(len(ids), sweepUnsubscribe) {
		workers.Go(func() {
			for i := range next {
				know[i] = t.unsubscribe(ctx, ids[i])
			}
		})
	}
	for i := range ids {
		next <- i
	}
	close(next)
	workers.Wait()
	var told []string
	for i, id := range ids {
		if know[i] {
			told = append(told, id)
		}
	}
	return told
}

// A player is told that its ticket has expired so often, until it works, and for so long at most.
const (
	unsubscribeTries   = 3
	unsubscribeTimeout = 5 * time.Second
)

func (t *term) unsubscribe(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsubscribeTimeout)
	defer cancel()
	wait := pace.NewBackoff()
	var err error
	for range unsubscribeTries {
		if err = t.Subscriptions.Unsubscribe(ctx, id); err == nil {
			return true
		}
		pace.Sleep(ctx, wait.NextBackOff())
	}
	t.log.WarnContext(ctx, "a ticket's player couldn't be told that it expired", "ticket", id, "error", err)
	return false
}
