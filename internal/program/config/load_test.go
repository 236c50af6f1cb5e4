package config

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/jwt"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/internal/records/site"
)

const testKey = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// load reads a configuration from all sources. If yaml is empty, there is no file.
func load(t *testing.T, yaml string, environ, args []string) (Config, error) {
	t.Helper()
	return loadFor(t, serve, yaml, environ, args)
}

// loadFor is load for a command.
func loadFor(t *testing.T, of command, yaml string, environ, args []string) (Config, error) {
	t.Helper()
	if yaml != "" {
		path := filepath.Join(t.TempDir(), "tidemark.yaml")
		require.NoError(t, os.WriteFile(path, []byte(yaml), 0o600))
		environ = append(slices.Clone(environ), "TIDEMARK_CONFIG="+path)
	}
	flags := pflag.NewFlagSet(of.use, pflag.ContinueOnError)
	of.addFlags(flags, of.options(new(Config)))
	require.NoError(t, flags.Parse(args))
	if of.use == node.use {
		return LoadNode(flags, environ)
	}
	return Load(flags, environ)
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := load(t, "", nil, nil)
	require.NoError(t, err)

	want := newConfig()
	want.Server.Listen, want.Server.AdminListen = "127.0.0.1:8080", "127.0.0.1:8081"
	want.Server.DurableStreams = "/v1/stream/"
	want.GRPC = GRPC{Listen: "127.0.0.1:50504", MessageBytes: 1 << 20, QueryPage: 100}
	want.Server.Grace = 30 * time.Second
	want.Redis.Timeout, want.Redis.ConnectTimeout = 5*time.Second, 30*time.Second
	want.Managed.DataDir = "./tidemark-data"
	want.Channel = channel.Policy{TTL: 24 * time.Hour, MaxMessageBytes: 256 << 10}
	want.Server.MaxBodyBytes, want.Server.BodyMemory = 1<<20, 64<<20
	want.Server.AnswerMemory = 64 << 20
	want.Server.MaxStreams, want.Server.IdleTimeout, want.Server.StreamAge = 250, 2*time.Minute, time.Hour
	want.Access.Tokens.Leeway = 5 * time.Second
	want.Access.Tokens.Algorithms, want.Access.Tokens.Claim = []string{"RS256", "ES256", "EdDSA"}, jwt.DefaultClaim
	want.Access.Tokens.SubjectClaim = jwt.DefaultSubjectClaim
	want.Access.UserLimits = access.Limits{
		Requests: access.Rate{Count: 100, Per: time.Second}, PublishedBytes: access.Rate{Count: 1 << 20,
			Per: time.Second}, Waits: 100,
		Tickets: access.Rate{Count: 60, Per: time.Minute}, NewChannels: access.Rate{Count: 60, Per: time.Minute},
		NewSubscribers: access.Rate{Count: 600, Per: time.Minute},
	}
	want.Matchmaking = Matchmaking{On: true, MaxQueues: service.DefaultMaxQueues, ReadReplicas: "off",
		LeaseTTL: service.DefaultLeaseTTL}
	grants, err := access.ParseGrants([]byte(defaultSessionGrants))
	require.NoError(t, err)
	want.Records = RecordOptions{
		On: true, Site: site.Community(), Notifications: c.Records.Notifications, Cache: CacheOptions{Memory: 64 << 20},
		Sessions: SessionOptions{TTL: 720 * time.Hour, Grants: grants},
		Metrics:  KeyMetricsOptions{Every: 10 * time.Minute, Rate: 5000},
		OAuth: OAuthOptions{Providers: []string{"google", "github", "facebook", "twitter", "telegram", "vk",
			"yandex"}},
	}
	want.Shards = ShardOptions{
		PingPeriod: time.Second, Reads: ShardReads{Hosts: []string{"redis"}, Timeout: 50 * time.Millisecond},
		Node: ShardNode{Listen: "127.0.0.1:7100", AdminListen: "127.0.0.1:7101", LeaseTTL: 10 * time.Second,
			Reload: 10 * time.Minute, LoadRate: 50_000, MaxConnections: 1024},
	}
	want.Log.Level, want.Log.Format = slog.LevelInfo, "text"
	want.values = c.values
	require.Equal(t, want, c)
}

