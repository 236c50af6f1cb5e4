package shard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
)

// pingsOf returns how many pings a client sends in 10 s, in which it makes a Get of the first shard every 500 ms.
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

// A host that doesn't answer pings has one on its way, and holds up no other.
func TestPingsOfSilentHosts(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 1)
	w.set(func(p *peer) { p.delay = time.Hour }, "b0")
	require.Equal(t, 10+2, pingsOf(t, w, shard.ClientOptions{Timeout: 4500 * time.Millisecond}))
	require.Contains(t, w.seen, "failed b0: no answer within the time-out of 4.5s")
}
