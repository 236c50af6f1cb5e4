package service_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
)

func TestAnAssignmentWhoseOutcomeIsNotKnown(t *testing.T) {
	t.Parallel()
	for name, applied := range map[string]bool{"made": true, "not made": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := &place{}
			var calls atomic.Int32
			o := w.options(t, define(t, "duel", `{}`))
			o.Build = buildWith(a)
			o.Store = &tampered{Store: w.queues,
				assign: func(ctx context.Context, r matchmaking.AssignRequest) []matchmaking.AssignOutcome {
					failing := calls.Add(1) <= 3
					if failing && !applied {
						return slices.Repeat([]matchmaking.AssignOutcome{{Err: fault.ErrUnavailable}}, len(r.Matches))
					}
					outcomes := w.queues.Assign(ctx, r)
					if failing {
						return nil // as if the answer was lost
					}
					return outcomes
				}}
			s := newService(t, o)
			background(t, s.Run)
			first := create(t, s, service.NewTicket{Queue: "duel"})
			second := create(t, s, service.NewTicket{Queue: "duel"})
			w.requireMatched(t, first.ID, second.ID)
			w.requireNoMore(t, "duel", first.ID, second.ID)
			require.Eventually(t, func() bool { return calls.Load() == 4 }, soon, time.Millisecond)
			allocated, released := a.tried()
			require.Equal(t, 1, allocated)
			require.Empty(t, released)
		})
	}
}
