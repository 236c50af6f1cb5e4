package diagnose_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/diagnose"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestExamineRights: Examine names exactly the rights that a user lacks, with what doesn't work without them, and
// writes nothing.
func TestExamineRights(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	set := func(name string, rules ...string) {
		require.NoError(t, n.Do(t, append([]string{"ACL", "SETUSER", name, "on", ">secret"}, rules...)...).Error())
	}
	rights := diagnose.Rights("mm1:")
	set("all", rights...)
	for name, c := range map[string]struct{ lacks, abilities []string }{
		"all":    {nil, nil},
		"keys":   {[]string{"~mm1:*"}, []string{"scripts"}},
		"topics": {[]string{"&mm1:*"}, []string{"scripts"}},
		"three": {[]string{"+time", "+hget", "+xinfo|stream"}, []string{"scripts", "API keys", "matchmaking", "records",
			"read tier"}},
		"transactions": {[]string{"+multi"}, []string{"client-side caching"}},
		"durability":   {[]string{"+config|get"}, []string{"durability"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(c.lacks) > 0 {
				set(name, slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return slices.Contains(c.lacks, r) })...)
			}
			conn := storetest.Connect(t, redis.Options{URL: "redis://" + name + ":secret@" + n.Addr(),
				KeyPrefix: "mm1:"})
			found, err := diagnose.Examine(t.Context(), conn)
			require.NoError(t, err)
			require.Len(t, found.Primaries, 1)
			require.NoError(t, found.Primaries[0].Err)
			var rules, abilities []string
			for _, l := range found.Primaries[0].Lacks {
				require.Empty(t, l.Commands)
				rules, abilities = append(rules, l.Rules...), append(abilities, string(l.Ability))
			}
			slices.Sort(rules)
			slices.Sort(c.lacks)
			require.Equal(t, c.lacks, slices.Compact(rules))
			require.Equal(t, c.abilities, abilities)
			require.Positive(t, found.Primaries[0].Latency)
			size, err := n.Do(t, "DBSIZE").AsInt64()
			require.NoError(t, err)
			require.Zero(t, size)
		})
	}
}

// TestLackingCommands: Redis has renamed commands. At the start of a service it is said what doesn't work.
func TestLackingCommands(t *testing.T) {
	t.Parallel()
	const works = "works" // in place of an error
	for command, c := range map[string]struct {
		needed bool
		says   string
		ready  string // the error of a check of all that scripts rest on
	}{
		"CONFIG":     {false, "Redis has no CONFIG GET: how Redis writes to disk isn't known", works},
		"WAIT":       {false, "Redis has no WAIT: channel-replicas and ticket-replicas can't be used", works},
		"EVALSHA_RO": {false, "Redis has no EVALSHA_RO: tickets-read-replicas can't be used", works},
		"MULTI": {false, "Redis has no MULTI: Redis is asked for each read of a cached value, and for each request with a " +
			"session", works},
		"EXEC": {false, "Redis has no EXEC: Redis is asked for each read of a cached value, and for each request with a " +
			"session", works},
		"XADD": {false, "Redis has no XADD: API keys made at run time, revocations and quotas don't work; matchmaking " +
			"doesn't work", works},
		"TIME":       {true, "Redis has no TIME: the service doesn't work", "Redis lacks a command"},
		"GETRANGE":   {true, "Redis has no GETRANGE: the service doesn't work; matchmaking", works},
		"CLUSTER":    {false, "", works},
		"SSUBSCRIBE": {false, "", "unknown command 'SSUBSCRIBE'"},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			n := redistest.Start(t, redistest.Options{Args: []string{"--rename-command", command, ""}})
			conn := storetest.Connect(t, redis.Options{URL: n.URL()})
			lacks, err := diagnose.Check(t.Context(), conn)
			if c.ready != works {
				require.ErrorContains(t, err, c.ready)
			} else {
				require.NoError(t, err)
			}
			if c.says == "" {
				require.Empty(t, lacks)
				return
			}
			require.Contains(t, diagnose.Describe(lacks), c.says)
			require.Equal(t, c.needed, slices.ContainsFunc(lacks, func(l diagnose.Lack) bool { return l.Needed }))
			require.Contains(t, diagnose.Remedy("svc", lacks), "rename-command")
			found, err := diagnose.Examine(t.Context(), conn)
			require.NoError(t, err)
			require.NoError(t, found.Primaries[0].Err)
			require.Equal(t, lacks, found.Primaries[0].Lacks)
			if err := conn.Ready(t.Context()); c.ready == works {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.ready)
			}
		})
	}
}

