package channels

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// publishing is a set of publishers that run while a primary fails.
type publishing struct {
	store      *Store
	replicated bool         // half of the publishers require a replica
	answers    atomic.Int64 // publishes that were answered
	longest    atomic.Int64 // nanoseconds between two of them
	last       atomic.Int64
	ending     atomic.Bool // no more is published
	failed     atomic.Bool // a publisher got an error
	g          errgroup.Group
}

// publishOn starts publishers, which publish until end is called.
func publishOn(t *testing.T, s *Store, name string, replicated bool) *publishing {
	t.Helper()
	p := &publishing{store: s, replicated: replicated}
	p.last.Store(time.Now().UnixNano())
	for i := range 4 {
		p.g.Go(func() error { return p.publish(t.Context(), name, "p"+strconv.Itoa(i)+"-", i%2) })
	}
	p.awaitMore(t)
	return p
}

// publish publishes until the end, and retries each message until it succeeds.
func (p *publishing) publish(ctx context.Context, name, first string, replicas int) error {
	for i := 0; !p.ending.Load(); i++ {
		r := publishOf(name, first+strconv.Itoa(i))
		if p.replicated {
			r.Policy.Replicas = replicas
		}
		_, err := p.store.Publish(ctx, r)
		for p.mayFail(err) {
			_, err = p.store.Publish(ctx, r)
		}
		if err != nil {
			p.failed.Store(true)
			return err
		}
		p.answered()
	}
	return nil
}

// mayFail reports whether a publish may return an error: if the store's time limit is shorter than a fail-over, or if
// there is no replica.
func (p *publishing) mayFail(err error) bool {
	return errors.Is(err, &fault.Error{Slug: fault.SlugNotReplicated}) ||
		errors.Is(err, fault.ErrUnavailable) && p.store.conn.Timeout() < time.Minute
}

func (p *publishing) answered() {
	p.answers.Add(1)
	now := time.Now().UnixNano()
	pause := now - p.last.Swap(now)
	for {
		longest := p.longest.Load()
		if pause <= longest || p.longest.CompareAndSwap(longest, pause) {
			return
		}
	}
}

// awaitMore waits for publishes that began after the call.
func (p *publishing) awaitMore(t *testing.T) {
	t.Helper()
	before := p.answers.Load()
	storetest.WaitFor(t, "publishes to be answered", func() bool {
		return p.answers.Load() > before+20 ||
			p.failed.Load()
	})
}

func (p *publishing) end(t *testing.T) {
	t.Helper()
	p.ending.Store(true)
	require.NoError(t, p.g.Wait())
	t.Logf("%d publishes, the longest pause was %s", p.answers.Load(),
		time.Duration(p.longest.Load()).Round(time.Millisecond))
}

// requireSound expects the stored channel to have no hole and no clock twice.
func requireSound(t *testing.T, s *Store, direct rueidis.Client, name string) {
	t.Helper()
	at, err := s.Position(t.Context(), name)
	require.NoError(t, err)
	requireWhole(t, s, direct, name, int(at.Clock))
}

// When Sentinels promote a replica, the store uses it, and its channels work as before.
func TestFailureSentinelFailover(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout time.Duration
		fail    func(testing.TB, *redistest.SentinelNodes)
	}{
		"paused": {time.Minute, func(t testing.TB, nodes *redistest.SentinelNodes) {
			t.Helper()
			nodes.Nodes()[0].Pause(t)
		}},
		"killed, and a Sentinel is silent": {2 * time.Second, func(t testing.TB, nodes *redistest.SentinelNodes) {
			t.Helper()
			nodes.Sentinels()[0].Pause(t) // the one that the store listens to
			nodes.Nodes()[0].Kill(t)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := redistest.StartSentinel(t, redistest.Options{})
			s := open(t, redis.Options{
				URL: strings.Join(nodes.Addrs(), ","), Sentinel: redis.Sentinel{Master: redistest.MasterName},
				Timeout: c.timeout,
			})
			l := listen(t, s, "x")
			p := publishOn(t, s, "x", false)
			c.fail(t, nodes)
			promoted := nodes.Nodes()[1]
			storetest.WaitFor(t, "the replica to be promoted", func() bool { return isPrimary(t, promoted) })
			p.awaitMore(t)
			p.end(t)
			requireSound(t, s, promoted.Client(), "x")
			l.await(t, channel.EventConfirmed)
			l.requirePublished(t, s, "x", "after")
			require.NoError(t, s.conn.Ready(t.Context()))
		})
	}
}

