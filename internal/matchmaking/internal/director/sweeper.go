package director

import (
	"context"
	"log/slog"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

const (
	sweepLimit = 500
	sweepEvery = time.Second // or a quarter of a ticket's life
	sweepTasks = 16          // players whose waits are ended at the same time
)

// sweeper removes expired tickets from the queue. It ends the fetches that wait on their channels first: if the
// director dies in between, the next one continues.
type sweeper struct {
	store interface {
		Sweep(ctx context.Context, queue string, notified []string, limit int) (matchmaking.Swept, error)
	}
	players *players
	queue   string
	every   time.Duration
	metrics Metrics
	log     *slog.Logger
	out     chan []string // expired tickets, before they are removed; nil: they aren't in memory
}

func newSweeper(d *director, p *players) *sweeper {
	every := min(sweepEvery, d.Definition.TicketTTL.Std()/4)
	if beat := d.Definition.Heartbeat.Std(); beat > 0 {
		every = min(every, beat/4)
	}
	return &sweeper{
		store: d.Store, players: p, queue: d.Definition.Name, every: every, metrics: d.metrics, log: d.log,
		out: make(chan []string),
	}
}

// run sweeps until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	failing := outage.New(s.log, "cannot take expired tickets out of the queue")
	for pace.Sleep(ctx, pace.Jitter(s.every)) {
		s.sweep(ctx, failing)
	}
}

// sweep removes the tickets that have expired.
func (s *sweeper) sweep(ctx context.Context, failing *outage.Outage) {
	var released []string
	for more := true; more && ctx.Err() == nil; more = len(released) > 0 {
		swept, err := s.store.Sweep(ctx, s.queue, released, sweepLimit)
		failing.Report(ctx, err)
		s.metrics.Expired(swept.Removed)
		released = s.expire(ctx, swept.Expired)
	}
}

// expire reports expired tickets to the term and ends the waits of their players. It returns those for which that
// worked.
func (s *sweeper) expire(ctx context.Context, ids []string) (released []string) {
	if len(ids) == 0 {
		return nil
	}
	if s.out != nil {
		select {
		case s.out <- ids:
		case <-ctx.Done(): // the next director continues
			return nil
		}
	}
	done := make([]bool, len(ids))
	var group errgroup.Group
	group.SetLimit(sweepTasks)
	for i, id := range ids {
		group.Go(func() error {
			done[i] = ctx.Err() == nil && s.players.endWait(ctx, id, ulid.ULID{}) // its ID isn't free yet
			return nil
		})
	}
	_ = group.Wait() // no task returns an error
	for i, id := range ids {
		if done[i] {
			released = append(released, id)
		}
	}
	return released
}

// players ends the waits of players whose tickets have ended without a match.
type players struct {
	subscriptions matchmaking.Subscriptions
	log           *slog.Logger
}

// A player's subscription is removed in this many tries and this time at most.
const (
	releaseTries   = 3
	releaseTimeout = 5 * time.Second
)

// endWait ends the fetches that wait on a ticket's channel in its epoch; zero: in any. It reports whether that worked.
func (p *players) endWait(ctx context.Context, ticketID string, epoch ulid.ULID) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	wait := pace.NewBackoff()
	var err error
	for range releaseTries {
		if err = p.subscriptions.Unsubscribe(ctx, ticketID, epoch); err == nil {
			return true
		}
		pace.Sleep(ctx, wait.NextBackOff())
	}
	p.log.WarnContext(ctx, "cannot end the wait of a ticket's player", "ticket", ticketID, "error", err)
	return false
}