func TestDefaultLimitsAreThoseOfTheService(t *testing.T) {
	t.Parallel()
	c, err := load(t, "", nil, nil)
	require.NoError(t, err)
	require.Equal(t, channel.DefaultLimits(), c.Limits)
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	const yaml = "logLevel: error"
	environ, args := []string{"TIDEMARK_LOG_LEVEL=warn"}, []string{"--log-level", "debug"}
	tests := []struct {
		name    string
		yaml    string
		environ []string
		args    []string
		want    slog.Level
	}{
		{"flag over all", yaml, environ, args, slog.LevelDebug},
		{"variable over file", yaml, environ, nil, slog.LevelWarn},
		{"file over default", yaml, nil, nil, slog.LevelError},
		{"flag over variable", "", environ, args, slog.LevelDebug},
		{"flag over file", yaml, nil, args, slog.LevelDebug},
		{"empty variable isn't set", yaml, []string{"TIDEMARK_LOG_LEVEL="}, nil, slog.LevelError},
		{"flag with the default's value", yaml, environ, []string{"--log-level", "info"}, slog.LevelInfo},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := load(t, tt.yaml, tt.environ, tt.args)
			require.NoError(t, err)
			require.Equal(t, tt.want, c.Log.Level)
		})
	}
}

// TestEverySource sets every option in each source, with the same result.
func TestEverySource(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600))
	values := map[string]string{
		"listen": ":9", "grpc-listen": ":10", "grpc-message-bytes": "2MiB", "grpc-query-page": "10", "query-page-size": "11",
		"openmatch-listen": "frontend=:11,backend=h:12,query=:13",
		"admin-listen":     "unix:a/admin.sock", "port-offset": "0", "grace": "7s", "drain-delay": "2s",
		"cors-origins": "https://a.example,https://b.example", "allow-hosts": "a.example,b.example",
		"predecessor-prefix": "/old", "durable-streams": "/streams/",
		"redis": "redis://a:6379,b:6379", "key-prefix": "mm1.", "redis-username": "u", "redis-password": "0123",
		"redis-ca-file": "ca.pem", "redis-server-name": "r.example", "redis-cert-file": "c.pem",
		"redis-key-file": "k.pem", "redis-sentinel-master": "m",
		"redis-sentinel-username": "su", "redis-sentinel-password": "1e3", "redis-timeout": "3s",
		"redis-connect-timeout": "4s",
		"data-dir":              "d", "redis-binary": "valkey-server", "channel-ttl": "2h",
		"channel-max-messages": "12",
		"channel-replicas":     "1", "channel-max-subscribers": "3",
		"channel-max-message-bytes": "2MiB",
		"channels":                  `[{"pattern":"a","ttl":"5s","maxMessages":7,"maxMessageBytes":"1KiB","replicas":2,"maxSubscribers":5,"readers":["*"],"writers":["a","b"],"queryToken":true}]`,
		"jwt-keys":                  "https://issuer.example/keys,http://127.0.0.1:1/keys",
		"jwt-algorithms":            "ES256,EdDSA",
		"jwt-issuer":                "i", "jwt-audience": "a,b",
		"jwt-leeway": "3s", "jwt-claim": "grants", "jwt-subject-claim": "name",
		"user-limits": "waits=5", "address-limits": "waits=6", "quotas": "tickets=7/d",
		"trust-traces":   "on",
		"trust-proxies":  "10.0.0.0/8,192.0.2.7",
		"max-body-bytes": "4 MiB", "body-memory": "5 MiB", "answer-memory": "6MiB", "max-connections": "55",
		"max-streams": "7", "idle-timeout": "40s", "max-batch": "3", "max-fetch": "40", "fetch-bytes": "65536", "max-wait": "30s",
		"stream-age":   "30m",
		"receipt-keys": testKey + "," + testKey, "log-level": "warn", "log-format": "json",
		"matchmaking":   "off",
		"queues":        `{"duel":{"match":{"teams":3,"weights":{"skill":0.5}},"reveal":"teammates"},"eu.west":null}`,
		"tickets-redis": "redis://t:6379", "tickets-read-replicas": "redis://r:6379", "require-credentials": "on",
		"tls-cert": "s.pem", "tls-key": "sk.pem", "tls-client-ca": "clients.pem",
		"records": "off", "records-keys": "plain", "sessions-redis": "redis://s:6379", "cache-redis": "redis://c:6379", "session-ttl": "1h",
		"session-grants":  `[{"actions":["subscribe"],"channels":["news"]}]`,
		"oauth-providers": "github,my-own", "keyset": "keys.json", "cache-memory": "1MiB",
		"kinds":       `{"caches":[{"name":"author","key":"a:{<id>}"}]}`,
		"key-metrics": "session,unknown", "key-metrics-pause": "1m", "key-metrics-rate": "7",
		"lease-ttl": "1s", "max-queues": "7", "ticket-replicas": "2", "callout-allow": "fn.example:9000,10.0.0.0/8",
		"shard-hosts": "a=10.0.0.7:7100,b=dns:nodes.b.internal:7100", "shard-dc": "a", "shard-ping-period": "2s",
		"shard-token-file": token,
		"shard-timeout":    "9ms", "shard-ca-file": "nodes.pem", "shard-server-name": "node",
		"shard-cert-file": "to-nodes.pem", "shard-key-file": "to-nodes-key.pem",
		"shard-cache": "author", "shard-host-name": "node-1", "shard-listen": ":7",
		"shard-advertise": "node-1.a.internal:7", "shard-admin-listen": "off",
		"shard-lease-ttl": "20s", "shard-keep-serving": "on", "shard-reload": "1h", "shard-load-rate": "7",
		"shard-memory": "1MiB", "shard-max-connections": "9",
	}
	// they exclude others, or must exist
	apart := []string{"redis-password-file", "redis-sentinel-password-file", "tickets-redis-password-file",
		"sessions-redis-password-file", "cache-redis-password-file", "receipt-keys-file", "api-keys", "insecure", "cache-shards",
		"shard-insecure"}

	read := func(of command) Config {
		var yaml strings.Builder
		var environ, args []string
		for _, o := range of.options(new(Config)) {
			value, ok := values[o.name]
			if !ok {
				require.Contains(t, apart, o.name)
				continue
			}
			yaml.WriteString(o.key() + ": " + yamlOf(o, value) + "\n")
			environ = append(environ, o.env()+"="+value)
			args = append(args, of.flag(o)+"="+value)
		}
		fromYAML, err := loadFor(t, of, yaml.String(), nil, nil)
		require.NoError(t, err)
		fromEnviron, err := loadFor(t, of, "", environ, nil)
		require.NoError(t, err)
		fromFlags, err := loadFor(t, of, "", nil, args)
		require.NoError(t, err)
		fromYAML.values, fromEnviron.values, fromFlags.values = nil, nil, nil
		fromYAML.sources, fromEnviron.sources, fromFlags.sources = nil, nil, nil
		require.Equal(t, fromYAML, fromEnviron)
		require.Equal(t, fromYAML, fromFlags)
		return fromYAML
	}
	require.Equal(t, ShardOptions{
		DC: "a", PingPeriod: 2 * time.Second, TokenFile: token, Token: "0123456789abcdef",
		Reads: ShardReads{Hosts: []string{"redis"}, Timeout: 50 * time.Millisecond},
		Node: ShardNode{
			Cache: "author", Host: "node-1", Listen: ":7", Advertise: "node-1.a.internal:7", LeaseTTL: 20 * time.Second,
			KeepServing: true, Reload: time.Hour,
			LoadRate: 7, Memory: 1 << 20, MaxConnections: 9,
		},
	}, read(node).Shards)
	fromYAML := read(serve)

	require.Equal(t, 11, fromYAML.GRPC.QueryPage)
	require.Equal(t, OpenMatchListen{Frontend: ":11", Backend: "h:12", Query: ":13"}, fromYAML.GRPC.OpenMatch)
	require.Equal(t, []string{"https://a.example", "https://b.example"}, fromYAML.Server.CORSOrigins)
	require.Equal(t, "0123", fromYAML.Redis.Password)
	require.Equal(t, "1e3", fromYAML.Redis.Sentinel.Password)
	require.Equal(t, []channel.Rule{{Pattern: "a", TTL: "5s", MaxMessages: "7", MaxMessageBytes: "1024", Replicas: "2",
		MaxSubscribers: "5"}}, fromYAML.Rules)
	require.Equal(t, Access{
		Rules: []access.ChannelRule{{Pattern: "a", Readers: []string{"*"}, Writers: []string{"a", "b"},
			QueryToken: true}},
		Tokens: jwt.Options{
			Keys:       []string{"https://issuer.example/keys", "http://127.0.0.1:1/keys"},
			Algorithms: []string{"ES256", "EdDSA"},
			Issuer:     "i", Audience: []string{"a", "b"}, Leeway: 3 * time.Second, Claim: "grants",
			SubjectClaim: "name",
		},
		Require: true,

		UserLimits: access.Limits{Waits: 5}, AddressLimits: access.Limits{Waits: 6},
		Quotas:       access.Limits{Tickets: access.Rate{Count: 7, Per: 24 * time.Hour}},
		TrustProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32")},
	}, fromYAML.Access)
	require.Equal(t, 4<<20, fromYAML.Server.MaxBodyBytes)
	require.Equal(t, 40*time.Second, fromYAML.Server.IdleTimeout)
	require.Equal(t, 40, fromYAML.Limits.DefaultMax, "never more than max-fetch")
	require.Len(t, fromYAML.Receipts.Keys, 2)
	require.Len(t, fromYAML.Matchmaking.Queues, 2)
	require.Equal(t, "eu.west", fromYAML.Matchmaking.Queues[1].Name)
	require.Equal(t, 3, fromYAML.Matchmaking.Queues[0].Match.Teams)
	require.False(t, fromYAML.Matchmaking.On)
	kept := fromYAML.Records
	require.Equal(t, "redis://s:6379 redis://c:6379 keys.json", kept.Sessions.Redis+" "+kept.Cache.Redis+" "+
		kept.OAuth.Keyset)
	require.Equal(t, []access.Action{access.Subscribe}, kept.Sessions.Grants[0].Actions)
	require.Equal(t, []string{"github", "my-own"}, kept.OAuth.Providers)
	require.False(t, kept.On)
	require.Equal(t, KeyMetricsOptions{Kinds: []string{"session", "unknown"}, Every: time.Minute, Rate: 7},
		kept.Metrics)
	require.Equal(t, ShardReads{
		Timeout: 9 * time.Millisecond,
		Hosts:   []string{"a=10.0.0.7:7100", "b=dns:nodes.b.internal:7100"},
		TLS:     clientTLS{CAFile: "nodes.pem", Name: "node", CertFile: "to-nodes.pem", KeyFile: "to-nodes-key.pem"},
	}, fromYAML.Shards.Reads)
}

