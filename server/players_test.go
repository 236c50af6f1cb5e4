package server

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	v1 "github.com/tidemark-dev/tidemark/internal/api/v1"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/delivery"
)

// lobby records the present players, and the queries in the meantime.
type lobby struct {
	v1.Channels
	present map[string]int
	queries []channel.Query
	during  []int // how many players were present during each query
	lacks   bool  // the channel doesn't exist
	failure error // of looking at the ticket
	missed  bool  // the ticket is assigned, and its message isn't published yet
	sent    bool  // the message is published
	looks   int
	empty   channel.Delivery // without a message
}

// channelsOf returns the channels of a server with matchmaking.
func channelsOf(l *lobby) *channels {
	return &channels{service: l, players: delivery.NewPlayers(l, nil), counts: newMessageCounts(prometheus.NewRegistry())}
}

func (l *lobby) Attend(_ context.Context, ticket string) (stop func()) {
	l.present[ticket]++
	return func() { l.present[ticket]-- }
}

func (l *lobby) ForgetOwner(string) {}

func (l *lobby) Redeliver(context.Context, string) (bool, error) {
	l.looks++
	l.sent = l.missed && l.failure == nil
	return l.missed, l.failure
}

func (l *lobby) Fetch(_ context.Context, q channel.Query) (channel.Delivery, error) {
	l.queries, l.during = append(l.queries, q), append(l.during, l.present["ann"])
	if l.lacks {
		return channel.Delivery{}, channel.ErrNoSubscriber
	}
	if l.sent || q.Channel == "chat" {
		return channel.Delivery{Messages: make([]channel.Message, 1)}, nil
	}
	return l.empty, nil
}

func (l *lobby) Next(ctx context.Context, q channel.Query, _ string) (channel.Delivery, error) {
	return l.Fetch(ctx, q)
}

func (l *lobby) FetchMany(ctx context.Context, q channel.ManyQuery) (d channel.Deliveries, err error) {
	for i, from := range q.From {
		one, err := l.Fetch(ctx, channel.Query{Channel: from.Channel, Subscriber: from.Subscriber, Wait: q.Wait})
		switch {
		case err != nil:
			d.Problems = append(d.Problems, channel.Problem{Source: i, Err: err})
		case len(one.Messages) > 0:
			d.Found = append(d.Found, channel.Found{Source: i, Delivery: one})
		}
	}
	return d, nil
}

// TestPlayersInFetchesOfMany are present, and get an assignment that was missed, as in their own polls.
func TestPlayersInFetchesOfMany(t *testing.T) {
	t.Parallel()
	tickets := []channel.Source{{Channel: "ticket.ann", Subscriber: "player"},
		{Channel: "ticket.ann", Subscriber: "other"}}
	for name, c := range map[string]struct {
		inner           lobby
		from            []channel.Source
		found, problems []int // sources
		queries         int
	}{
		"nothing":      {from: tickets, queries: 2},
		"no channel":   {inner: lobby{lacks: true}, from: tickets, problems: []int{0, 1}, queries: 2},
		"it is missed": {inner: lobby{missed: true}, from: tickets[:1], found: []int{0}, queries: 2},
		"the ticket is gone": {inner: lobby{failure: matchmaking.ErrNoTicket}, from: tickets, problems: []int{0},
			queries: 2},
		"the message is there": {inner: lobby{sent: true}, from: tickets, found: []int{0, 1}, queries: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := c.inner
			inner.present = map[string]int{}
			d, err := channelsOf(&inner).FetchMany(t.Context(),
				channel.ManyQuery{From: c.from, Wait: time.Minute})
			require.NoError(t, err)
			var found, problems []int
			for _, f := range d.Found {
				found = append(found, f.Source)
			}
			for _, p := range d.Problems {
				problems = append(problems, p.Source)
			}
			require.Equal(t, [2][]int{c.found, c.problems}, [2][]int{found, problems})
			require.Len(t, inner.queries, c.queries)
			if c.from[0].Subscriber == "player" {
				require.Equal(t, 1, slices.Min(inner.during))
				require.Equal(t, map[string]int{"ann": 0}, inner.present)
			}
		})
	}
}

// TestPlayersArePresent while they poll their tickets' channels, and no others are.
func TestPlayersArePresent(t *testing.T) {
	t.Parallel()
	inner := &lobby{present: map[string]int{}}
	c := channelsOf(inner)
	polls := []channel.Query{
		{Channel: "ticket.ann", Subscriber: "player"}, {Channel: "ticket.ann", Subscriber: "other"},
		{Channel: "ann", Subscriber: "player"},
	}
	for _, q := range polls {
		_, err := c.Fetch(t.Context(), q)
		require.NoError(t, err)
		_, err = c.Next(t.Context(), q, "")
		require.NoError(t, err)
	}
	polls[0].ListenFirst = true
	require.Equal(t, []channel.Query{polls[0], polls[0], polls[1], polls[1], polls[2], polls[2]}, inner.queries)
	require.Equal(t, []int{1, 1, 0, 0, 0, 0}, inner.during)
	require.Equal(t, map[string]int{"ann": 0}, inner.present)
}

// TestPollsThatEndEmpty look at the ticket: they return an assignment without a message, and fail if it is gone. Short
// polls don't look.
func TestPollsThatEndEmpty(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		inner               lobby
		wait                time.Duration
		polls, looks        int
		messages            bool
		want                error
		subscriber, channel string
	}{
		"nothing is missed": {polls: 3, wait: time.Minute, looks: 3},
		"it is missed": {inner: lobby{missed: true}, polls: 3, wait: time.Minute, looks: 1,
			messages: true},
		"gone": {inner: lobby{failure: matchmaking.ErrNoTicket}, polls: 3, wait: time.Minute, looks: 3,
			want: channel.ErrNoSubscriber},
		"gone, and its message has expired": {inner: lobby{failure: matchmaking.ErrNoTicket,
			empty: channel.Delivery{Expired: 1, Receipt: "r"}}, polls: 3, wait: time.Minute, looks: 3},
		"the storage fails": {inner: lobby{missed: true, failure: fault.ErrUnavailable}, polls: 3, wait: time.Minute,
			looks: 3},
		"short polls":          {polls: 3, wait: time.Second - 1},
		"another subscriber":   {polls: 3, wait: time.Minute, subscriber: "other"},
		"not a ticket's":       {polls: 3, wait: time.Minute, channel: "ann"},
		"the message is there": {inner: lobby{sent: true}, polls: 3, wait: time.Minute, messages: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := c.inner
			inner.present = map[string]int{}
			channels := channelsOf(&inner)
			q := channel.Query{
				Channel: cmp.Or(c.channel, "ticket.ann"), Subscriber: cmp.Or(c.subscriber, matchmaking.Subscriber),
				Wait: c.wait,
			}
			for range c.polls {
				d, err := channels.Next(t.Context(), q, "")
				require.ErrorIs(t, err, c.want)
				require.Equal(t, c.messages, len(d.Messages) == 1)
			}
			require.Equal(t, c.looks, inner.looks)
		})
	}
}
