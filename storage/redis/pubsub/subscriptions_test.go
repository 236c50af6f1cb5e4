package pubsub

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// open returns subscriptions to some nodes, and publishes through the same client.
func open(t *testing.T, addrs ...string) *Subscriptions {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: addrs, DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1, DisableRetry: true,
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	s := New(t.Context(), c, func() backoff.BackOff { return backoff.NewConstantBackOff(time.Millisecond) },
		func(context.Context, string) string { return "" })
	t.Cleanup(s.Close)
	return s
}

func start(t *testing.T) (*redistest.Node, *Subscriptions) {
	t.Helper()
	n := redistest.Start(t, redistest.Options{})
	return n, open(t, n.Addr())
}

func publish(t *testing.T, s *Subscriptions, topic, text string) {
	t.Helper()
	require.NoError(t, s.client.Do(context.WithoutCancel(t.Context()),
		s.client.B().Spublish().Channel(topic).Message(text).Build()).Error())
}

// heard is a topic that a test listens to.
type heard struct {
	confirmed, interrupted chan struct{}
	messages               chan string
	stop                   func()
}

// listen listens to a topic, and returns when Redis has confirmed that.
func listen(t *testing.T, s *Subscriptions, topic string) *heard {
	t.Helper()
	h := &heard{
		confirmed: make(chan struct{}, 1000), interrupted: make(chan struct{}, 1000),
		messages: make(chan string, 10000),
	}
	h.stop = s.Listen(topic, Listener{
		Confirmed:   func() { h.confirmed <- struct{}{} },
		Interrupted: func(error) { h.interrupted <- struct{}{} },
		Message:     func(text string) { h.messages <- text },
	})
	t.Cleanup(h.stop)
	<-h.confirmed
	return h
}

// visit listens to topics until each is confirmed.
func visit(t *testing.T, s *Subscriptions, first string, n int) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(50)
	for i := range n {
		g.Go(func() error {
			confirmed := make(chan struct{}, 1)
			defer s.Listen(first+strconv.Itoa(i), Listener{Confirmed: func() { confirmed <- struct{}{} },
				Message: func(string) {}})()
			<-confirmed
			return nil
		})
	}
	require.NoError(t, g.Wait())
}

// only returns the only connection.
func only(t *testing.T, s *Subscriptions) *subscriber {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.nodes, 1)
	for _, at := range s.nodes {
		return at
	}
	return nil
}

// subscribed returns the topics that Redis has subscribers of.
func subscribed(t *testing.T, n *redistest.Node) []string {
	t.Helper()
	topics, err := n.Do(t, "PUBSUB", "SHARDCHANNELS").AsStrSlice()
	require.NoError(t, err)
	return topics
}

// awaitEnd waits until a connection has ended.
func awaitEnd(t *testing.T, at *subscriber) {
	t.Helper()
	for at.failure.Load() == nil {
		require.NoError(t, t.Context().Err())
		runtime.Gosched()
	}
}

// Topics without listeners are removed after some time, and listeners of other topics aren't interrupted: they get
// every message once, in order.
func TestManyTopics(t *testing.T) {
	t.Parallel()
	n, s := start(t)
	kept := listen(t, s, "kept")
	first := only(t, s)
	stop, published := make(chan struct{}), make(chan int, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				published <- i
				return
			default:
				publish(t, s, "kept", "m"+strconv.Itoa(i))
			}
		}
	}()
	for i := range 4 {
		visit(t, s, "visited"+strconv.Itoa(i)+".", mostStale+10)
		require.LessOrEqual(t, len(subscribed(t, n)), 2*mostStale+1)
	}
	close(stop)
	for i := range <-published {
		require.Equal(t, "m"+strconv.Itoa(i), <-kept.messages)
	}
	require.Empty(t, kept.interrupted)
	awaitEnd(t, first)
	clients, err := n.Do(t, "CLIENT", "LIST", "TYPE", "pubsub").ToString()
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(clients, "\n"), 2)
}

// A connection is replaced if it gets many messages without listeners.
func TestUnwantedMessages(t *testing.T) {
	t.Parallel()
	n, s := start(t)
	kept := listen(t, s, "kept")
	visit(t, s, "busy", 1)
	old := only(t, s)
	for range mostStale {
		publish(t, s, "busy0", "unwanted")
	}
	awaitEnd(t, old)
	require.Equal(t, []string{"kept"}, subscribed(t, n))
	publish(t, s, "kept", "after")
	require.Equal(t, "after", <-kept.messages)
}

// moving is a client that switches to another node, like a client of Sentinels.
type moving struct {
	rueidis.Client
	to atomic.Pointer[rueidis.Client]
}

func (m *moving) Nodes() map[string]rueidis.Client {
	if to := m.to.Load(); to != nil {
		return (*to).Nodes()
	}
	return m.Client.Nodes()
}

