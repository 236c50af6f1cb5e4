package config

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBadYAML(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, yaml, want string }{
		{"unknown key", "lisen: x",
			"tidemark.yaml:1: lisen: unknown key; did you mean listen?; see tidemark serve --help"},
		{"flag's name", "data-dir: x", "tidemark.yaml:1: data-dir: unknown key; did you mean dataDir?"},
		{"wrong case", "datadir: x", "tidemark.yaml:1: datadir: unknown key; did you mean dataDir?"},
		{"dotted", "listen.port: 80", "tidemark.yaml:1: listen.port: unknown key; see tidemark serve --help"},
		{"nested", "listen: {port: 80}", `tidemark.yaml:1: listen: must be a plain value, of the kind host:port, not a mapping`},
		{"nothing known", "{redis: {a: {b: 1}}}", `tidemark.yaml:1: redis: must be a plain value, of the kind url, not a mapping`},
		{"merge key", "a: &a {grace: 1s}\n<<: *a", "tidemark.yaml:2: <<: unknown key; see tidemark serve --help"},
		{"list for one", "grace: [1s]", `tidemark.yaml:1: grace: must be a plain value, of the kind duration, not a list`},
		{"mapping in a list", "corsOrigins: [{a: b}]", "tidemark.yaml:1: corsOrigins: isn't a list of plain values"},
		{"twice", "grace: 1s\ngrace: 2s", "tidemark.yaml:2: grace: duplicate key, first in line 1"},
		{"not a mapping", "- a", "tidemark.yaml:1: the file isn't a mapping of keys to values"},
		{"just text", "text", "tidemark.yaml:1: the file isn't a mapping of keys to values"},
		{"two documents", "grace: 1s\n---\ngrace: 2s", "tidemark.yaml:2: the file contains more than one document"},
		{"not YAML", "a: [", "tidemark.yaml:1: invalid YAML: "},
		{"tab", "grace: 1s\nuserLimits:\n \trequests: 5", "; line 3 is indented with a tab: use spaces"},
		{"circle", "channels: &a [*a]", "tidemark.yaml:1: nested too deeply"},

		{"duration", "channelTtl: 5", `tidemark.yaml:1: channelTtl: "5" isn't a duration, such as 500ms, 30s or 24h`},
		{"too short", "channelTtl: 1ms", "tidemark.yaml:1: channelTtl: 1ms is too short, at least 1s is needed"},
		{"too long", "channelTtl: 999999h",
			"tidemark.yaml:1: channelTtl: 999999h is too long, at most 87600h0m0s is allowed"},
		{"negative", "grace: -1s", "tidemark.yaml:1: grace: -1s is too short, at least 0s is needed"},
		{"int", "maxBatch: many", `tidemark.yaml:1: maxBatch: "many" isn't an integer`},
		{"small int", "maxFetch: 0", "tidemark.yaml:1: maxFetch: 0 is too small, at least 1 is needed"},
		{"bytes", "maxBodyBytes: 3MB",
			`tidemark.yaml:1: maxBodyBytes: "3MB" isn't a number of bytes, such as 65536, 256KiB or 4MiB`},
		{"huge", "maxBodyBytes: 9999999999GiB", `tidemark.yaml:1: maxBodyBytes: "9999999999GiB" isn't a number of bytes`},
		{"no keys", "apiKeys: ''", "tidemark.yaml:1: apiKeys: is empty: leave the option out, or set it"},
		{"keys without a value", "apiKeys:", "tidemark.yaml:1: apiKeys: is empty: leave the option out, or set it"},
		{"empty list of keys", "jwtKeys: []", "tidemark.yaml:1: jwtKeys: is empty"},
		{"no bytes", "fetchBytes: 0", "tidemark.yaml:1: fetchBytes: 0 is too small, at least one byte is needed"},
		{"listen", "listen: 8080", `tidemark.yaml:1: listen: "8080" isn't host:port, such as 127.0.0.1:8080 or :8080`},
		{"port", "listen: :80800", `tidemark.yaml:1: listen: "80800" isn't a port from 0 to 65535`},
		{"socket", "adminListen: 'unix:'", `tidemark.yaml:1: adminListen: "unix:" has no path`},
		{"admin", "adminListen: 8081", `tidemark.yaml:1: adminListen: "8081" isn't host:port`},
		{"origin", "corsOrigins: [example.com]", `tidemark.yaml:1: corsOrigins: "example.com" isn't an origin`},
		{"origin without a dot after its star", "corsOrigins: 'https://*example.com'",
			`tidemark.yaml:1: corsOrigins: "https://*example.com" isn't an origin, such as https://*.example.com, in which a dot`},
		{"origin that begins with a star only", "corsOrigins: 'https://pr-*'", `in which a dot follows the star`},
		{"origin with an expression", "corsOrigins: 'https://.*.example.com'", `in which a dot follows the star`},
		{"origin with two stars", "corsOrigins: 'https://**.example.com'", `in which a dot follows the star`},
		{"host that begins with a dot", "allowHosts: .example.com", `tidemark.yaml:1: allowHosts: ".example.com" isn't a host`},
		{"host with two stars", "allowHosts: '**.example.com'", `such as tidemark.example.com or *.example.com`},
		{"target with a star", "calloutAllow: 'https://*.example.com/match'",
			`"https://*.example.com/match" is the start of a URL, which has no star`},
		{"any target", "calloutAllow: '*'", `"*" is not a host such as fn.example.com or *.example.com`},
		{"expression of a session's grant", "sessionGrants: [{actions: [publish], channels: ['chat[.].*']}]",
			`tidemark.yaml:1: sessionGrants: grants[0].channels[0]: "chat[.].*" matches nothing`},
		{"star of a grant", "channels: [{pattern: 'orders*'}]", "tidemark.yaml:1: channels[0].pattern: s* would be any number"},
		{"origin with path", "corsOrigins: https://a/b", `tidemark.yaml:1: corsOrigins: "https://a/b" isn't an origin`},
		{"prefix", `keyPrefix: "a{b}"`, `tidemark.yaml:1: keyPrefix: "a{b}" contains a brace`},
		{"prefix with space", "keyPrefix: a b",
			`tidemark.yaml:1: keyPrefix: "a b" contains a space or a control character`},
		{"limits", "userLimits: requests=5", `tidemark.yaml:1: userLimits: requests: "5" isn't a rate, such as 100/s`},
		{"quotas", "quotas: 'requests=5/s,waits=5'",
			`tidemark.yaml:1: quotas: "requests=5/s,waits=5" has a limit that is no quota`},
		{"quotas without credentials", "quotas: requests=5/s", "quotas: is set, but nobody has one"},
		{"proxies", "trustProxies: [10.0.0.0/40]",
			`tidemark.yaml:1: trustProxies: "10.0.0.0/40" isn't a network, such as 10.0.0.0/8`},
		{"level", "logLevel: loud", `tidemark.yaml:1: logLevel: "loud" isn't debug, info, warn or error`},
		{"format", "logFormat: xml", `tidemark.yaml:1: logFormat: "xml" isn't text or json`},
		{"long sessions", "sessionTtl: 721h",
			"tidemark.yaml:1: sessionTtl: 721h is too long, at most 720h0m0s is allowed"},
		{"grants of sessions", "sessionGrants: [{actions: [all]}]",
			`tidemark.yaml:1: sessionGrants: grants[0].actions[0]: "all" isn't an action`},
		{"provider", "oauthProviders: [Google]", `tidemark.yaml:1: oauthProviders: "Google" isn't a provider`},
		{"kind", "keyMetrics: [sessions]", `tidemark.yaml:1: keyMetrics: "sessions" is no kind of keys`},
		{"no keyset", "keyset: ''", "tidemark.yaml:1: keyset: is empty"},
		{"key", "receiptKeys: [secret!]",
			"tidemark.yaml:1: receiptKeys: a key isn't base64: make one with `openssl rand -base64 32`"},
		{"short key", "receiptKeys: c2VjcmV0",
			"tidemark.yaml:1: receiptKeys: receipt key is too short: 6 bytes of at least 32"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, tt.yaml, nil, nil)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "secret!")
		})
	}
}

