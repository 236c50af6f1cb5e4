package config

import (
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/records/tokens"
)

// defaultSessionGrants let the user of a session follow notifications.
const defaultSessionGrants = `[{"actions":["subscribe","describe"],"channels":["notifications:{sub}","notifications:global","notifications:topic:*","notifications:author:*","notifications:shout:*"]},{"actions":["read"],"records":["channels-of/{sub}"]}]`

func recordOptions() []option {
	return []option{
		{
			name: "records", kind: "switch", def: "on",
			help: "Whether to serve records, such as sessions, settings, caches and locks: on or off.",
			set:  into(func(c *Config) *bool { return &c.Records.On }, onOrOff),
		},
		{
			name: "sessions-redis", kind: "url",
			help: "Another Redis for sessions and for OAuth and verification tokens, with user and password in the URL if it needs them. It must not evict. Not set: that of the channels.",
			set:  into(func(c *Config) *string { return &c.Records.Sessions.Redis }, anyText),
		},
		{
			name: "cache-redis", kind: "url",
			help: "Another Redis for caches, with user and password in the URL if it needs them. It may evict. Not set: that of the channels.",
			set:  into(func(c *Config) *string { return &c.Records.Cache.Redis }, anyText),
		},
		{
			name: "session-ttl", kind: "duration", def: "720h",
			help: "How long a session lives without activity. At most 720h, which is 30 days.",
			set: into(func(c *Config) *time.Duration { return &c.Records.Sessions.TTL },
				durationBetween(MinSessionTTL, MaxSessionTTL)),
		},
		{
			name: "session-grants", kind: kindGrants, def: defaultSessionGrants,
			help: "What the token of a session allows its user, as in the record of an API key. In a flag or variable: a JSON array.",
			set:  into(func(c *Config) *access.Grants { return &c.Records.Sessions.Grants }, ParseGrants),
		},
		{
			name: "legacy-sessions", kind: "switch", def: "on",
			help: "Whether to accept sessions that applications wrote by hand, with the token in the key. The first check moves such a session.",
			set:  into(func(c *Config) *bool { return &c.Records.Sessions.Legacy }, onOrOff),
		},
		{
			name: "oauth-providers", kind: kindList, def: strings.Join(tokens.DefaultProviders, ","),
			help: "OAuth providers whose tokens can be stored.",
			set:  into(func(c *Config) *[]string { return &c.Records.OAuth.Providers }, listOf(ParseProvider)),
		},
		{
			name: "keyset", kind: "file",
			help: "File with the keys that encrypt OAuth tokens, which tidemark keyset create writes. Not set: OAuth tokens can't be stored.",
			set:  into(func(c *Config) *string { return &c.Records.OAuth.Keyset }, namedValue(anyText)),
		},
		{
			name: "cache-memory", kind: "bytes", def: "64MiB",
			help: "Memory of this process for values of caches that were read. Redis tells the process when one changes.",
			set:  into(func(c *Config) *int { return &c.Records.Cache.Memory }, byteCount),
		},
	}
}

func keyMetricsOptions() []option {
	return []option{
		{
			name: "key-metrics", kind: kindList,
			help: "Kinds of keys, as tidemark keys shows them, for which metrics say how many there are. One server counts for all, and walks over all keys for that. Not set: nothing is counted.",
			set:  into(func(c *Config) *[]string { return &c.Records.Metrics.Kinds }, listOf(ParseKind)),
		},
		{
			name: "key-metrics-pause", kind: "duration", def: "10m",
			help: "How long the server pauses after it has counted the keys, before it counts them again.",
			set: into(func(c *Config) *time.Duration { return &c.Records.Metrics.Every },
				durationBetween(10*time.Second, forever)),
		},
		{
			name: "key-metrics-rate", kind: "int", def: "5000",
			help: "Maximum number of keys that it looks at in a second.",
			set:  into(func(c *Config) *int { return &c.Records.Metrics.Rate }, intBetween(1, 1_000_000)),
		},
	}
}