func isPrimary(t *testing.T, n *redistest.Node) bool {
	t.Helper()
	role, err := n.Do(t, "ROLE").ToArray()
	if err != nil {
		return false // a promotion cuts connections
	}
	text, err := role[0].ToString()
	require.NoError(t, err)
	return text == "master"
}

// When a cluster promotes a replica, the store uses it.
func TestFailureClusterFailover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{})
	s := open(t, redis.Options{URL: strings.Join(c.Addrs(), ","), Timeout: time.Minute})
	slot := c.Slot("{x}")
	l := listen(t, s, "x")
	p := publishOn(t, s, "x", false)

	_, promoted := c.Failover(t, slot)
	p.awaitMore(t)
	p.end(t)
	requireSound(t, s, promoted.Client(), "x")
	l.await(t, channel.EventConfirmed)
	l.requirePublished(t, s, "x", "after")

	lore{messages: 3}.make(t, s, nil, "y")
	require.NoError(t, storagetest.ErrorOf(s.conn.Inspect(t.Context())), "one node is away")
	other := open(t, redis.Options{URL: strings.Join(c.Addrs(), ",")})
	storetest.RequireEach(t.Context(), t, calls(t, other, "y"), storetest.RequireFine)
}

// When a replica takes over in a manual fail-over, nothing is lost.
func TestFailureClusterSwitchover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{})
	s := open(t, redis.Options{URL: c.Addrs()[0], Timeout: time.Minute})
	slot := c.Slot("{x}")
	p := publishOn(t, s, "x", true)
	var promoted *redistest.Node
	for range 2 {
		_, promoted = c.Switchover(t, slot)
		p.awaitMore(t)
	}
	p.end(t)
	at, err := s.Position(t.Context(), "x")
	require.NoError(t, err)
	require.GreaterOrEqual(t, int64(at.Clock), p.answers.Load())
	requireWhole(t, s, promoted.Client(), "x", int(at.Clock))
	l := listen(t, s, "x")
	l.requirePublished(t, s, "x", "after")
}

// When a replica takes over while messages are published and purged, each is purged, and the channel counts all of them.
func TestFailureSwitchoverAmidPurges(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{})
	s := open(t, redis.Options{URL: c.Addrs()[0], Timeout: time.Minute})
	lore{messages: 1}.make(t, s, nil, "x")
	p := &publishing{store: s}
	p.last.Store(time.Now().UnixNano())
	p.g.Go(func() error {
		for i := 0; !p.ending.Load(); i++ {
			published, err := s.Publish(t.Context(), publishOf("x", "p"+strconv.Itoa(i)))
			if err == nil {
				_, err = s.Purge(t.Context(), channel.PurgeRequest{Channel: "x", Policy: lore{}.policy(),
					Through: channel.From{Start: channel.StartAt, Clock: published[0].Clock}})
			}
			if err != nil {
				p.failed.Store(true)
				return err
			}
			p.answered()
		}
		return nil
	})
	p.awaitMore(t)
	for range 2 {
		c.Switchover(t, c.Slot("{x}"))
		p.awaitMore(t)
	}
	p.end(t)
	b, err := s.Fetch(t.Context(), lore{}.fetch("x"))
	require.NoError(t, err)
	require.Empty(t, b.Messages)
	require.Zero(t, b.Expired)
	require.GreaterOrEqual(t, int64(b.Purged), p.answers.Load())
}

// While a cluster is down all its channels are unavailable, even those of running nodes. Afterwards they are available
// again.
func TestFailureClusterDown(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{Replicas: -1, Args: storetest.Durable.Args})
	s := open(t, redis.Options{URL: strings.Join(c.Addrs(), ","), Timeout: time.Second})
	lore{messages: 3}.make(t, s, nil, "x")
	all := calls(t, s, "x")
	owner := c.Owner(t, c.Slot("{x}"))
	var killed *redistest.Node
	for _, n := range c.Nodes() {
		if n != owner {
			killed = n
		}
	}
	killed.Kill(t)
	storetest.WaitFor(t, "the cluster to be down", func() bool {
		return strings.HasPrefix(errorText(owner.Do(t, "GET", s.keys("x").Clock()).Error()), "CLUSTERDOWN")
	})
	onCluster := storetest.AllBut(all, "ready", "inspect", "receipt key") // those depend on other slots and nodes
	storetest.RequireEach(t.Context(), t, onCluster, storetest.RequireUnavailable)
	_, err := redis.Connect(storetest.Shortly(t), redis.Options{URL: killed.Addr(), Logger: s.conn.Logger()})
	require.Error(t, err)

	done := make(chan error)
	patient := open(t, redis.Options{URL: owner.Addr(), Timeout: time.Minute})
	go func() { done <- storagetest.ErrorOf(patient.Publish(t.Context(), publishOf("x", "patient"))) }()
	killed.Restart(t)
	c.AwaitOK(t)
	require.NoError(t, <-done)
	storetest.RequireEach(t.Context(), t, all, storetest.RequireFine)
}

