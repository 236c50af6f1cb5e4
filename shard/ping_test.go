package shard_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
)

// pingsOf returns the number of pings that a client sends in 10 s, while it makes a Get of the first shard every 500
// ms.
func pingsOf(t *testing.T, w *world, o shard.ClientOptions) (pings int) {
	t.Helper()
	inWorld(t, w, o, func(t *testing.T, c *client) {
		wait(4700 * time.Millisecond)
		w.pings = 0
		for range 20 {
			_, err := c.Get(t.Context(), ends[:1])
			require.NoError(t, err)
			wait(500 * time.Millisecond)
		}
		pings = w.pings
	})
	return pings
}

func TestPings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		o     shard.ClientOptions
		pings int
	}{
		"each":          {shard.ClientOptions{}, 10 * 12},
		"slower":        {shard.ClientOptions{PingPeriod: 2 * time.Second}, 5 * 12},
		"at a rate":     {shard.ClientOptions{PingRate: 6}, 10 * 6},
		"low rate":      {shard.ClientOptions{PingRate: 100}, 10 * 12},
		"of the silent": {shard.ClientOptions{SkipPings: true}, 10 * 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.InDelta(t, test.pings, pingsOf(t, newWorld("abc", 4), test.o), 1)
		})
	}
}

// A host that doesn't answer has one ping in progress, and doesn't delay the pings of others.
func TestPingsOfSilentHosts(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 1)
	w.set(func(p *peer) { p.delay = time.Hour }, "b0")
	require.Equal(t, 10+2, pingsOf(t, w, shard.ClientOptions{Timeout: 4500 * time.Millisecond}))
	require.Contains(t, w.seen, "failed b0: no answer within the time-out of 4.5s")
}

// Hosts come and go. If the list can't be read, those that are known stay. A change may be reported together with the
// ones that follow it at once.
func TestHostsChange(t *testing.T) {
	t.Parallel()
	w := newWorld("a", 1)
	var log strings.Builder
	inWorld(t, w, shard.ClientOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, c *client) {
		get := func(calls int, want ...string) {
			t.Helper()
			wait(2 * time.Second)
			_, err := c.Get(t.Context(), ends)
			require.NoError(t, err)
			require.Len(t, w.sorted(&w.calls), calls)
			require.Subset(t, w.sorted(&w.seen), want)
		}
		list := func(hosts []shard.Host, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.hosts, w.hostsErr = hosts, err
		}
		get(1)
		a, b, c2 := shard.Host{Address: "a0", DC: "a"}, w.add("b", "b0", shard.All), w.add("c", "c0", shard.All)
		get(3, "map 3 3")
		down := []shard.Host{a, b, c2}
		for i := range shard.MaxHosts {
			down = append(down, shard.Host{Address: fmt.Sprint("down", i)})
		}
		list(down, nil)
		get(3, "map 4096 3")
		list([]shard.Host{a}, nil)
		get(1, "map 1 1")
		require.Equal(t, 1, w.kept)
		list([]shard.Host{a, b}, errors.New("half of the list"))
		get(2, "map 2 2")
		list(nil, errors.New("no list"))
		get(2)
		list(nil, nil)
		get(2)
		list([]shard.Host{a, {Address: "b0", DC: "c"}}, nil) // another data centre makes it another host
		get(2, "map 2 2")
	})
	for text, times := range map[string]int{
		"cannot read the list of shard hosts": 2, "it has 4099 hosts, only the first 4096 are used": 1,
		"half of the list": 1, "is read again": 2,
	} {
		require.Equal(t, times, strings.Count(log.String(), text), text)
	}
}

// A host that was removed from the list isn't called any more: that would open a connection that is never closed.
func TestARemovedHostIsNotCalled(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 1)
	inWorld(t, w, shard.ClientOptions{Retries: 3, Timeout: 1500 * time.Millisecond}, func(t *testing.T, c *client) {
		w.set(func(p *peer) { p.delay = time.Hour }, "a0", "b0")
		time.AfterFunc(500*time.Millisecond, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.hosts = w.hosts[:1]
		})
		_, err := c.Get(t.Context(), ends)
		require.ErrorContains(t, err, "b=b0: the host was removed from the list")
		calls := w.sorted(&w.calls)
		require.Len(t, calls, 4+1)
		require.Contains(t, calls[3], "a0")
	})
}
