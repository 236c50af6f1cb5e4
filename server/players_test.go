package server

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	v1 "github.com/tidemark-dev/tidemark/server/v1"
)

// attendance keeps which players are present, and each query while they are.
type attendance struct {
	v1.Channels
	present map[string]int
	queries []channel.Query
	during  []int // how many players were present during each query
}

func (a *attendance) Attend(_ context.Context, ticket string) (stop func()) {
	a.present[ticket]++
	return func() { a.present[ticket]-- }
}

func (a *attendance) Fetch(_ context.Context, q channel.Query) (channel.Delivery, error) {
	a.queries, a.during = append(a.queries, q), append(a.during, a.present["ann"])
	return channel.Delivery{}, nil
}

func (a *attendance) Next(ctx context.Context, q channel.Query, _ string) (channel.Delivery, error) {
	return a.Fetch(ctx, q)
}

// TestAttendedChannels: a player is present while it polls its ticket's channel, and nobody else is.
func TestAttendedChannels(t *testing.T) {
	t.Parallel()
	inner := &attendance{present: map[string]int{}}
	a := &attendedChannels{Channels: inner, players: inner}
	polls := []channel.Query{
		{Channel: "ticket.ann", Subscriber: "player"}, {Channel: "ticket.ann", Subscriber: "other"}, {Channel: "ann", Subscriber: "player"},
	}
	for _, q := range polls {
		_, err := a.Fetch(t.Context(), q)
		require.NoError(t, err)
		_, err = a.Next(t.Context(), q, "")
		require.NoError(t, err)
	}
	polls[0].ListenFirst = true
	require.Equal(t, []channel.Query{polls[0], polls[0], polls[1], polls[1], polls[2], polls[2]}, inner.queries)
	require.Equal(t, []int{1, 1, 0, 0, 0, 0}, inner.during)
	require.Equal(t, map[string]int{"ann": 0}, inner.present)
}
