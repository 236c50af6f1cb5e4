package service_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// lookedAt is a store that counts reads of the outbox.
type lookedAt struct {
	matchmaking.Store
	times atomic.Int64
}

func (l *lookedAt) Outgoing(ctx context.Context, queue string, age time.Duration, limit int) ([]matchmaking.OutboxEntry,
	error) {
	found, err := l.Store.Outgoing(ctx, queue, age, limit)
	if queue == "duel" {
		l.times.Add(1)
	}
	return found, err
}

// A fail-over loses an assignment that was written just before. No player had received it, since no replica had
// confirmed it, and so the players receive one match.
func TestAFailoverThatLosesAnAssignment(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{})
	w := newWorld(t) // of the channels
	tickets := &world{prefix: w.prefix, url: strings.Join(c.Addrs(), ",")}
	tickets.conn, tickets.queues = tickets.connect(t)
	confirmed := queues.New(tickets.conn, queues.Options{Confirmations: 1})
	t.Cleanup(confirmed.Close)
	store := &lookedAt{Store: confirmed}

	asked, free := make(chan struct{}, 16), make(chan struct{})
	a := &place{allocate: func(_ context.Context, p matchmaking.Proposal) (matchmaking.Allocation, error) {
		asked <- struct{}{}
		<-free
		return matchmaking.Allocation{Connection: "at " + p.ID}, nil
	}}
	o := w.options(t, define(t, "duel", `{"pendingTimeout":"10s"}`))
	o.Store, o.Build, o.LeaseTTL = store, buildWith(a), 3*time.Second
	s := newService(t, o)
	background(t, s.Run)
	x, y := create(t, s, service.NewTicket{Queue: "duel"}), create(t, s, service.NewTicket{Queue: "duel"})
	<-asked // so that the tickets and the claim are on the replica

	slot := c.Slot(w.prefix + "mm.{duel}.outbox")
	killed, _ := c.FailoverThatLoses(t, slot, func() {
		close(free)
		require.Eventually(t, func() bool {
			state, err := tickets.queues.Describe(t.Context(), "duel", 0)
			return err == nil && state.Outgoing == 2
		}, soon, time.Millisecond)
		before := store.times.Load()
		require.Eventually(t, func() bool { return store.times.Load() > before }, soon, time.Millisecond)
		require.Empty(t, w.fetch(t, x.ID, 0).Messages, "no replica has it")
		require.Empty(t, w.fetch(t, y.ID, 0).Messages)
	})
	killed.Restart(t) // a replica, for the next confirmation
	match := w.requireMatched(t, x.ID, y.ID).MatchID
	for _, id := range []string{x.ID, y.ID} {
		var read matchmaking.Ticket
		require.Eventually(t, func() bool { // the new replica may confirm late
			var err error
			read, err = s.Ticket(t.Context(), id)
			return err == nil
		}, soon, time.Millisecond)
		require.Equal(t, matchmaking.MatchFound, read.Status)
		require.Equal(t, match, read.MatchID)
		require.Len(t, w.fetch(t, id, 0).Messages, 1)
	}
}

// A fail-over loses a ticket that was just created. Its player's wait ends, and all others continue.
func TestPlayersOfLostTicketsAreTold(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{})
	w := newWorld(t) // of the channels
	tickets := &world{prefix: w.prefix, url: strings.Join(c.Addrs(), ",")}
	tickets.conn, tickets.queues = tickets.connect(t)
	registry := prometheus.NewRegistry()
	o := w.options(t, define(t, "trio", `{"match":{"teams":3}}`))
	o.Store, o.Metrics = tickets.queues, measured(t, registry)
	s := newService(t, o)
	background(t, s.Run)
	knows := func(n float64) func() bool {
		return func() bool { return values(t, registry, "trio")["tidemark_tickets SEARCHING"] == n }
	}
	stays := create(t, s, service.NewTicket{Queue: "trio"})
	require.Eventually(t, knows(1), soon, time.Millisecond)
	slot := c.Slot(w.prefix + "mm.{trio}.outbox")
	owner, replica := c.Owner(t, slot), c.Replica(t, slot)
	require.Eventually(t, func() bool { return onReplica(t, owner, replica) }, soon, time.Millisecond)

	var lost matchmaking.Ticket
	c.FailoverThatLoses(t, slot, func() {
		lost = create(t, s, service.NewTicket{Queue: "trio"})
		require.Eventually(t, knows(2), soon, time.Millisecond)
	})
	_, err := w.channels.Fetch(t.Context(), channel.Query{
		Channel: matchmaking.ChannelOf(lost.ID), Subscriber: matchmaking.Subscriber, Wait: soon,
	})
	require.ErrorIs(t, err, channel.ErrNoSubscriber)
	require.Empty(t, w.fetch(t, stays.ID, 0).Messages)
	read, err := s.Ticket(t.Context(), stays.ID)
	require.NoError(t, err)
	require.Equal(t, matchmaking.Searching, read.Status)
}

// onReplica reports whether a replica has as many keys as its primary.
func onReplica(t *testing.T, primary, replica *redistest.Node) bool {
	t.Helper()
	keys := func(n *redistest.Node) int64 {
		count, err := n.Do(t, "DBSIZE").AsInt64()
		require.NoError(t, err)
		return count
	}
	return keys(primary) == keys(replica)
}
