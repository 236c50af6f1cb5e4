package redis_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// hosted returns the options to connect to a server at an address.
func hosted(n *redistest.Node, address string) redis.Options {
	return redis.Options{URL: strings.Replace(n.URL(), n.Addr(), address, 1), TLS: n.TLSConfig()}
}

// connections returns the addresses of a server's clients of a name.
func connections(t *testing.T, n *redistest.Node, name string) (all []string) {
	t.Helper()
	list, err := n.Do(t, "CLIENT", "LIST").ToString()
	require.NoError(t, err)
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); slices.Contains(fields, "name="+name) {
			all = append(all, strings.TrimPrefix(fields[1], "addr="))
		}
	}
	slices.Sort(all)
	return all
}

// A fail-over moves the address to another server while the former primary stays up as a replica: all connections
// follow the address.
func TestAnAddressThatMoves(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]redistest.Options{"plain": {}, "TLS": {TLS: true, Password: "secret"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := redistest.Start(t, o)
			replica := redistest.StartReplica(t, primary)
			address, registry := redistest.Forward(t, primary), prometheus.NewRegistry()
			options := hosted(primary, address.Addr())
			options.Metrics = registry
			c := storetest.Connect(t, options)
			h := hear(t, c, "{x}")
			requireWorks(t, c)
			for _, to := range []*redistest.Node{replica, primary} {
				from := primary
				if to == primary {
					from = replica
				}
				redistest.SwitchOver(t, from, to)
				address.SetTarget(to.Addr())
				storetest.WaitFor(t, "Redis to be ready", func() bool { return c.Ready(t.Context()) == nil })
				requireWorks(t, c)
				<-h.confirmed
				h.requireHears(t, c, "{x}", "at "+to.Addr())
				storetest.WaitFor(t, "the connections to leave", func() bool {
					return len(connections(t, from, "tidemark"))+len(connections(t, from, "tidemark-bulk")) == 0
				})
			}
			require.EqualValues(t, 2, storetest.Counted(t, registry, "tidemark_redis_moves_total"))
		})
	}
}

// moved returns a connection to an address that has just moved from one server to its replica.
func moved(t *testing.T) (c *redis.Conn, former, current *redistest.Node) {
	t.Helper()
	former = redistest.Start(t, redistest.Options{})
	current = redistest.StartReplica(t, former)
	address := redistest.Forward(t, former)
	options := hosted(former, address.Addr())
	options.Timeout = storetest.Patience
	c = storetest.Connect(t, options)
	requireWorks(t, c)
	redistest.SwitchOver(t, former, current)
	address.SetTarget(current.Addr())
	return c, former, current
}

// A write that meets the former primary succeeds within its time limit.
func TestAWriteFollowsTheAddress(t *testing.T) {
	t.Parallel()
	c, _, replica := moved(t)
	require.NoError(t, c.Retry(t.Context(), "set", func(ctx context.Context) error {
		return c.Client().Do(ctx, c.Client().B().Set().Key("key").Value("6").Build()).Error()
	}))
	require.NoError(t, c.Session(t.Context(), "key", func(s *redis.Session) error { return s.Confirm(t.Context(), 0) }))
	found, err := replica.Do(t, "GET", "key").ToString()
	require.NoError(t, err)
	require.Equal(t, "6", found)
}

// Some connections were lost meanwhile and have reached the new primary. The others follow.
func TestEveryConnectionFollowsTheAddress(t *testing.T) {
	t.Parallel()
	c, primary, _ := moved(t)
	for _, connection := range connections(t, primary, "tidemark") {
		require.NoError(t, primary.Do(t, "CLIENT", "KILL", "ADDR", connection).Error())
	}
	requireWorks(t, c)
	storetest.WaitFor(t, "the connections to leave", func() bool {
		return len(connections(t, primary, "tidemark-bulk")) == 0
	})
}

// A Redis that is a replica permanently refuses writes, and keeps its connections and its listeners. If it is promoted,
// it keeps them, too.
func TestAReplicaKeepsItsConnections(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t, redistest.Options{})
	replica := redistest.StartReplica(t, primary)
	registry := prometheus.NewRegistry()
	var log logged
	c := storetest.Connect(t, redis.Options{
		URL: replica.Addr(), Replica: true, Metrics: registry,
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	h := hear(t, c, "{x}")
	set := func(ctx context.Context) error {
		return c.Retry(ctx, "set", func(ctx context.Context) error {
			return c.Client().Do(ctx, c.Client().B().Set().Key("key").Value("7").Build()).Error()
		})
	}
	before := connections(t, replica, "tidemark")
	requireKept := func() {
		t.Helper()
		storetest.WaitFor(t, "the same connections as before", func() bool {
			return slices.Equal(before, connections(t, replica, "tidemark"))
		})
	}
	refused := false // on a busy machine a call may end before Redis has answered
	storetest.WaitFor(t, "looks at the address", func() bool {
		err := set(storetest.Shortly(t))
		require.Error(t, err)
		refused = refused || strings.Contains(err.Error(), "READONLY")
		return refused && log.count("its address has no primary") >= 3
	})
	requireKept()
	require.NoError(t, replica.Do(t, "REPLICAOF", "NO", "ONE").Error())
	require.NoError(t, set(t.Context()))
	requireKept()
	h.requireHears(t, c, "{x}", "still there")
	require.Empty(t, h.confirmed, "it wasn't interrupted")
	require.Zero(t, storetest.Counted(t, registry, "tidemark_redis_moves_total"))
}
