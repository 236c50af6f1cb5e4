package redis

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// visit listens to a channel until that is confirmed, and leaves it.
func visit(ctx context.Context, s *Store, name string) error {
	confirmed := make(chan struct{}, 1)
	defer s.Listen(name, func(channel.Event) { signal(confirmed) })()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-confirmed:
		return nil
	}
}

func visitAll(t *testing.T, s *Store, first string, n int) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(50)
	for i := range n {
		g.Go(func() error { return visit(t.Context(), s, first+strconv.Itoa(i)) })
	}
	require.NoError(t, g.Wait())
}

// subscribed returns the topics that Redis has subscribers of.
func subscribed(t *testing.T, n *redistest.Node, s *Store) []string {
	t.Helper()
	topics, err := n.Do(t, "PUBSUB", "SHARDCHANNELS", s.keys.prefix+"*").AsStrSlice()
	require.NoError(t, err)
	return topics
}

// Channels that nobody listens to any more leave nothing behind for long, and those that are listened to go on without
// an interruption: every message is told once, in order.
func TestSubscriptionsOfManyChannels(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	s := openAt(t, Options{URL: n.URL()})
	l := listen(t, s, "kept")
	first := subscriberOf(t, s)
	stop, published := make(chan struct{}), make(chan int, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				published <- i
				return
			default:
				_, _ = s.Publish(context.WithoutCancel(t.Context()), one("kept", "m"+strconv.Itoa(i)))
			}
		}
	}()
	for i := range 4 {
		visitAll(t, s, "visited"+strconv.Itoa(i)+".", mostStale+10)
		require.LessOrEqual(t, len(subscribed(t, n, s)), 2*mostStale+1)
	}
	close(stop)
	for i := range <-published {
		e := <-l.events
		require.Equal(t, channel.EventPublished, e.Kind, "nobody is told of an interruption")
		require.Equal(t, "m"+strconv.Itoa(i), e.Message.ID)
	}
	awaitEnd(first)
	clients, err := n.Do(t, "CLIENT", "LIST", "TYPE", "pubsub").ToString()
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(clients, "\n"), 2)
}

// Messages that nobody wants any more stop coming.
func TestSubscriptionsUnwantedMessages(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	s := openAt(t, Options{URL: n.URL()})
	l := listen(t, s, "kept")
	require.NoError(t, visit(t.Context(), s, "busy"))
	old := subscriberOf(t, s)
	require.NoError(t, publishAll(t.Context(), s, "busy", "m", mostStale, func() {}))
	awaitEnd(old)
	require.Equal(t, []string{s.channel("kept").topic()}, subscribed(t, n, s))
	l.requirePublished(t, s, "kept", "after")
	require.Empty(t, l.events)
}

// moving is a client that goes over to another node, as one of Sentinels does.
type moving struct {
	rueidis.Client
	to atomic.Pointer[Store]
}

func (m *moving) Nodes() map[string]rueidis.Client {
	if to := m.to.Load(); to != nil {
		return to.client.Nodes()
	}
	return m.Client.Nodes()
}

// A connection to a node that the client has left is given up although it works: notifications are sent elsewhere.
func TestSubscriptionsFollowTheClient(t *testing.T) {
	t.Parallel()
	s := openAt(t, Options{URL: redistest.Start(t, redistest.Options{}).URL()})
	next := openAt(t, Options{URL: redistest.Start(t, redistest.Options{}).URL()})
	client := &moving{Client: s.client}
	s.subscriptions = newSubscriptions(client)
	l := listen(t, s, "x")
	l.requirePublished(t, s, "x", "m1")
	client.to.Store(next)
	l.await(t, channel.EventConfirmed)
	l.requirePublished(t, next, "x", "m2")
}

// In a cluster topics are subscribed at primaries, also after a node has become a replica: a replica takes subscriptions
// too, but what it hears of may come late, or not at all.
func TestSubscriptionsAreAtPrimaries(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{})
	s := openAt(t, Options{URL: c.Addrs()[0]})
	const channels = 16
	listeners := make([]*listener, channels)
	for i := range listeners {
		listeners[i] = listen(t, s, strconv.Itoa(i))
	}
	requireAt := func(owned func(*redistest.Node) bool) {
		t.Helper()
		for _, n := range c.Nodes() {
			for _, topic := range subscribed(t, n, s) {
				require.Equal(t, n.Addr(), c.Owner(t, c.Slot(topic)).Addr())
			}
			require.Equal(t, owned(n), len(subscribed(t, n, s)) > 0)
		}
	}
	primary := func(n *redistest.Node) bool {
		role, err := n.Do(t, "ROLE").ToArray()
		require.NoError(t, err)
		name, err := role[0].ToString()
		require.NoError(t, err)
		return name == "master"
	}
	requireAt(primary)

	slot := c.Slot(s.channel("0").topic())
	c.Switchover(t, slot)
	for i, l := range listeners {
		if c.Owner(t, c.Slot(s.channel(strconv.Itoa(i)).topic())) == c.Owner(t, slot) {
			l.await(t, channel.EventConfirmed)
		}
	}
	requireAt(primary)
}

// Messages that come twice during a hand-over are told once, but no message is taken for another one with its text: the
// nudges of a queue are all the same.
func TestSubscriptionHandOver(t *testing.T) {
	t.Parallel()
	for repeats, want := range map[bool][]string{false: {"a", "b"}, true: {"a", "a", "b"}} {
		var told []string
		sub := &subscription{message: func(text string) { told = append(told, text) }, repeats: repeats}
		old, next := new(subscriber), new(subscriber)
		sub.enter(old)
		sub.enter(next)
		sub.deliver(old, "a")
		sub.goOver()
		sub.deliver(next, "a")
		sub.deliver(next, "b")
		sub.settle()
		require.Equal(t, want, told)
	}
}
