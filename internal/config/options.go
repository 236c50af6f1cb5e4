package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
)

// EnvPrefix starts the names of all environment variables.
const EnvPrefix = "TIDEMARK_"

// Variables of the commands that are clients of a service: where it and its admin address are, and the API key or token
// to send. They are none of serve's options.
const (
	ServerVariable = EnvPrefix + "SERVER"
	AdminVariable  = EnvPrefix + "ADMIN"
	TokenVariable  = EnvPrefix + "TOKEN"
)

// ParseDuration parses a duration that is at least least, with the errors of serve's options.
func ParseDuration(text string, least time.Duration) (time.Duration, error) {
	return durationBetween(least, forever)(text)
}

// option is a setting of serve. Its flag, environment variable and YAML key follow from its name.
type option struct {
	name string // of the flag, without the dashes
	kind string // sort of value, as the help shows it
	def  string // default, as a user would write it; "": not set
	help string // one or more sentences, without the names and the default
	set  func(*Config, string) error
	// setTree sets the option from a mapping of a YAML file, whose values are all text. nil: a mapping is refused.
	setTree func(*Config, map[string]any) error
	// flagOfNode is the option's flag in `tidemark shard serve`, without the dashes, if that isn't its name.
	flagOfNode string
}

func (o option) env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// key returns the option's name in a YAML file: dataDir for data-dir.
func (o option) key() string {
	words := strings.Split(o.name, "-")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// The kinds of options that hold more than one value.
const (
	kindList   = "list"   // separated by commas; the flag may be repeated
	kindRules  = "rules"  // a list of mappings
	kindGrants = "grants" // a list of mappings, too
	kindQueues = "queues" // a mapping of mappings

	kindSwitch = "[=on|off]" // a flag without a value means on
)

// into returns an option's set function: parse reads the value, which is stored in field.
func into[T any](field func(*Config) *T, parse func(string) (T, error)) func(*Config, string) error {
	return func(c *Config, text string) error {
		value, err := parse(text)
		if err != nil {
			return err
		}
		*field(c) = value
		return nil
	}
}

// optionGroup is options that belong together, under a title in the help and the documentation.
type optionGroup struct {
	title   string
	options []option
}

// command is a command that has options.
type command struct {
	use    string // as a user writes it
	about  string // its help, up to the list of options
	groups func() []optionGroup
	name   func(option) string // of an option's flag, without the dashes
}

var (
	serve = command{"tidemark serve", serveHelp, optionGroups, func(o option) string { return o.name }}
	node  = command{"tidemark shard serve", nodeHelp, nodeGroups,
		func(o option) string { return cmp.Or(o.flagOfNode, o.name) }}
)

// options returns the options that are the command's flags.
func (c command) options() (all []option) {
	for _, g := range c.groups() {
		all = append(all, g.options...)
	}
	return all
}

// flag returns an option's flag.
func (c command) flag(o option) string { return "--" + c.name(o) }

// optionGroups returns the options of serve. The help, docs/operations.md and what is accepted follow from it.
func optionGroups() []optionGroup {
	return []optionGroup{
		{"Server", serverOptions()},
		{"gRPC", grpcOptions()},
		{"TLS", tlsOptions()},
		{"Access", accessOptions()},
		{"Redis", redisOptions()},
		{"Redis behind TLS or Sentinels", redisAccessOptions()},
		{"Managed Redis (if --redis isn't set)", managedOptions()},
		{"Channels", channelOptions()},
		{"Tokens of users", tokenOptions()},
		{"Limits of each client", clientOptions()},
		{"Matchmaking", matchmakingOptions()},
		{"Records", recordOptions()},
		{"Metrics of keys", keyMetricsOptions()},
		{"Shards", shardOptions()},
		{"Limits", limitOptions()},
		{"Receipt handles", receiptOptions()},
		{"Logs", logOptions()},
	}
}

// nodeGroups returns the options of a node, in the same way. Some are serve's.
func nodeGroups() []optionGroup {
	return []optionGroup{
		{"Nodes of shards", append(nodeOptions(), servingOptions()...)},
		{"TLS", tlsOptions()},
		{"Redis", append(redisOptions(), redisAccessOptions()...)},
		{"Other Redis", named("data-dir", "cache-redis")},
		{"Logs", logOptions()},
	}
}

// allOptions returns the options of all groups, each once. A file or an environment can be that of a service and of a
// node.
func allOptions() (all []option) {
	known := make(map[string]bool)
	for _, g := range append(optionGroups(), nodeGroups()...) {
		for _, o := range g.options {
			if !known[o.name] {
				known[o.name] = true
				all = append(all, o)
			}
		}
	}
	return all
}

// named returns options of serve by their names.
func named(names ...string) []option {
	return slices.DeleteFunc(serve.options(), func(o option) bool { return !slices.Contains(names, o.name) })
}

// forever is the longest duration of options that nothing else bounds.
const forever = 365 * 24 * time.Hour

func serverOptions() []option {
	return []option{
		{
			name: "listen", kind: "host:port", def: "127.0.0.1:8080",
			help: "Address to listen on for HTTP. An empty host means all addresses; port 0 means any free port, which is logged.",
			set:  into(func(c *Config) *string { return &c.Server.Listen }, listen),
		},
		{
			name: "admin-listen", kind: "address", def: "127.0.0.1:8081",
			help: "Address to listen on for administrators: the whole HTTP API, and only here the metrics, profiles, and calls that change queues. A host:port as for HTTP, unix:PATH for a Unix socket with mode 0600, or off.",
			set:  into(func(c *Config) *string { return &c.Server.AdminListen }, adminListen),
		},
		{
			name: "grace", kind: "duration", def: "30s",
			help: "How long requests in flight may take to finish after SIGTERM or SIGINT.",
			set:  into(func(c *Config) *time.Duration { return &c.Server.Grace }, durationBetween(0, forever)),
		},
		{
			name: "drain-delay", kind: "duration", def: "0s",
			help: "How long to keep serving after readiness has turned 503, so that load balancers notice. It is part of the grace.",
			set:  into(func(c *Config) *time.Duration { return &c.Server.DrainDelay }, durationBetween(0, forever)),
		},
		{
			name: "cors-origins", kind: kindList,
			help: "Origins whose pages may call the API, such as https://example.com, or * for all. Not set: only the service's own.",
			set:  into(func(c *Config) *[]string { return &c.Server.CORSOrigins }, listOf(origin)),
		},
		{
			name: "allow-hosts", kind: kindList,
			help: "Host names under which the service may be called, such as tidemark.example.com or *.example.com. IP addresses and localhost are always allowed. Not set: all names, or none if it listens on a loopback address.",
			set:  into(func(c *Config) *[]string { return &c.Server.AllowHosts }, listOf(host)),
		},
	}
}

func grpcOptions() []option {
	return []option{
		{
			name: "grpc-listen", kind: "host:port", def: "127.0.0.1:50504",
			help: "Address to listen on for gRPC, as for HTTP; off for none: then gRPC is served on the HTTP port only.",
			set:  into(func(c *Config) *string { return &c.GRPC.Listen }, listenOrOff),
		},
		{
			name: "grpc-message-bytes", kind: "bytes", def: "1MiB",
			help: "Maximum size of a message in a gRPC call, and so of a ticket with its extensions.",
			set:  into(func(c *Config) *int { return &c.GRPC.MessageBytes }, byteCount),
		},
		{
			name: "grpc-query-page", kind: "int", def: "1000",
			help: "Maximum number of tickets in one message of the answer to a query, from 10 to 10000. A message also has at most 256KiB, unless one ticket has more.",
			set:  into(func(c *Config) *int { return &c.GRPC.QueryPage }, intBetween(10, 10_000)),
		},
	}
}

// redisText returns the set function of an option that is plain text about Redis.
func redisText(field func(*RedisOptions) *string) func(*Config, string) error {
	return into(func(c *Config) *string { return field(&c.Redis) }, anyText)
}

func redisOptions() []option {
	return []option{
		{
			name: "redis", kind: "url",
			help: "Redis to use: redis://host:port/db, rediss:// for TLS, unix:///path, or host:port,host:port for a Cluster or Sentinels. Not set: the service runs one of its own.",
			set:  redisText(func(r *RedisOptions) *string { return &r.Address }),
		},
		{
			name: "key-prefix", kind: "text",
			help: "Prefix of every Redis key, so that several installations can share a Redis.",
			set:  into(func(c *Config) *string { return &c.Redis.KeyPrefix }, keyPrefix),
		},
		{
			name: "redis-username", kind: "text", help: "User to log in as.",
			set: redisText(func(r *RedisOptions) *string { return &r.Username }),
		},
		{
			name: "redis-password", kind: "text",
			help: "Password to log in with. Other users of the machine can see flags: prefer the variable or the file.",
			set:  redisText(func(r *RedisOptions) *string { return &r.Password }),
		},
		{
			name: "redis-password-file", kind: "file",
			help: "File that contains the password. A line end is not part of it.",
			set:  redisText(func(r *RedisOptions) *string { return &r.PasswordFile }),
		},
		{
			name: "redis-timeout", kind: "duration", def: "5s",
			help: "Time limit of one operation on Redis, with its retries. Beyond it the request is answered 503.",
			set: into(func(c *Config) *time.Duration { return &c.Redis.Timeout },
				durationBetween(time.Millisecond, forever)),
		},
		{
			name: "redis-connect-timeout", kind: "duration", def: "30s",
			help: "How long to try to reach Redis at start-up.",
			set: into(func(c *Config) *time.Duration { return &c.Redis.ConnectTimeout },
				durationBetween(time.Millisecond, forever)),
		},
	}
}

func redisAccessOptions() []option {
	return []option{
		{
			name: "redis-ca-file", kind: "file",
			help: "PEM file with the authorities that may sign Redis's certificate, in place of the system's. Turns TLS on.",
			set:  redisText(func(r *RedisOptions) *string { return &r.TLS.CAFile }),
		},
		{
			name: "redis-cert-file", kind: "file",
			help: "PEM file with the service's own certificate, for a Redis that asks for one. Turns TLS on.",
			set:  redisText(func(r *RedisOptions) *string { return &r.TLS.CertFile }),
		},
		{
			name: "redis-key-file", kind: "file", help: "PEM file with the private key of redis-cert-file.",
			set: redisText(func(r *RedisOptions) *string { return &r.TLS.KeyFile }),
		},
		{
			name: "redis-sentinel-master", kind: "text",
			help: "Name of the primary that the Sentinels watch. The addresses of --redis are then those of the Sentinels.",
			set:  redisText(func(r *RedisOptions) *string { return &r.Sentinel.Master }),
		},
		{
			name: "redis-sentinel-username", kind: "text", help: "User to log in to the Sentinels as.",
			set: redisText(func(r *RedisOptions) *string { return &r.Sentinel.Username }),
		},
		{
			name: "redis-sentinel-password", kind: "text", help: "Password to log in to the Sentinels with.",
			set: redisText(func(r *RedisOptions) *string { return &r.Sentinel.Password }),
		},
	}
}

func managedOptions() []option {
	return []option{
		{
			name: "data-dir", kind: "directory", def: "./tidemark-data",
			help: "Directory in which the managed Redis keeps its data. Only one service at a time can use it.",
			set:  into(func(c *Config) *string { return &c.Managed.DataDir }, anyText),
		},
		{
			name: "redis-binary", kind: "file",
			help: "Redis server to run, as a path or a name in PATH. Not set: redis-server or valkey-server, whichever is found first.",
			set:  into(func(c *Config) *string { return &c.Managed.Binary }, anyText),
		},
	}
}

func channelOptions() []option {
	return []option{
		{
			name: "channel-ttl", kind: "duration", def: "24h",
			help: "How long a message lives after its publish, and how long a channel and its subscribers live without activity.",
			set: into(func(c *Config) *time.Duration { return &c.Channel.TTL },
				durationBetween(channel.MinTTL, channel.MaxTTL)),
		},
		{
			name: "channel-max-messages", kind: "int", def: "0",
			help: "Maximum number of messages that a channel keeps; the oldest are removed first. 0: no limit but their lifetime.",
			set:  into(func(c *Config) *int { return &c.Channel.MaxMessages }, intFrom(0)),
		},
		{
			name: "channel-max-message-bytes", kind: "bytes", def: "256KiB",
			help: "Maximum size of a message's content.",
			set:  into(func(c *Config) *int { return &c.Channel.MaxMessageBytes }, byteCount),
		},
		{
			name: "channel-replicas", kind: "int", def: "0",
			help: "Replicas of Redis that must confirm a publish before it is answered. If they don't confirm in time, the answer is 503, and trying again is safe. 0: don't wait.",
			set:  into(func(c *Config) *int { return &c.Channel.Replicas }, intFrom(0)),
		},
		{
			name: "channel-max-subscribers", kind: "int", def: "0",
			help: "Maximum number of subscribers of a channel. Beyond it a new one is refused with 409. 0: no limit.",
			set:  into(func(c *Config) *int { return &c.Channel.MaxSubscribers }, intFrom(0)),
		},
		{
			name: "channels", kind: kindRules,
			help: "Channels with a policy of their own: a list of rules with the keys pattern, ttl, maxMessages, maxMessageBytes, replicas, maxSubscribers, schema, publish, deliver, readers, writers and queryToken. The first rule that matches a channel applies. In a flag or variable: a JSON array.",
			set: func(c *Config, text string) error {
				r, err := parseRules(text, byteCount)
				c.Rules, c.Access.Rules = r.Policies, r.Access
				return err
			},
		},
	}
}
