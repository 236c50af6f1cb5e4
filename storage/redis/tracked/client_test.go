package tracked_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// reader is a client, its reports, and a connection that changes keys independently.
type reader struct {
	*tracked.Client
	t       *testing.T
	conn    *redis.Conn
	direct  rueidis.Client
	changed chan string
	lost    chan struct{}
}

func open(t *testing.T, conn *redis.Conn, o tracked.Options) *reader {
	t.Helper()
	c, err := tracked.Open(t.Context(), conn, o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	r := &reader{
		Client: c, t: t, conn: conn, direct: conn.Client(), changed: make(chan string, 1000),
		lost: make(chan struct{}, 1000),
	}
	c.Listen(tracked.Listener{
		Changed: func(key string) { r.changed <- key },
		Lost:    func() { r.lost <- struct{}{} },
	})
	return r
}

func (r *reader) do(command string, args ...string) {
	r.t.Helper()
	require.NoError(r.t, r.conn.Retry(r.t.Context(), "test", func(ctx context.Context) error {
		args := append([]string{r.conn.Prefix() + args[0]}, args[1:]...)
		return r.direct.Do(ctx, r.direct.B().Arbitrary(command).Keys(args[0]).Args(args[1:]...).Build()).Error()
	}))
}

func (r *reader) get(key string) tracked.Entry {
	r.t.Helper()
	entries, err := r.GetMany(r.t.Context(), []string{key})
	require.NoError(r.t, err)
	return entries[0]
}

// forget clears the reports.
func (r *reader) forget() {
	for len(r.changed)+len(r.lost) > 0 {
		select {
		case <-r.changed:
		case <-r.lost:
		}
	}
}

// await waits until a key was reported, or a loss for the empty string.
func (r *reader) await(key string) {
	r.t.Helper()
	limit := time.After(storetest.Patience)
	for {
		select {
		case got := <-r.changed:
			if got == key {
				return
			}
		case <-r.lost:
			if key == "" {
				return
			}
		case <-limit:
			require.FailNow(r.t, "never reported", "%q", key)
		}
	}
}

// kept reads a key until it is answered from memory: a client also reports losses while it opens its first connections.
func (r *reader) kept(key string) {
	r.t.Helper()
	storetest.WaitFor(r.t, key+" to be kept", func() bool { return r.Kept(r.t.Context(), key) })
}

// becomes waits until a key is answered with a value; empty: no key.
func (r *reader) becomes(key, value string) {
	r.t.Helper()
	storetest.WaitFor(r.t, key+" to be "+value, func() bool { return string(r.get(key).Bytes) == value })
}

func TestReads(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, k storagetest.Redis) {
		r := open(t, storetest.Connect(t, redis.Options{URL: k.URL, KeyPrefix: redistest.Prefix(t)}), tracked.Options{})
		r.do("SET", "a", "1", "PX", "100000")
		r.do("SET", "b", "2")
		r.do("HSET", "h", "f", "v", "g", "w")
		r.do("PEXPIRE", "h", "100000")
		for _, key := range []string{"a", "b"} {
			r.kept(key)
		}
		for range 2 {
			many, err := r.GetMany(t.Context(), []string{"b", "none", "a", "b"})
			require.NoError(t, err)
			for i, want := range []string{"2", "", "1", "2"} {
				require.Equal(t, want, string(many[i].Bytes))
				require.Equal(t, want != "", many[i].Found)
			}
			require.True(t, r.Kept(t.Context(), "a"))
			require.True(t, r.Kept(t.Context(), "b"))
			hash, ends, err := r.HGetAll(t.Context(), "h")
			require.NoError(t, err)
			require.Equal(t, map[string]string{"f": "v", "g": "w"}, hash)
			require.WithinDuration(t, time.Now().Add(100*time.Second), ends, storetest.Patience)
			none, _, err := r.HGetAll(t.Context(), "none")
			require.NoError(t, err)
			require.Empty(t, none)
		}
		nothing, err := r.GetMany(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, nothing)
		_, err = r.GetMany(t.Context(), []string{"h"})
		require.ErrorContains(t, err, "WRONGTYPE")
	})
}