// yamlOf writes a value as one would in a file: lists as lists.
func yamlOf(o option, value string) string {
	if o.kind == kindList {
		return "[" + value + "]"
	}
	return strings.ReplaceAll(value, "\n", " ")
}

func TestSwitches(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--insecure"}, {"--insecure=on"}, {"--require-credentials=off", "--insecure"},
		{"--insecure=true"}, {"--insecure=yes"}, {"--insecure=1"}, {"--require-credentials=no", "--insecure"}} {
		c, err := load(t, "", nil, args)
		require.NoError(t, err)
		require.True(t, c.Access.Insecure)
		require.False(t, c.Access.Closed())
	}
	_, err := load(t, "", nil, []string{"--insecure=maybe"})
	require.ErrorContains(t, err, `--insecure: "maybe" isn't on or off`)
}

func TestRepeatedListFlag(t *testing.T) {
	t.Parallel()
	c, err := load(t, "", nil, []string{"--cors-origins", "https://a.example", "--cors-origins", "https://b.example"})
	require.NoError(t, err)
	require.Equal(t, []string{"https://a.example", "https://b.example"}, c.Server.CORSOrigins)
}

func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	password, keys := filepath.Join(dir, "password"), filepath.Join(dir, "keys")
	require.NoError(t, os.WriteFile(password, []byte(" se cret \n"), 0o600))
	require.NoError(t, os.WriteFile(keys, []byte("# of 2020\n"+testKey+"\n\n"+testKey+"\n"), 0o600))
	c, err := load(t, "redis: localhost\nredisPasswordFile: "+password+"\nreceiptKeysFile: "+keys, nil, nil)
	require.NoError(t, err)
	require.Equal(t, " se cret ", c.Redis.Password)
	require.Len(t, c.Receipts.Keys, 2)
}

