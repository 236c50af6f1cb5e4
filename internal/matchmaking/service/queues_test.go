package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
)

func TestQueuesThatArePutAndDeletedAtRunTime(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		o := w.options(t, define(t, "fixed", `{}`))
		a, b := newService(t, o), newService(t, o)
		background(t, a.Run)
		background(t, b.Run)

		_, created, err := a.PutQueue(t.Context(), define(t, "arena", `{"assigner":{"connection":"one","secret":"s"}}`))
		require.NoError(t, err)
		require.True(t, created)
		first := create(t, b, service.NewTicket{Queue: "arena"}) // at once, also on the other server
		second := create(t, a, service.NewTicket{Queue: "arena"})
		require.Equal(t, "one", w.requireMatched(t, first.ID, second.ID).Connection)

		d, created, err := b.PutQueue(t.Context(), define(t, "arena", `{"assigner":{"connection":"two","secret":"s"}}`))
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, "two", d.Assigner.Connection)
		require.Equal(t, matchmaking.Hidden, d.Assigner.Secret)
		require.Eventually(t, func() bool {
			x := create(t, a, service.NewTicket{Queue: "arena"})
			y := create(t, a, service.NewTicket{Queue: "arena"})
			return w.requireMatched(t, x.ID, y.ID).Connection == "two"
		}, soon, 5*time.Millisecond)

		waits := create(t, a, service.NewTicket{Queue: "arena"})
		var clientErr *fault.Error
		require.ErrorAs(t, b.DeleteQueue(t.Context(), "arena"), &clientErr)
		require.Equal(t, fault.SlugQueueInUse, clientErr.Slug)
		require.Equal(t, fault.Conflict, clientErr.Kind)
		require.NoError(t, a.Cancel(t.Context(), waits.ID))
		w.emptied(t, "arena")
		require.NoError(t, b.DeleteQueue(t.Context(), "arena"))
		require.NoError(t, b.DeleteQueue(t.Context(), "arena"))
		require.Eventually(t, func() bool { return len(a.Definitions()) == 2 }, soon, 5*time.Millisecond)
		_, err = b.Describe(t.Context(), "arena")
		require.ErrorIs(t, err, matchmaking.ErrNoQueue)
	})
}
