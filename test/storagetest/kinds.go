package storagetest

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/managed"
	"github.com/tidemark-dev/tidemark/storage/redis/diagnose"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// Redis is a Redis that tests share. Each uses its own key prefix.
type Redis struct {
	URL    string
	Client rueidis.Client
}

// Each runs a parallel subtest on each kind of Redis that the machine has: standalone, Cluster, the managed one and
// Valkey. On the standalone one the store has only the rights that the documentation lists, for keys and topics that
// begin as redistest.Prefix does. Without valkey-server it logs that Valkey is omitted.
func Each(t *testing.T, test func(t *testing.T, r Redis)) {
	t.Helper()
	for _, kind := range []struct {
		name string
		open func(*testing.T) (Redis, bool)
	}{{"standalone", standalone}, {"cluster", cluster}, {"valkey", valkey}, {"managed", runManaged}} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			r, ok := kind.open(t)
			if !ok {
				t.Log("no valkey-server on PATH: nothing was tried on Valkey")
				return
			}
			test(t, r)
		})
	}
}

func standalone(t *testing.T) (Redis, bool) {
	t.Helper()
	node := redistest.Standalone(t)
	rules := []string{"ACL", "SETUSER", "least", "reset", "on", ">secret"}
	rules = append(append(rules, diagnose.Rights("t0")...), optionalRights...)
	rules = append(rules, "+setnx", "+rpush", "+append", "+expire") // for what tests write on the store's connection
	require.NoError(t, node.Do(t, rules...).Error())
	return Redis{URL: "redis://least:secret@" + node.Addr(), Client: node.Client()}, true
}

// optionalRights are the rights that docs/deployment.md lists for single options and commands.
var optionalRights = []string{"+dbsize", "+scan", "+type", "+memory|usage", "+hsetnx", "+unlink", "+publish",
	"&notifications:*"}

func valkey(t *testing.T) (Redis, bool) {
	t.Helper()
	node, ok := redistest.Valkey(t)
	if !ok {
		return Redis{}, false
	}
	return Redis{URL: node.URL(), Client: node.Client()}, true
}

func cluster(t *testing.T) (Redis, bool) {
	t.Helper()
	addrs := redistest.Cluster(t).Addrs()
	return connected(t, strings.Join(addrs, ","), rueidis.ClientOption{InitAddress: addrs}), true
}

// runManaged starts the Redis of `tidemark serve` without options.
func runManaged(t *testing.T) (Redis, bool) {
	t.Helper()
	server, err := managed.Open(managed.Options{DataDir: t.TempDir()})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	require.NoError(t, server.Ready(t.Context()))
	o, err := rueidis.ParseURL(server.Address())
	require.NoError(t, err)
	return connected(t, server.Address(), o), true
}

func connected(t *testing.T, url string, o rueidis.ClientOption) Redis {
	t.Helper()
	o.DisableCache = true
	client, err := rueidis.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return Redis{URL: url, Client: client}
}