// The variable of a container often has the content of a file.
func TestPasswordsOfVariables(t *testing.T) {
	t.Parallel()
	c, err := load(t, "redis: localhost\nredisSentinelMaster: m", []string{
		"TIDEMARK_REDIS_PASSWORD= se cret \n", "TIDEMARK_REDIS_SENTINEL_PASSWORD=other\r\n",
	}, nil)
	require.NoError(t, err)
	require.Equal(t, " se cret ", c.Redis.Password)
	require.Equal(t, "other", c.Redis.Sentinel.Password)
}

func TestVariablesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	_, err := load(t, "", []string{
		"TIDEMARK_SERVER=http://127.0.0.1:1", "TIDEMARK_SERVICE_HOST=10.0.0.1", "TIDEMARK_SERVICE_PORT=80",
		"TIDEMARK_SERVICE_PORT_HTTP=80", "TIDEMARK_PORT=tcp://10.0.0.1:80", "TIDEMARK_PORT_80_TCP=tcp://10.0.0.1:80",
		"TIDEMARK_PORT_80_TCP_ADDR=10.0.0.1", "TIDEMARK_REDIS_SERVICE_HOST=10.0.0.2", "TIDEMARK_TEST_REDIS=container",
		"TIDEMARKET=x", "OTHER=x",
	}, nil)
	require.NoError(t, err)
}

