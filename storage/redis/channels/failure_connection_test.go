package channels

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// Scripts that Redis has lost are sent again.
func TestFailureScriptsFlushed(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	s := open(t, redis.Options{URL: n.URL()})
	lore{messages: 1}.make(t, s, n.Client(), "x")
	for _, c := range calls(t, s, "x") {
		require.NoError(t, n.Do(t, "SCRIPT", "FLUSH", "SYNC").Error())
		require.NoError(t, c.Do(t.Context()), c.Name)
	}
	require.NoError(t, n.Do(t, "SCRIPT", "FLUSH", "SYNC").Error())
	storetest.RequireEach(t.Context(), t, calls(t, s, "x"), storetest.RequireFine)

	lore{messages: 1}.make(t, s, n.Client(), "y")
	b, err := s.Fetch(t.Context(), lore{}.fetch("y"))
	require.NoError(t, err)
	require.NoError(t, n.Do(t, "SCRIPT", "FLUSH", "SYNC").Error())
	acked := receiptOf("y", b)
	polled := s.Poll(t.Context(), []channel.PollRequest{{FetchRequest: lore{}.fetch("y"), Receipt: &acked}})[0]
	require.NoError(t, polled.Err)
	require.Equal(t, polled.Clock, polled.Mark, "the mark has moved, although it was read before the script ran")
}

// Connections that are cut while messages are published only delay them.
func TestFailureConnectionsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	const publishers, messages, kills = 8, 100, 25
	n := redistest.Start(t, redistest.Options{})
	s := open(t, redis.Options{URL: n.URL(), Timeout: time.Minute})
	var answered atomic.Int64
	g, ctx := errgroup.WithContext(t.Context())
	for i := range publishers {
		g.Go(func() error {
			return publishAll(ctx, s, "x", "p"+strconv.Itoa(i)+"-", messages, func() { answered.Add(1) })
		})
	}
	for i := range kills {
		storetest.WaitFor(t, "publishes between the kills", func() bool {
			return answered.Load() >= int64(i*publishers*messages/kills) || ctx.Err() != nil
		})
		require.NoError(t, n.Do(t, "CLIENT", "KILL", "TYPE", "normal").Error())
	}
	require.NoError(t, g.Wait())
	requireWhole(t, s, n.Client(), "x", publishers*messages)
}

// While Redis is down every operation returns ErrUnavailable within the store's time limit. When Redis is back the
// same store continues.
func TestFailureRedisDown(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct {
		away, back func(*redistest.Node, testing.TB)
	}{
		"stopped": {(*redistest.Node).Stop, (*redistest.Node).Restart},
		"killed":  {(*redistest.Node).Kill, (*redistest.Node).Restart},
		"paused":  {(*redistest.Node).Pause, (*redistest.Node).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := redistest.Start(t, storetest.Durable)
			s := open(t, redis.Options{URL: n.URL(), Timeout: time.Minute})
			hasty := open(t, redis.Options{URL: n.URL(), Timeout: 2 * time.Second})
			lore{messages: 3}.make(t, s, n.Client(), "x")
			all, inVain := calls(t, s, "x"), calls(t, hasty, "x")
			stored := func() map[string]string { // without the key of a readiness check, which may still be in progress
				all := storetest.Dump(t, n)
				maps.DeleteFunc(all, func(key, _ string) bool { return strings.HasPrefix(key, "tidemark.ready.") })
				return all
			}
			before := stored()
			how.away(n, t)
			storetest.RequireEach(t.Context(), t, inVain, storetest.RequireUnavailable)
			storetest.RequireEach(storetest.Shortly(t), t, all, storetest.RequireUnavailable)
			how.back(n, t)
			if name != "paused" { // commands sent before are still executed when it resumes
				require.Equal(t, before, stored())
			}
			storetest.RequireEach(t.Context(), t, all, storetest.RequireFine)
			storetest.RequireEach(t.Context(), t, all, storetest.RequireFine)
			d, err := s.Describe(t.Context(), about("x", lore{}.policy()))
			require.NoError(t, err)
			require.EqualValues(t, 3+4, d.Clock, "the repeats changed nothing")
			require.EqualValues(t, 3+4, d.Live)
		})
	}
}

// A call that begins while Redis is down succeeds if Redis is back in time.
func TestFailureRedisRestarts(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, storetest.Durable)
	s := open(t, redis.Options{URL: n.URL(), Timeout: time.Minute})
	lore{messages: 1}.make(t, s, n.Client(), "x")
	all := calls(t, s, "x")
	n.Kill(t)
	done := make(chan error)
	for _, c := range all {
		go func() { done <- c.Do(t.Context()) }()
	}
	n.Restart(t)
	for range all {
		require.NoError(t, <-done)
	}
}

// A call whose context is canceled returns the context's error at once, while other calls continue to wait.
func TestFailureContextCancelled(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	s := open(t, redis.Options{URL: n.URL(), Timeout: time.Hour})
	lore{messages: 1}.make(t, s, n.Client(), "x")
	all := storetest.AllBut(calls(t, s, "x"), "ready") // creates a subscription of its own, see TestFailureListen…
	n.Pause(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	var running atomic.Int64
	for _, c := range all {
		go func() {
			running.Add(1)
			done <- c.Do(ctx)
		}()
	}
	storetest.WaitFor(t, "all calls to be on their way", func() bool { return int(running.Load()) == len(all) })
	patient := make(chan error)
	go func() { patient <- storagetest.ErrorOf(s.Publish(t.Context(), publishOf("x", "patient"))) }()
	cancel()
	for range all {
		require.ErrorIs(t, <-done, context.Canceled)
	}
	err := storagetest.ErrorOf(s.Publish(ctx, publishOf("x", "late")))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, fault.ErrUnavailable)
	n.Resume(t)
	require.NoError(t, <-patient)
}

// A Redis that accepts no more connections is unavailable for a while.
func TestFailureTooManyClients(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	s := open(t, redis.Options{URL: n.URL(), Timeout: time.Minute})
	lore{messages: 1}.make(t, s, n.Client(), "x")
	storetest.Set(t, n, "maxclients", "1")
	require.NoError(t, n.Do(t, "CLIENT", "KILL", "TYPE", "normal").Error())
	err := storagetest.ErrorOf(s.Publish(storetest.Shortly(t), publishOf("x", "m2")))
	storetest.RequireUnavailable(t, err)
	storetest.Set(t, n, "maxclients", "100")
	require.NoError(t, storagetest.ErrorOf(s.Publish(t.Context(), publishOf("x", "m2"))))
}

// After Close operations are refused at once.
func TestFailureClosed(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	s := open(t, redis.Options{URL: n.URL(), Timeout: time.Hour})
	lore{messages: 1}.make(t, s, n.Client(), "x")
	all := calls(t, s, "x")
	s.conn.Close()
	storetest.RequireEach(t.Context(), t, all, func(t testing.TB, err error, about ...any) {
		require.ErrorIs(t, err, fault.ErrUnavailable, about...)
	})
}