// Each kind of change of a key is reported, and then the new value is read.
func TestChanges(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, k storagetest.Redis) {
		r := open(t, storetest.Connect(t, redis.Options{URL: k.URL, KeyPrefix: redistest.Prefix(t)}), tracked.Options{})
		for _, change := range []struct {
			command []string
			want    string
		}{
			{[]string{"SET", "k", "2"}, "2"},
			{[]string{"APPEND", "k", "3"}, "13"},
			{[]string{"DEL", "k"}, ""},
			{[]string{"UNLINK", "k"}, ""},
			{[]string{"PEXPIRE", "k", "1"}, ""},
		} {
			r.do("SET", "k", "1")
			r.becomes("k", "1")
			r.kept("k")
			r.forget()
			r.do(change.command[0], change.command[1:]...)
			r.await("k")
			r.becomes("k", change.want)
		}
		before, _, err := r.HGetAll(t.Context(), "h")
		require.NoError(t, err)
		require.Empty(t, before)
		r.do("HSET", "h", "f", "v")
		r.await("h")
		after, _, err := r.HGetAll(t.Context(), "h")
		require.NoError(t, err)
		require.Equal(t, map[string]string{"f": "v"}, after)
	})
}

func TestWhatIsKeptCostsNothing(t *testing.T) {
	t.Parallel()
	node := redistest.Standalone(t)
	proxy := redistest.NewProxy(t, node)
	conn := storetest.Connect(t, redis.Options{URL: proxy.Addr(), KeyPrefix: redistest.Prefix(t)})
	r := open(t, conn, tracked.Options{Memory: 1 << 20})
	r.do("SET", "k", "1")
	r.get("k")
	sent := proxy.Count()
	for range 1000 {
		require.Equal(t, "1", string(r.get("k").Bytes))
	}
	require.Equal(t, sent, proxy.Count())

	large := strings.Repeat("x", 10<<10)
	for i := range 300 { // three times the memory
		r.do("SET", fmt.Sprint(i), large)
		r.get(fmt.Sprint(i))
	}
	sent = proxy.Count()
	for i := range 300 {
		r.get(fmt.Sprint(i))
	}
	require.Greater(t, len(storetest.WithName(proxy.Sent(sent), "GET")), 200, "more was kept than fits")
}

func TestStoppedListener(t *testing.T) {
	t.Parallel()
	conn, _ := storetest.Standalone(t)
	r := open(t, conn, tracked.Options{})
	var calls int
	stop := r.Listen(tracked.Listener{Changed: func(string) { calls++ }, Lost: func() { calls++ }})
	stop()
	r.get("k")
	r.do("SET", "k", "1")
	r.await("k")
	require.Zero(t, calls)
}

// A caller that gives up doesn't cancel the read for the other callers that wait for it.
func TestOneGivesUp(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Standalone(t))
	conn := storetest.Connect(t, redis.Options{URL: proxy.Addr(), KeyPrefix: redistest.Prefix(t)})
	r := open(t, conn, tracked.Options{})
	r.do("SET", "k", "1")
	sent := proxy.Count()
	proxy.Hold()
	canceled, cancel := context.WithCancel(t.Context())
	first, others := make(chan error, 1), make(chan error, 100)
	go func() {
		_, err := r.GetMany(canceled, []string{"k"})
		first <- err
	}()
	proxy.AwaitSent(t, sent, func(commands [][]string) bool { return len(commands) > 0 })
	for range cap(others) {
		go func() {
			_, err := r.GetMany(t.Context(), []string{"k"})
			others <- err
		}()
		runtime.Gosched()
	}
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	proxy.Pass()
	for range cap(others) {
		require.NoError(t, <-others)
	}
}
