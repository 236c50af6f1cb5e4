package shard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
)

// names is a resolver.
type names map[string][]string

func (n names) LookupHost(_ context.Context, name string) ([]string, error) {
	if n[name] == nil {
		return nil, fmt.Errorf("no such host: %s", name)
	}
	return n[name], nil
}

func TestParseHosts(t *testing.T) {
	t.Parallel()
	dns := names{"b.example": {"fd00::1", "10.0.0.9"}, "c.example": {"10.0.0.8"}}
	hosts, err := shard.ParseHosts([]string{"a=10.0.0.7:7100", " nodes:1", "[::1]:65535", "b=dns:b.example:7100", "dns:c.example:7200"}, dns)
	require.NoError(t, err)
	all := "[a=10.0.0.7:7100 nodes:1 [::1]:65535 b=10.0.0.9:7100 b=[fd00::1]:7100 10.0.0.8:7200]"
	got, err := hosts.Hosts(t.Context())
	require.NoError(t, err)
	require.Equal(t, all, fmt.Sprint(got))

	delete(dns, "b.example") // what it was stays
	got, err = hosts.Hosts(t.Context())
	require.ErrorContains(t, err, "no such host: b.example")
	require.Equal(t, all, fmt.Sprint(got))

	dns["c.example"] = []string{}
	got, err = hosts.Hosts(t.Context())
	require.Error(t, err)
	require.Len(t, got, 5)
}

func TestBadHosts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":            "an entry is empty",
		"a=":          `"a=" isn't host:port`,
		"host":        `"host" isn't host:port`,
		"a b=host:1":  `data centre "a b" must match`,
		"a=:7100":     `"a=:7100" has no host`,
		"a=host:":     `has the port "", which isn't a number from 1 to 65535`,
		"host:0":      "from 1 to 65535",
		"host:65536":  "from 1 to 65535",
		"host:http":   "from 1 to 65535",
		"a=dns:host":  `"a=dns:host" isn't host:port`,
		"::1:7100":    "too many colons",
		"a=n:1,a=n:2": "isn't host:port",
		"again:1":     "again:1 is there twice",
	} {
		_, err := shard.ParseHosts([]string{"b=again:1", text}, nil)
		require.ErrorIs(t, err, shard.ErrHosts, text)
		require.ErrorContains(t, err, want)
	}
	for n, want := range map[int]string{0: "it has 0 entries", 65: "it has 65 DNS names, at most 64", shard.MaxHosts + 1: "it has 4097 entries, 1 to 4096"} {
		_, err := shard.ParseHosts(strings.Fields(strings.Repeat("dns:n:1 ", n)), nil)
		require.ErrorIs(t, err, shard.ErrHosts)
		require.ErrorContains(t, err, want)
	}
}

// Hosts come and go. If the list can't be read, those that are known stay.
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
		get(3, "map 3 1", "map 3 2", "map 3 3")
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
		get(2, "map 2 1", "map 2 2")
		list(nil, errors.New("no list"))
		get(2)
		list(nil, nil)
		get(2)
		list([]shard.Host{a, {Address: "b0", DC: "c"}}, nil) // another data centre makes it another host
		get(2, "map 2 1", "map 2 2")
	})
	for text, times := range map[string]int{
		"cannot read the list of shard hosts": 2, "it has 4099 hosts, only the first 4096 are used": 1, "half of the list": 1, "is read again": 2,
	} {
		require.Equal(t, times, strings.Count(log.String(), text), text)
	}
}