func TestBadRules(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, yaml, want string }{
		{"not a list", "channels: {pattern: a}", `tidemark.yaml:1: channels: must be a list of mappings, not a mapping`},
		{"unknown key", "channels: [{pattern: a}, {pattern: b, maxMsgs: 1}]",
			"tidemark.yaml:1: channels[1].maxMsgs: unknown member (known: pattern, ttl,"},
		{"no pattern", "channels: [{ttl: 1h}]", "tidemark.yaml:1: channels[0].pattern: is empty"},
		{"bad pattern", "channels: [{pattern: '('}]", "tidemark.yaml:1: channels[0].pattern: error parsing regexp"},
		{"ttl", "channels: [{pattern: a, ttl: 5}]", "tidemark.yaml:1: channels[0].ttl: time: missing unit"},
		{"short ttl", "channels: [{pattern: a, ttl: 5ms}]", "tidemark.yaml:1: channels[0].ttl: 5ms isn't between"},
		{"messages", "channels: [{pattern: a, maxMessages: -1}]",
			"tidemark.yaml:1: channels[0].maxMessages: -1 is negative"},
		{"bytes", "channels: [{pattern: a, maxMessageBytes: 3MB}]",
			`tidemark.yaml:1: channels[0].maxMessageBytes: "3MB" isn't a number of bytes`},
		{"replicas", "channels: [{pattern: a, replicas: -1}]", "tidemark.yaml:1: channels[0].replicas: -1 is negative"},
		{"capture", "channels: [{pattern: a, ttl: '${life}'}]", "tidemark.yaml:1: channels[0].ttl:"},
		{"reader", "channels: [{pattern: a, readers: ['${life}']}]",
			"tidemark.yaml:1: channels[0].readers[0]: \"${life}\" names a capture"},
		{"readers", "channels: [{pattern: a, readers: '*'}]", "tidemark.yaml:1: channels[0].readers: must be an array"},
		{"query", "channels: [{pattern: a, queryToken: maybe}]",
			"tidemark.yaml:1: channels[0].queryToken: must be true or false"},
		{"nested", "channels: [{pattern: [a]}]", "tidemark.yaml:1: channels[0].pattern: must be a string or a number"},
		{"schema", "channels: [{pattern: a, schema: /nowhere/a.json}]",
			"tidemark.yaml:1: channels[0].schema: open /nowhere/a.json"},
		{"deliver", "channels: [{pattern: a, deliver: fast}]",
			`tidemark.yaml:1: channels[0].deliver: is "fast", it must be copies`},
		{"publish", "channels: [{pattern: a, publish: loudly}]",
			`tidemark.yaml:1: channels[0].publish: is "loudly", it must be plain`},
		{"not mappings", "channels: [a]", "tidemark.yaml:1: channels[0]: must be an object, not a string"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, tt.yaml, nil, nil)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestBadVariablesAndFlags(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		environ []string
		args    []string
		want    string
	}{
		{"unknown variable", []string{"TIDEMARK_LISEN=x"}, nil,
			"TIDEMARK_LISEN: unknown environment variable; did you mean TIDEMARK_LISTEN?; see tidemark serve --help"},
		{"variable's parts", []string{"TIDEMARK_DATADIR=x"}, nil,
			"TIDEMARK_DATADIR: unknown environment variable; did you mean TIDEMARK_DATA_DIR?"},
		{"value of a variable", []string{"TIDEMARK_GRACE=x"}, nil, `TIDEMARK_GRACE: "x" isn't a duration`},
		{"also when a flag wins", []string{"TIDEMARK_GRACE=x"}, []string{"--grace=1s"},
			`TIDEMARK_GRACE: "x" isn't a duration`},
		{"rules in a variable", []string{`TIDEMARK_CHANNELS=[{"patern":"a"}]`}, nil,
			"TIDEMARK_CHANNELS: channels[0].patern: unknown member (known: pattern, ttl,"},
		{"not JSON", []string{"TIDEMARK_CHANNELS=a=1h"}, nil,
			"TIDEMARK_CHANNELS: channels: not a list of rules, such as ["},
		{"more after JSON", []string{"TIDEMARK_CHANNELS=[] []"}, nil,
			"TIDEMARK_CHANNELS: channels: not a list of rules"},
		{"value of a flag", nil, []string{"--max-wait", "x"}, `--max-wait: "x" isn't a duration`},
		{"empty flag", nil, []string{"--max-wait="}, `--max-wait: "" isn't a duration`},
		{"no keys", []string{"TIDEMARK_API_KEYS=keys.yaml"}, []string{"--api-keys="},
			"--api-keys: is empty: leave the option out, or set it"},
		{"no keys of tokens", nil, []string{"--jwt-keys= , "}, "--jwt-keys: is empty"},
		{"no audience", nil, []string{"--jwt-audience="}, "--jwt-audience: is empty"},
		{"no authorities", nil, []string{"--tls-client-ca="}, "--tls-client-ca: is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, "", tt.environ, tt.args)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestOptionsThatDontFitTogether(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	tests := []struct{ name, yaml, want string }{
		{"body", "maxBodyBytes: 1KiB", "maxBodyBytes: is smaller than channelMaxMessageBytes"},
		{"body of a rule", "channels: [{pattern: a, maxMessageBytes: 2MiB}]",
			"maxBodyBytes: is smaller than channels[0].maxMessageBytes"},
		{"memory of bodies", "bodyMemory: 1023KiB", "bodyMemory: is smaller than maxBodyBytes"},
		{"delay", "drainDelay: 31s", "drainDelay: is longer than grace"},
		{"password for the managed one", "redisPassword: x", "redisPassword: is set but redis isn't"},
		{"two providers", "oauthProviders: [a, a]", `oauthProviders: duplicate provider "a"`},
		{"sentinel of nothing", "redisSentinelMaster: x", "redisSentinelMaster: is set but redis isn't"},
		{"certificate without key", "redis: a\nredisCertFile: x",
			"redisCertFile and redisKeyFile must be set together"},
		{"key without certificate", "redis: a\nredisKeyFile: x", "redisCertFile and redisKeyFile must be set together"},
		{"TLS without key", "tlsCert: x", "tlsCert: tlsCert and tlsKey must be set together"},
		{"TLS without certificate", "tlsKey: x", "tlsCert: tlsCert and tlsKey must be set together"},
		{"clients' authority", "tlsClientCa: x", "tlsClientCa: is set but tlsCert isn't"},
		{"two ways", "insecure: on\nrequireCredentials: on", "insecure: is on, but credentials are required"},
		{"keys", "apiKeys: " + missing, "apiKeys: the file of API keys: open " + missing},
		{"sentinel password", "redis: a\nredisSentinelPassword: x", "redisSentinelMaster: isn't set"},
		{"two passwords", "redis: a\nredisPassword: x\nredisPasswordFile: y",
			"redisPasswordFile: redisPassword is set too"},
		{"two passwords of Sentinels", "redis: a\nredisSentinelMaster: m\nredisSentinelPassword: x\nredisSentinelPasswordFile: y",
			"redisSentinelPasswordFile: redisSentinelPassword is set too"},
		{"a password file of no Sentinels", "redis: a\nredisSentinelPasswordFile: y", "redisSentinelMaster: isn't set"},
		{"a password file of no Redis", "ticketsRedisPasswordFile: y", "ticketsRedisPasswordFile: is set but ticketsRedis isn't"},
		{"a password file of another Redis", "sessionsRedis: redis://s\nsessionsRedisPasswordFile: " + missing,
			"sessionsRedisPasswordFile: open " + missing},
		{"password file", "redis: a\nredisPasswordFile: " + missing, "redisPasswordFile: open " + missing},
		{"two lists of keys", "receiptKeys: " + testKey + "\nreceiptKeysFile: y",
			"receiptKeysFile: receiptKeys is set too"},
		{"issuer of nothing", "jwtIssuer: a", "jwtKeys: isn't set, but an issuer"},
		{"audience of nothing", "jwtAudience: [a]", "jwtKeys: isn't set, but an issuer"},
		{"tokens' keys", "jwtKeys: " + missing, "jwtKeys: " + missing + ": open"},
		{"tokens' algorithms", "jwtKeys: https://a.example/k\njwtAlgorithms: [none]",
			`jwtAlgorithms: "none" isn't one of`},
		{"keys file", "receiptKeysFile: " + missing, "receiptKeysFile: open " + missing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, tt.yaml, nil, nil)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestMissingConfigFile(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	_, err := load(t, "", nil, []string{"--config", missing})
	require.ErrorContains(t, err, "read the configuration: open "+missing)
}