func TestEmptyFile(t *testing.T) {
	t.Parallel()
	for _, yaml := range []string{"\n", "# nothing\n", "---\n", "redis:\ngrace: ~\n", "{}"} {
		_, err := load(t, yaml, nil, nil)
		require.NoError(t, err, "%q", yaml)
	}
}

func TestServiceLinks(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"TIDEMARK_PORT": true, "TIDEMARK_PORT_8080_TCP_PROTO": true, "TIDEMARK_A_SERVICE_PORT_HTTP": true,
		"TIDEMARK_REPORT": false, "TIDEMARK_PORTS": false, "TIDEMARK_PORT_TCP": false, "TIDEMARK_LISTEN": false,
	} {
		require.Equal(t, want, notForServe(name), name)
	}
	for _, o := range allOptions(new(Config)) {
		require.False(t, notForServe(o.env()), o.name)
	}
}

// TestPortsOfOpenMatch checks that HTTP or a service of Open Match may have the default port of gRPC.
func TestPortsOfOpenMatch(t *testing.T) {
	t.Parallel()
	c, err := load(t, "openmatchListen: frontend=:50504,query=:50503", nil, nil)
	require.NoError(t, err)
	require.Empty(t, c.GRPC.Listen)
	require.Equal(t, map[string]string{"frontend": ":50504", "query": ":50503"}, c.GRPC.OpenMatch.ByService())
	c, err = load(t, "openmatchListen: backend=:50505", nil, nil)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:50504", c.GRPC.Listen)
	c, err = load(t, "listen: 127.0.0.1:50504", nil, nil)
	require.NoError(t, err)
	require.Empty(t, c.GRPC.Listen)
	c, err = load(t, "listen: 127.0.0.1:50504\ngrpcListen: 127.0.0.2:50504", nil, nil)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.2:50504", c.GRPC.Listen)
	for text, want := range map[string]string{
		"openmatchListen: frontend=:50504\ngrpcListen: 127.0.0.1:50504": "openmatchListen: frontend has the port of " +
			"grpcListen: give it another one, or grpcListen: off",
		"openmatchListen: frontend=:1,query=:1": "openmatchListen: frontend and query have the same port: give each its own",
		"openmatchListen: query=:1,query=:2":    "openmatchListen: query has two addresses: leave one out",
		"openmatchListen: director=:1": `openmatchListen: "director=:1" isn't frontend=host:port, backend=host:port or ` +
			`query=host:port, such as frontend=:50504`,
		"openmatchListen: frontend": `openmatchListen: "frontend" isn't frontend=host:port, backend=host:port or ` +
			`query=host:port, such as frontend=:50504`,
		"openmatchListen: frontend=here": `openmatchListen: frontend: "here" isn't host:port, such as 127.0.0.1:8080 or :8080`,
	} {
		_, err := load(t, text, nil, nil)
		require.ErrorContains(t, err, want)
	}
}

// TestPortOffset: a port offset moves all addresses to listen on but sockets and free ports.
func TestPortOffset(t *testing.T) {
	t.Parallel()
	c, err := loadFor(t, serve, "", nil, []string{"--port-offset=20", "--openmatch-listen=query=127.0.0.1:50503"})
	require.NoError(t, err)
	require.Equal(t, []string{"127.0.0.1:8100", "127.0.0.1:8101", "127.0.0.1:50524", "127.0.0.1:50523"},
		[]string{c.Server.Listen, c.Server.AdminListen, c.GRPC.Listen, c.GRPC.OpenMatch.Query})
	c, err = loadFor(t, serve, "", nil, []string{"--port-offset=20", "--listen=[::1]:0", "--admin-listen=unix:7",
		"--grpc-listen=off"})
	require.NoError(t, err)
	require.Equal(t, []string{"[::1]:0", "unix:7", ""}, []string{c.Server.Listen, c.Server.AdminListen, c.GRPC.Listen})
	c, err = loadFor(t, node, "", nil, []string{"--port-offset=20", "--cache=author", "--dc=a"})
	require.NoError(t, err)
	require.Equal(t, []string{"127.0.0.1:7120", "127.0.0.1:7121"}, []string{c.Shards.Node.Listen, c.Shards.Node.AdminListen})
	_, err = loadFor(t, node, "", nil, []string{"--port-offset=50000", "--cache=author", "--dc=a"})
	require.NoError(t, err)
	_, err = loadFor(t, serve, "", nil, []string{"--port-offset=20000"})
	require.ErrorContains(t, err, "portOffset: 20000 and the port of grpcListen, 127.0.0.1:50504, are together more than 65535")
}