// A connection to a node that the client has left is closed although it works: messages are published elsewhere.
func TestFollowsTheClient(t *testing.T) {
	t.Parallel()
	_, s := start(t)
	_, next := start(t)
	client := &moving{Client: s.client}
	s.client = client
	x := listen(t, s, "x")
	client.to.Store(&next.client)
	<-x.confirmed
	require.Len(t, x.interrupted, 1)
	publish(t, next, "x", "m2")
	require.Equal(t, "m2", <-x.messages)
}

// In a cluster topics are subscribed at primaries, also after a node has become a replica: a replica accepts
// subscriptions too, but its messages may come late, or not at all.
func TestPrimaries(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{})
	s := open(t, c.Addrs()...)
	const topics = 16
	requireAtPrimaries := func() {
		t.Helper()
		for _, n := range c.Nodes() {
			at := subscribed(t, n)
			for _, topic := range at {
				require.Equal(t, n.Addr(), c.Owner(t, c.Slot(topic)).Addr())
			}
			role, err := n.Do(t, "ROLE").ToArray()
			require.NoError(t, err)
			name, err := role[0].ToString()
			require.NoError(t, err)
			require.Equal(t, name == "master", len(at) > 0)
		}
	}
	var all [topics]*heard
	for i := range all {
		all[i] = listen(t, s, strconv.Itoa(i))
	}
	requireAtPrimaries()
	moved := c.Owner(t, c.Slot("0"))
	var ends []*heard
	for i, h := range all {
		if c.Owner(t, c.Slot(strconv.Itoa(i))) == moved {
			ends = append(ends, h)
		}
	}
	c.Switchover(t, c.Slot("0"))
	for _, h := range ends {
		<-h.confirmed
	}
	requireAtPrimaries()
}

// astray is a client of a Cluster that sends commands to a node that is gone.
type astray struct{ rueidis.Client }

func (astray) Do(context.Context, rueidis.Completed) rueidis.RedisResult {
	return rueidis.NewErrorResult(errClosed)
}

// TestWhileTheClientIsAstray: a subscription ends, and the client still sends commands to the node that was its topic's.
// It subscribes again at the node that another one names.
func TestWhileTheClientIsAstray(t *testing.T) {
	t.Parallel()
	c, topic := redistest.Cluster(t), redistest.Prefix(t)+"x"
	owner := c.Owner(t, c.Slot(topic))
	s := open(t, c.Addrs()...)
	s.client = astray{s.client}
	asked := 0
	s.locate = func(_ context.Context, key string) string {
		require.Equal(t, topic, key)
		if asked++; asked == 1 {
			return ""
		}
		return owner.Addr()
	}
	x := listen(t, s, topic)
	s.mu.Lock()
	for _, at := range s.nodes {
		at.close()
	}
	s.mu.Unlock()
	<-x.confirmed
	require.Equal(t, 2, asked)
	require.NoError(t, owner.Do(t, "SPUBLISH", topic, "m").Error())
	require.Equal(t, "m", <-x.messages)
}

// Messages that arrive twice during a hand-over are passed on once, but messages that may repeat are all passed on.
func TestHandOver(t *testing.T) {
	t.Parallel()
	for repeats, want := range map[bool][]string{false: {"a", "b"}, true: {"a", "a", "b"}} {
		var passed []string
		sub := &subscription{listener: Listener{Message: func(text string) { passed = append(passed, text) },
			Repeats: repeats}}
		old, next := new(subscriber), new(subscriber)
		sub.enter(old)
		sub.enter(next)
		sub.deliver(old, "a")
		sub.switchOver()
		sub.deliver(next, "a")
		sub.deliver(next, "b")
		sub.finish()
		require.Equal(t, want, passed)
	}
}

// A listener can be stopped at any moment, without leaks.
func TestStop(t *testing.T) {
	t.Parallel()
	n, s := start(t)
	for i := range 300 { // before, while and after it is confirmed
		confirmed := make(chan struct{}, 1)
		stop := s.Listen("x", Listener{Confirmed: func() { confirmed <- struct{}{} }, Message: func(string) {}})
		if i%3 == 0 {
			<-confirmed
		}
		for range i % 3 { // takes about as long as Listen takes to subscribe
			require.NoError(t, s.client.Do(t.Context(), s.client.B().Exists().Key("x").Build()).Error())
		}
		stop()
		require.Zero(t, s.Listeners("x"))
	}
	paused := listen(t, s, "paused")
	n.Pause(t)
	paused.stop()
	n.Resume(t)
	require.Zero(t, s.Listeners("paused"))
	listen(t, s, "x")
	s.Close()
	interrupted := make(chan error, 1)
	s.Listen("x", Listener{Interrupted: func(err error) { interrupted <- err }})
	require.ErrorIs(t, <-interrupted, rueidis.ErrClosing)
}
