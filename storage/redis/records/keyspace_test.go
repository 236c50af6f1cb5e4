package records_test

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func scanConnect(t *testing.T, o redis.Options) *redis.Conn {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	conn, err := redis.Connect(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// write runs commands. It adds a prefix to their second word, the key.
func write(t *testing.T, client rueidis.Client, prefix string, commands ...string) {
	t.Helper()
	var built []rueidis.Completed
	for _, command := range commands {
		words := strings.Split(command, " ")
		built = append(built, client.B().Arbitrary(words[0]).Keys(prefix+words[1]).Args(words[2:]...).Build())
	}
	for _, reply := range client.DoMulti(t.Context(), built...) {
		require.NoError(t, reply.Error())
	}
}

// TestSurvey counts keys of all types on all kinds of Redis, those of other applications too, and only those below the
// prefix.
func TestSurvey(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		prefix := redistest.Prefix(t) + `*[a-z]?\`
		source := records.NewKeySource(scanConnect(t, redis.Options{URL: r.URL, KeyPrefix: prefix}))
		write(t, r.Client, strings.ReplaceAll(prefix, `*[a-z]?\`, "xay"), "SET viewed:{other} 1")
		write(t, r.Client, prefix,
			"HSET session:{ann}:00 user_id ann", "HSET session:{bob}:01 user_id bob", "EXPIRE session:{bob}:01 600",
			"SADD user_sessions:{ann} 00",
			"RPUSH foreign:list a b", "ZADD foreign:zset 1 a", "XADD foreign:stream * a b",
			"SET foreign:\xff\x00\n{ binary", "PFADD foreign:hll a", "SETBIT foreign:bits 9 1",
			"GEOADD foreign:geo 1 1 a", "SET "+strings.Repeat("k", 100_000)+" long", "SET session:7:eyJh.eyJi.c old",
			"HSET c.{lobby}.clock wrong type")
		var messages []string
		for i := range 3000 {
			messages = append(messages, fmt.Sprintf("SET c.{room%d}.m.1 x PX 60000", i))
		}
		write(t, r.Client, prefix, messages...)
		write(t, r.Client, prefix, "SET viewed:{1} "+strings.Repeat("1", 5000))

		report, err := keyspace.Run(t.Context(), source,
			keyspace.Options{Table: site.Community().Table, Largest: 1})
		require.NoError(t, err)
		found := make(map[string]string)
		for _, k := range report.Kinds {
			found[k.Name] = fmt.Sprint(k.Keys, k.TTL, k.Problems)
			require.Positive(t, k.Measured, k.Name)
			require.Greater(t, k.Bytes, k.Keys*10, k.Name)
			require.NotEmpty(t, k.Largest)
			require.NotContains(t, k.Largest[0].Key, "eyJ")
		}
		require.Equal(t, map[string]string{
			"session":         "2 {0 1 0 0 0 1} {1 0 0 0}",
			"user-sessions":   "1 {0 0 0 0 0 1} {1 0 0 0}",
			"viewed":          "1 {0 0 0 0 0 1} {0 0 0 0}",
			"channel-clock":   "1 {0 0 0 0 0 1} {1 0 1 0}",
			"channel-message": "3000 {3000 0 0 0 0 0} {0 0 0 0}",
			"unknown":         "9 {0 0 0 0 0 9} {0 0 0 9}",
		}, found)
		total, err := source.Count(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, total, int64(3014))
	})
}

// TestReplicasAreLeftOut: each key of a Cluster is counted on its primary only.
func TestReplicasAreLeftOut(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Options{})
	addrs := strings.Join(cluster.Addrs(), ",")
	writer := scanConnect(t, redis.Options{URL: addrs}).Client()
	for i := range 30 {
		write(t, writer, "", fmt.Sprintf("SET viewed:{%d} 1", i))
	}
	for _, node := range cluster.Nodes() {
		storetest.WaitFor(t, "the node to know that all replicas are in sync", func() bool {
			shards, err := node.Do(t, "CLUSTER", "SHARDS").ToAny()
			require.NoError(t, err)
			return strings.Count(fmt.Sprint(shards), "health:online") == 6
		})
	}
	conn := scanConnect(t, redis.Options{URL: addrs})
	require.Len(t, conn.Client().Nodes(), 6, "the client shows the replicas")
	var seen, total int64
	report, err := keyspace.Run(t.Context(), records.NewKeySource(conn),
		keyspace.Options{Table: site.Community().Table, Progress: func(now, of int64) { seen, total = now, of }})
	require.NoError(t, err)
	require.Equal(t, []int64{30, 30, 30}, []int64{report.Kinds[0].Keys, seen, total})
}

// TestWithoutMemoryUsage: a user without the right to read memory usage gets everything else; one without the right to
// scan gets an error.
func TestWithoutMemoryUsage(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	write(t, node.Client(), "", "SET viewed:{1} 1")
	for user, rights := range map[string][]string{
		"scans": {"~*", "&*", "+info", "+ping", "+hello", "+client", "+config|get", "+scan", "+type", "+pttl",
			"+dbsize"},
		"little": {"~*", "&*", "+info", "+ping", "+hello", "+client", "+config|get", "+dbsize"},
	} {
		require.NoError(t, node.Do(t, append([]string{"ACL", "SETUSER", user, "on", ">pw"}, rights...)...).Error())
		u := url.URL{Scheme: "redis", Host: node.Addr(), User: url.UserPassword(user, "pw")}
		report, err := keyspace.Run(t.Context(), records.NewKeySource(scanConnect(t, redis.Options{URL: u.String()})),
			keyspace.Options{Table: site.Community().Table})
		if user == "little" {
			require.ErrorContains(t, err, "NOPERM")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []int64{1, 0, 0}, []int64{report.Kinds[0].Keys, report.Kinds[0].Measured,
			report.Kinds[0].Bytes})
	}
}
