package service_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking/onchannels"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
)

func TestARelayThatDiesBetweenPublishAndDelivered(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		o := w.options(t, define(t, "duel", `{}`))
		dying := &tampered{Store: w.queues}
		died := make(chan struct{}, 64)
		dying.delivered = func(context.Context, string, []string) error {
			dying.dead.Store(true)
			died <- struct{}{}
			return fault.ErrUnavailable
		}
		first := o
		first.Store = dying
		a := newService(t, first)
		background(t, a.Run)
		directs(t, a, "duel")
		x := create(t, a, service.NewTicket{Queue: "duel"})
		y := create(t, a, service.NewTicket{Queue: "duel"})
		<-died
		w.requireMatched(t, x.ID, y.ID)
		state, err := w.queues.Describe(t.Context(), "duel", 0)
		require.NoError(t, err)
		require.Equal(t, 2, state.Outgoing)

		seen := &brokenChannels{Channels: onchannels.New(w.channels)}
		second := o
		second.Channels = seen
		background(t, newService(t, second).Run)
		w.requireNoMore(t, "duel", x.ID, y.ID)
		require.Positive(t, seen.times(x.ID)+seen.times(y.ID))
	})
}
