package v1

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/simulation"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// The bounds of a simulation, which keep the server free for others.
const (
	maxSimulated = 20_000 // tickets: those that wait, and those that were recorded
	maxSimulates = 10 * time.Second
)

// simulator simulates one definition at a time. Several goroutines may use it.
type simulator struct {
	queues   Queues
	recorder *simulation.Recorder
	busy     sync.Mutex
}

var errSimulating = &fault.Error{
	Kind: fault.Unavailable, Slug: fault.SlugOverloaded, RetryAfter: time.Second,
	Detail: "the server simulates a queue for another request; trying again is safe",
}

// run is POST /v1/queues/{queue}/simulate.
func (s *simulator) run(c *web.Call) error {
	d, err := readDefinition(c)
	if err != nil {
		return err
	}
	if !s.busy.TryLock() {
		return errSimulating
	}
	defer s.busy.Unlock()
	ctx, cancel := context.WithTimeout(c.Context(), maxSimulates)
	defer cancel()
	answer, err := s.simulate(ctx, d)
	if errors.Is(err, context.DeadlineExceeded) && c.Context().Err() == nil {
		err = fault.ErrUnavailable.WithCause(err)
	}
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, answer)
}

// simulate matches the tickets of a queue by its definition, and by a changed one.
func (s *simulator) simulate(ctx context.Context, changed matchmaking.Definition) (answer wire.Simulation, err error) {
	about, err := s.queues.Describe(ctx, changed.Name)
	if err != nil {
		return answer, err
	}
	today, err := newSimulation(about.Definition)
	if err != nil {
		return answer, err
	}
	other, err := newSimulation(changed)
	if err != nil {
		return answer, err
	}
	tickets := s.recorder.Tickets(changed.Name, about.Now)
	answer.Recorded = len(tickets)
	known := make(map[string]bool, len(tickets))
	for _, t := range tickets {
		known[t.ID] = true
	}
	err = s.queues.Waiting(ctx, matchmaking.WaitingRequest{Queue: changed.Name, Fields: matchmaking.FieldsSearch},
		func(some []*matchmaking.Ticket) error {
			for _, t := range some {
				if answer.Waiting++; len(tickets) == maxSimulated {
					return errEnough
				}
				if !known[t.ID] {
					tickets = append(tickets, t)
				}
			}
			return ctx.Err()
		})
	if err != nil && !errors.Is(err, errEnough) {
		return answer, err
	}
	answer.Truncated = errors.Is(err, errEnough)
	slices.SortStableFunc(tickets, matchmaking.CompareAge)
	if answer.Today, err = simulatedOf(ctx, today, tickets); err == nil {
		answer.Changed, err = simulatedOf(ctx, other, tickets)
	}
	return answer, err
}

var errEnough = errors.New("enough tickets were read")

func newSimulation(d matchmaking.Definition) (simulation.Queue, error) {
	q, err := simulation.New(d)
	if err != nil {
		err = matchmaking.InvalidQueue("/match/function", "%v", err)
	}
	return q, err
}

func simulatedOf(ctx context.Context, q simulation.Queue, tickets []*matchmaking.Ticket) (wire.Simulated, error) {
	r, err := q.Run(ctx, tickets)
	answer := wire.Simulated{Tickets: r.Tickets, Matches: r.Matches, Matched: r.Matched, Unmatched: r.Tickets - r.Matched}
	if r.Matches > 0 {
		waits, fitness := longestWaits(r.Waits), wire.Fitness(r.Fitness)
		answer.Waits, answer.Fitness = &waits, &fitness
	}
	return answer, err
}