// The running part of a cluster serves its channels, if the cluster's configuration allows that.
func TestFailureClusterPartlyDown(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{Replicas: -1, Args: []string{"--cluster-require-full-coverage",
		"no"}})
	s := open(t, redis.Options{URL: strings.Join(c.Addrs(), ","), Timeout: time.Second})
	lore{messages: 3}.make(t, s, nil, "x")
	up := c.Owner(t, c.Slot("{x}"))
	for name := range map[string]bool{"a": true, "b": true, "c": true, "d": true, "e": true, "f": true} {
		if c.Owner(t, c.Slot("{"+name+"}")) == up {
			continue
		}
		lore{messages: 3}.make(t, s, nil, name)
		// those aren't on the channel's node
		all := storetest.AllBut(calls(t, s, name), "ready", "inspect", "receipt key")
		c.Owner(t, c.Slot("{"+name+"}")).Kill(t)
		storetest.RequireEach(t.Context(), t, all, storetest.RequireUnavailable)
		break
	}
	other := open(t, redis.Options{URL: up.Addr()})
	for _, store := range []*Store{s, other} {
		storetest.RequireEach(t.Context(), t, storetest.AllBut(calls(t, store, "x"), "ready", "receipt key"),
			storetest.RequireFine)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A fail-over loses two publishes, and both are repeated by their publishers, after one of another publisher: the last
// one has the same ID and the same clock as before. The receipts of the lost history acknowledge nothing.
func TestFailoverThatLosesPublishes(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{})
	s := open(t, redis.Options{URL: strings.Join(c.Addrs(), ","), Timeout: time.Minute})
	lore{messages: 3}.make(t, s, nil, "x")
	request := lore{}.fetch("x")
	var lost, position channel.Batch
	c.FailoverThatLoses(t, c.Slot("{x}"), func() {
		for _, id := range []string{"x", "y"} {
			require.NoError(t, storagetest.ErrorOf(s.Publish(t.Context(), publishOf("x", id))))
		}
		var err error
		lost, err = s.Fetch(t.Context(), request)
		require.NoError(t, err)
		require.Len(t, lost.Messages, 5)
		tail := request
		tail.Subscriber, tail.Tail, tail.Max, tail.Identify = "", &channel.From{}, 0, true
		position, err = s.Fetch(t.Context(), tail)
		require.NoError(t, err)
	})
	for _, id := range []string{"z", "y"} {
		require.NoError(t, storagetest.ErrorOf(s.Publish(t.Context(), publishOf("x", id))))
	}
	old := receiptOf("x", lost)
	require.ErrorIs(t, s.Ack(t.Context(), channel.AckRequest{Receipt: old, Policy: request.Policy}),
		channel.ErrReceiptSuperseded)
	_, err := s.Next(t.Context(), channel.AckRequest{Receipt: old, Policy: request.Policy}, request)
	require.ErrorIs(t, err, channel.ErrReceiptSuperseded)
	ahead := request
	ahead.After = &old
	b, err := s.Fetch(t.Context(), ahead)
	require.NoError(t, err)
	require.True(t, b.Lost)
	ids := make([]string, len(b.Messages))
	for i, m := range b.Messages {
		ids[i] = m.ID
	}
	require.Equal(t, []string{"m1", "m2", "m3", "z", "y"}, ids)
	start := receiptOf("x", position)
	ahead.Subscriber, ahead.Tail, ahead.After = "", &channel.From{Start: channel.StartEarliest}, &start
	b, err = s.Fetch(t.Context(), ahead)
	require.NoError(t, err)
	require.True(t, b.Lost)
	require.Len(t, b.Messages, 5)
}
