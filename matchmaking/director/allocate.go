package director

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/director/round"
)

const (
	// maxAllocations is how many allocations of a queue run at the same time.
	maxAllocations = 64
	// giveBackTimeout bounds the release of an allocation.
	giveBackTimeout = 10 * time.Second
)

// allocations limits the allocations that run at the same time, and makes tickets wait longer the more of them fail in
// succession.
type allocations struct {
	slots chan struct{} // one for each that runs

	mu   sync.Mutex
	wait *backoff.ExponentialBackOff
}

// failed returns how long the tickets of a match whose allocation failed wait.
func (a *allocations) failed() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wait.NextBackOff()
}

func (a *allocations) succeeded() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wait.Reset()
}

// placed is a match for which the assigner was asked for a place.
type placed struct {
	round.Match
	place matchmaking.Allocation
	asked bool      // the assigner got the request
	err   error     // there is no place
	again time.Time // when the tickets are available again if there is no place
}

func (m *maker) allocate(ctx context.Context, match round.Match) placed {
	place, err := m.assigner.Allocate(ctx, match.Proposal)
	return placed{Match: match, place: place, asked: true, err: err}
}

// allocateInTurn is allocate, but waits until fewer than maxAllocations run.
func (m *maker) allocateInTurn(ctx context.Context, match round.Match) placed {
	slots := m.health.allocations.slots
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
		return m.allocate(ctx, match)
	case <-ctx.Done():
		return placed{Match: match, err: fmt.Errorf("wait for other allocations: %w", ctx.Err())}
	}
}

// countAllocations records how allocations ended.
func (m *maker) countAllocations(ctx context.Context, succeeded int, failed []placed) {
	if succeeded > 0 {
		m.health.allocations.succeeded()
		m.health.allocating.Report(ctx, nil)
	}
	for i := range failed {
		failed[i].again = time.Now().Add(m.health.allocations.failed())
		m.metrics.AllocationFailed()
		m.health.allocating.Report(ctx, failed[i].err)
	}
}

// giveBack releases the place of a match that was not assigned, in the background.
func (m *maker) giveBack(p *placed) {
	m.tasks.Start(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
		defer cancel()
		if err := m.assigner.Release(ctx, p.ID, p.place); err != nil {
			m.log.ErrorContext(ctx, "cannot release the place of a match", "match", p.ID, "connection",
				p.place.Connection, "error", err)
		}
	})
}
