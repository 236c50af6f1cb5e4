package main

import (
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestEvictingRedis: only the Redis of the cache may evict. doctor says the same.
func TestEvictingRedis(t *testing.T) {
	t.Parallel()
	// but has no limit
	keeps := redistest.Start(t, redistest.Options{Args: []string{"--maxmemory-policy", "allkeys-lru"}})
	evicts := redistest.Start(t,
		redistest.Options{Args: []string{"--maxmemory", "1gb", "--maxmemory-policy", "volatile-ttl"}})
	for _, c := range []struct{ args, refused, logged string }{ //nolint:paralleltest // logs are read when services stop
		{"--redis=K --sessions-redis=K --cache-redis=E", "", `of=cache kind=standalone`},
		{"--redis=K --sessions-redis=K --cache-redis=E", "", `eviction=volatile-ttl maxMemory=1073741824`},
		{"--redis=K --sessions-redis=E",
			"sessionsRedis: evicts (maxmemory-policy volatile-ttl): when its memory runs out, sessions and tokens are deleted",
			""},
		{"--redis=E",
			"redis: evicts (maxmemory-policy volatile-ttl): when its memory runs out, messages, clocks, locks,", ""},
		{"--redis=E --records=off", "redis: evicts (maxmemory-policy volatile-ttl)", ""},
		{"--redis=K --records=off --tickets-redis=E",
			"ticketsRedis: evicts (maxmemory-policy volatile-ttl): when its memory runs out, tickets, matches and", ""},
		{"--redis=K --records=off --tickets-redis=E --matchmaking=off --sessions-redis=E", "",
			"maxmemory-policy is allkeys-lru"}, // only K is used
	} {
		var log strings.Builder
		t.Run(c.args, func(t *testing.T) {
			args := strings.NewReplacer("=K", "="+keeps.URL(), "=E", "="+evicts.URL()).Replace(c.args)
			_, err := startHere(t, slog.NewTextHandler(&log, nil), strings.Fields(args)...)
			if c.refused == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.refused)
			}
		})
		require.Contains(t, log.String(), c.logged)
	}
	var out strings.Builder
	require.Equal(t, exitFailure, runHere(t.Context(), &out, &out, nil, "shard", "serve", "--redis", evicts.URL(),
		"--cache", "author", "--dc", "a", "--listen", "127.0.0.1:0", "--admin-listen", "off"))
	require.Contains(t, out.String(), "redis: evicts (maxmemory-policy volatile-ttl)", "a node of shards")
	out.Reset()
	require.Equal(t, exitFailure, runHere(t.Context(), &out, &out, nil, "doctor", "--listen", "127.0.0.1:0", "--redis",
		keeps.URL(), "--tickets-redis", evicts.URL(), "--cache-redis", evicts.URL()))
	require.Regexp(t, `(?m)^failure +tickets +eviction +maxmemory-policy volatile-ttl$`, out.String())
	require.Contains(t, out.String(), "any other deletes tickets, matches and assignments")
	require.Regexp(t, `(?m)^ok +cache +eviction +maxmemory-policy volatile-ttl$`, out.String())
	var log strings.Builder
	silent := storage.Description{Durability: storage.Durability{EvictionPolicy: "unknown"}}
	require.NoError(t, ofChannels.mustKeep(t.Context(), silent,
		slog.New(slog.NewTextHandler(&log, nil))))
	require.Contains(t, log.String(), "level=WARN msg=\"the Redis doesn't tell whether it evicts")
}

// TestKeyMetrics: of two servers one counts, the other one when the first has stopped.
func TestKeyMetrics(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	require.NoError(t, node.Do(t, "SET", "viewed:{7}", "5").Error())
	start := func() *serverProcess {
		return startServer(t, "--redis", node.URL(), "--key-metrics", "viewed,session", "--key-metrics-pause", "10s")
	}
	const counted = `tidemark_keys{kind="viewed",redis="channels"} 1`
	first := start()
	eventually(t, func() bool { return strings.Contains(first.metrics(t), counted) })
	require.Contains(t, first.metrics(t), `tidemark_keys{kind="session",redis="channels"} 0`)
	second := start()
	require.NotContains(t, second.metrics(t), "tidemark_keys{")
	require.NoError(t, first.End(syscall.SIGTERM))
	first.killed = true
	eventually(t, func() bool { return strings.Contains(second.metrics(t), counted) })
}

// TestPlainKeysInACluster: plain keys of records are refused in a Cluster, with the option to change. doctor says the same.
func TestPlainKeysInACluster(t *testing.T) {
	t.Parallel()
	single := redistest.Start(t, redistest.Options{}).URL()
	cluster := redistest.StartCluster(t, redistest.Options{Replicas: -1}).Nodes()[0].URL()
	fill := func(args string) []string {
		return strings.Fields(strings.NewReplacer("=S", "="+single, "=C", "="+cluster).Replace(args) +
			" --records-keys plain --key-prefix " + redistest.Prefix(t))
	}
	const remedy = "to a standalone Redis, or leave out --records-keys plain"
	for args, refused := range map[string]string{
		"--redis=C": "redis", "--redis=S --cache-redis=C": "cacheRedis", "--redis=S --sessions-redis=C": "sessionsRedis",
		"--redis=S --tickets-redis=C": "", "--redis=C --records=off": "",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			_, err := startHere(t, slog.DiscardHandler, fill(args)...)
			if refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, refused+": ")
			require.ErrorContains(t, err, "it is a Cluster, in which plain keys of one record can have different slots; set --")
			require.ErrorContains(t, err, remedy)
		})
	}
	for _, c := range []struct{ args, says string }{
		{"shard serve --redis=C --cache author --dc a --listen 127.0.0.1:0 --admin-listen off", "redis: "},
		{"redis-keys --redis=S --cache-redis=C", "cacheRedis: "},
		{"doctor --listen 127.0.0.1:0 --redis=S --cache-redis=C", "cache"},
	} {
		var out strings.Builder
		require.Equal(t, exitFailure, runHere(t.Context(), &out, &out, nil, fill(c.args)...), &out)
		text := strings.Join(strings.Fields(out.String()), " ")
		require.Contains(t, text, c.says)
		require.Contains(t, text, "it is a Cluster, in which plain keys of one record can have different slots")
		require.Contains(t, text, remedy)
	}
}