// TestUndeclaredKeys: a server lets a script use only the keys that its call declares, as Dragonfly does by default.
func TestUndeclaredKeys(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Standalone(t))
	proxy.Fail(func(command []string) string {
		if strings.HasPrefix(command[0], "EVAL") && len(command) > 3 && strings.Contains(command[3], "tidemark.ready") {
			return "ERR Error running script: @user_script:13: script tried accessing undeclared key, key: x"
		}
		return ""
	})
	conn := storetest.Connect(t, redis.Options{URL: proxy.Addr(), KeyPrefix: redistest.Prefix(t)})
	_, err := diagnose.Check(t.Context(), conn)
	cause, advice := diagnose.Explanation(err)
	require.Contains(t, cause, "undeclared key")
	require.NotContains(t, cause, "whose log says", "a text for clients")
	require.Contains(t, advice, "--default_lua_flags=allow-undeclared-keys")
}

// An examination whose context ends at any time leaves no connection in a transaction.
func TestExamineUntilCanceled(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	c := storetest.Connect(t, redis.Options{URL: n.URL()})
	for i := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
		_, _ = diagnose.Examine(ctx, c) // it may have ended before
		cancel()
	}
	found, err := diagnose.Examine(t.Context(), c)
	require.NoError(t, err)
	require.NoError(t, found.Primaries[0].Err)
	require.Empty(t, found.Primaries[0].Lacks)
}

// A Cluster of which a part of the slots has no primary.
func TestExamineCoverage(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Options{Replicas: -1})
	for _, n := range cluster.Nodes() {
		storetest.Set(t, n, "cluster-require-full-coverage", "no")
	}
	c := storetest.Connect(t, redis.Options{URL: strings.Join(cluster.Addrs(), ",")})
	found, err := diagnose.Examine(t.Context(), c)
	require.NoError(t, err)
	require.Len(t, found.Primaries, 3)
	require.Empty(t, found.Uncovered)
	for _, n := range cluster.Nodes() {
		require.NoError(t, n.Do(t, "CLUSTER", "DELSLOTS", "0", "1", "7").Error())
	}
	found, err = diagnose.Examine(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, "0-1,7", found.Uncovered)
}

// TestSlowLogs: operators see which calls are slow, without what they write.
func TestSlowLogs(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{Args: []string{"--slowlog-log-slower-than", "0"}})
	rights := append(diagnose.Rights("mm1:"), "+slowlog|get")
	for name, rules := range map[string][]string{"may": rights, "lacks": rights[:len(rights)-1]} {
		require.NoError(t, n.Do(t, append([]string{"ACL", "SETUSER", name, "on", ">secret"}, rules...)...).Error())
	}
	connect := func(user string) *redis.Conn {
		return storetest.Connect(t, redis.Options{URL: "redis://" + user + ":secret@" + n.Addr(), KeyPrefix: "mm1:"})
	}
	conn := connect("may")
	require.NoError(t, conn.Ready(t.Context())) // it runs a script
	require.NoError(t, n.Do(t, "SET", "mm1:key", "content").Error())
	require.NoError(t, n.Do(t, "SET", "other:key", "content").Error())
	require.NoError(t, n.Do(t, "MGET", "mm1:a", "other:key", "mm1:b").Error())
	logs, err := diagnose.SlowLogs(t.Context(), conn, 100)
	require.NoError(t, err)
	require.Len(t, logs, 1)
	require.NoError(t, logs[0].Err)
	shown := map[string]diagnose.SlowCall{}
	for _, call := range logs[0].Calls {
		require.WithinDuration(t, time.Now(), call.At, time.Minute)
		shown[call.Command+" "+call.Script+" "+strings.Join(call.Keys, " ")] = call
	}
	require.Contains(t, shown, "SET  mm1:key")
	require.Contains(t, shown, "SET  ", "a key of others")
	require.Contains(t, shown, "MGET  mm1:a mm1:b")
	script := slices.IndexFunc(logs[0].Calls, func(call diagnose.SlowCall) bool { return call.Script == "ready/ready" })
	require.GreaterOrEqual(t, script, 0)
	require.Len(t, logs[0].Calls[script].Keys, 1)
	require.True(t, strings.HasSuffix(logs[0].Calls[script].Client, " tidemark"))
	require.Empty(t, shown["TIME  "].Client, "the script has called it")
	latest, err := diagnose.SlowLogs(t.Context(), conn, 1)
	require.NoError(t, err)
	require.Len(t, latest[0].Calls, 1)

	logs, err = diagnose.SlowLogs(t.Context(), connect("lacks"), 100)
	require.NoError(t, err)
	require.ErrorContains(t, logs[0].Err, "NOPERM")
	require.Equal(t, "run in Redis as an administrator: ACL SETUSER lacks +slowlog|get", logs[0].Remedy)
}
