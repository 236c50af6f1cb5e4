package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/lease"
)

const aNode = "shardCache: author\nshardDc: a\n"

// A service and nodes can share a file, with the names of both; flags are those of the command.
func TestNodes(t *testing.T) {
	t.Parallel()
	const shared = aNode + "listen: 127.0.0.1:8000\nleaseTtl: 1s\nshardListen: 127.0.0.1:7000\ncacheShards: author\n"
	c, err := loadFor(t, node, shared, nil, []string{"--dc=b", "--lease-ttl=5s"})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:7000 b", c.Shards.Node.Listen+" "+c.Shards.DC)
	require.Equal(t, 5*time.Second, c.Shards.Node.LeaseTTL)
	c, err = load(t, shared, nil, []string{"--shard-dc=b", "--lease-ttl=5s"})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8000 b", c.Server.Listen+" "+c.Shards.DC)
	require.Equal(t, 10*time.Second, c.Shards.Node.LeaseTTL)
}

func TestBadNodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return "shardTokenFile: " + path
	}
	for _, tt := range []struct{ name, yaml, want string }{
		{"no cache", "shardDc: a", "shardCache: isn't set: name the cache to serve, such as author"},
		{"no data centre", "shardCache: author", "shardDc: isn't set: name the data centre"},
		{"cache", "shardCache: authors",
			`shardCache: "authors": the kind can't be read through shards: it has no values that are cached by an ID; did you mean author?`},
		{"memory", "shardMemory: 0", "shardMemory: 0 is too small, at least one byte is needed"},
		{"connections", "shardMaxConnections: 0", "shardMaxConnections: 0 is too small"},
		{"rate", "shardLoadRate: 0", "shardLoadRate: 0 is too small"},
		{"data centre", "shardDc: a b", `shardDc: invalid name: data centre "a b" must match`},
		{"host", "shardHostName: a:b", `shardHostName: invalid name: host "a:b" must match`},
		{"all addresses", aNode + "shardListen: :7100",
			`shardAdvertise: isn't set, but shardListen is ":7100", which is every address`},
		{"all of IPv6", aNode + "shardListen: '[::]:7100'", "shardAdvertise: isn't set, but shardListen is"},
		{"advertise all", "shardAdvertise: 0.0.0.0:7100",
			`shardAdvertise: "0.0.0.0:7100" has no host that others can connect to`},
		{"advertise nothing", "shardAdvertise: :7100", `shardAdvertise: ":7100" has no host`},
		{"advertise two", "shardAdvertise: 'a b:7100'", `shardAdvertise: "a b:7100" has no host`},
		{"advertise no port", "shardAdvertise: 10.0.0.7:0", `shardAdvertise: "0" isn't a port from 1 to 65535`},
		{"short lease", aNode + "shardLeaseTtl: 2s",
			"shardLeaseTtl: 2s is too short for a shardPingPeriod of 1s: two of these must fit into nine tenths of it"},
		{"slow pings", aNode + "shardPingPeriod: 5s", "shardLeaseTtl: 10s is too short for a shardPingPeriod of 5s"},
		{"fast pings", "shardPingPeriod: 1ms", "shardPingPeriod: 1ms is too short"},
		{"no token", aNode + "shardTokenFile: " + filepath.Join(dir, "missing"), "shardTokenFile: open "},
		{"empty token", aNode + token("empty", "\n"), "must contain a token of 16 to 4096 bytes: make one with"},
		{"short token", aNode + token("short", "0123456789abcde\n"), "must contain a token of 16 to 4096 bytes"},
		{"long token", aNode + token("long", strings.Repeat("x", 4097)), "must contain a token of 16 to 4096 bytes"},
		{"two tokens", aNode + token("two", "0123456789abcdef\n0123456789abcdef\n"),
			"must contain one line of visible ASCII characters"},
		{"open with a token", aNode + "shardInsecure: on\n" + token("good", "0123456789abcdef"),
			"shardInsecure: is on, but shardTokenFile is set"},
		{"open with authorities", aNode + "shardInsecure: on\ntlsCert: a\ntlsKey: b\ntlsClientCa: c",
			"shardInsecure: is on, but tlsClientCa is set"},
		{"TLS without key", aNode + "tlsCert: x", "tlsCert and tlsKey must be set together"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := loadFor(t, node, tt.yaml, nil, nil)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "0123456789abcde")
		})
	}
	needed := []string{"--cache=author", "--dc=a"}
	_, err := loadFor(t, node, "", nil, append(needed, "--advertise=x"))
	require.EqualError(t, err, `--advertise: "x" isn't host:port, such as 10.0.0.7:7100`)
	_, err = loadFor(t, node, "", []string{"TIDEMARK_SHARD_ADVERTIZE=x"}, needed)
	require.EqualError(t, err,
		"TIDEMARK_SHARD_ADVERTIZE: unknown environment variable; did you mean TIDEMARK_SHARD_ADVERTISE?; see tidemark shard serve --help")
}

func TestBadReads(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, yaml, want string }{
		{"kind", "cacheShards: [author, session]", `cacheShards: "session": the kind can't be read through shards`},
		{"none", "cacheShards: []", "cacheShards: is empty"},
		{"no records", "cacheShards: author\nrecords: off", "cacheShards: is set, but records are off"},
		{"bad data centre", "shardHosts: a/b=10.0.0.7:7100", `data centre "a/b" must match`},
		{"no port", "shardHosts: a=dns:nodes", `"a=dns:nodes" isn't host:port`},
		{"two sorts", "shardHosts: [redis, a=h:1]", `"redis" isn't host:port`},
		{"no hosts", "shardHosts: ''", "shardHosts: is empty"},
		{"authorities", "cacheShards: author\nshardCaFile: missing.pem", "shardCaFile: open missing.pem"},
		{"key without certificate", "shardKeyFile: x", "shardCertFile and shardKeyFile must be set together"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, tt.yaml, nil, nil)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// What a Manager of leases refuses is refused with the names of the options.
func TestLeasesOfNodes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ttl := rapid.Int64Range(int64(50*time.Millisecond), int64(time.Minute)).Draw(t, "ttl")
		period := rapid.OneOf(rapid.Int64Range(int64(minPingPeriod), int64(time.Minute)),
			rapid.Int64Range(ttl*9/20-2, ttl*9/20+2)).Draw(t, "period")
		o := ShardOptions{DC: "a", PingPeriod: time.Duration(period),
			Node: ShardNode{Cache: "author", Listen: "127.0.0.1:0", LeaseTTL: time.Duration(ttl)}}
		found := newFindings()
		(&Config{Shards: o}).completeNode(found)
		_, refused := lease.NewManager(nil, lease.Options{TTL: o.Node.LeaseTTL, Renew: o.PingPeriod,
			Margin: o.Node.Margin()})
		require.Equal(t, refused == nil, found.err() == nil, "%v", refused)
	})
}
