package config

import (
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
)

// EnvPrefix starts the names of all environment variables.
const EnvPrefix = "TIDEMARK_"

// ServerVariable names the service for the commands that are its clients. It is none of serve's options.
const ServerVariable = EnvPrefix + "SERVER"

// option is one setting of serve. Its flag, environment variable and YAML key all follow from its name.
type option struct {
	name string // of the flag, without the dashes
	kind string // what its value is, as help shows it
	def  string // the default, as one would write it; "": not set
	help string // one sentence or more, without the names and the default
	set  func(*Config, string) error
	// setTree sets what a YAML file has as a mapping, in which every value is text. nil: it can't be one.
	setTree func(*Config, map[string]any) error
}

func (o option) flag() string { return "--" + o.name }
func (o option) env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// key is the option's name in a YAML file: data-dir is dataDir there.
func (o option) key() string {
	words := strings.Split(o.name, "-")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// The kinds of options whose values aren't one piece of text.
const (
	kindList   = "list"   // commas separate its values; the flag may be repeated
	kindRules  = "rules"  // a list of mappings
	kindQueues = "queues" // a mapping of mappings
)

// into makes an option's set function of where its value goes and how it is read.
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

// optionGroup is options that belong together, under the title that help and the documentation give them.
type optionGroup struct {
	title   string
	options []option
}

// optionGroups is all that can be configured. Help, docs/operations.md and what is accepted all come from it.
func optionGroups() []optionGroup {
	return []optionGroup{
		{"Server", serverOptions()},
		{"Redis", redisOptions()},
		{"Redis behind TLS or Sentinels", redisAccessOptions()},
		{"Managed Redis (where --redis isn't set)", managedOptions()},
		{"Channels", channelOptions()},
		{"Matchmaking", matchmakingOptions()},
		{"Limits", limitOptions()},
		{"Receipt handles", receiptOptions()},
		{"Logs", logOptions()},
	}
}

// allOptions is optionGroups in one list.
func allOptions() []option {
	var all []option
	for _, g := range optionGroups() {
		all = append(all, g.options...)
	}
	return all
}

// forever is as long as a duration can be where nothing else bounds it.
const forever = 365 * 24 * time.Hour

func serverOptions() []option {
	return []option{
		{
			name: "listen", kind: "host:port", def: "127.0.0.1:8080",
			help: "Where to listen for HTTP. An empty host is every address; port 0 is any free one, which the log tells.",
			set:  into(func(c *Config) *string { return &c.Listen }, parseListen),
		},
		{
			name: "grace", kind: "duration", def: "30s",
			help: "How long requests in flight may take to finish after SIGTERM or SIGINT.",
			set:  into(func(c *Config) *time.Duration { return &c.Grace }, durationFrom(0, forever)),
		},
		{
			name: "drain-delay", kind: "duration", def: "0s",
			help: "How long to serve as before after readiness has turned 503, for load balancers to notice. It is part of the grace.",
			set:  into(func(c *Config) *time.Duration { return &c.DrainDelay }, durationFrom(0, forever)),
		},
		{
			name: "cors-origins", kind: kindList,
			help: "Origins whose pages may call the API, such as https://example.com, or * for all. Not set: none but the service's own.",
			set:  into(func(c *Config) *[]string { return &c.CORSOrigins }, listOf(parseOrigin)),
		},
		{
			name: "allow-hosts", kind: kindList,
			help: "Host names that the service may be called under, such as tidemark.example.com or *.example.com. IP addresses and localhost always are. Not set: all names, but none where it listens on a loopback address.",
			set:  into(func(c *Config) *[]string { return &c.AllowHosts }, listOf(parseHost)),
		},
	}
}

// redisText makes the set function of an option that is plain text about Redis.
func redisText(field func(*Redis) *string) func(*Config, string) error {
	return into(func(c *Config) *string { return field(&c.Redis) }, parseText)
}

func redisOptions() []option {
	return []option{
		{
			name: "redis", kind: "url",
			help: "The Redis to use: redis://host:port/db, rediss:// for TLS, unix:///path, or host:port,host:port for a Cluster or Sentinels. Not set: the service runs one of its own.",
			set:  redisText(func(r *Redis) *string { return &r.Address }),
		},
		{
			name: "key-prefix", kind: "text",
			help: "Stands in front of every key, so that several installations can share a Redis.",
			set:  into(func(c *Config) *string { return &c.Redis.KeyPrefix }, parseKeyPrefix),
		},
		{
			name: "redis-username", kind: "text", help: "User to log in as.",
			set: redisText(func(r *Redis) *string { return &r.Username }),
		},
		{
			name: "redis-password", kind: "text",
			help: "Password to log in with. Other users of the machine can see flags: prefer the variable or the file.",
			set:  redisText(func(r *Redis) *string { return &r.Password }),
		},
		{
			name: "redis-password-file", kind: "file", help: "File with the password to log in with; the line end is not part of it.",
			set: redisText(func(r *Redis) *string { return &r.PasswordFile }),
		},
		{
			name: "redis-timeout", kind: "duration", def: "5s",
			help: "How long one operation on Redis may take, its retries included, before it is answered 503.",
			set:  into(func(c *Config) *time.Duration { return &c.Redis.Timeout }, durationFrom(time.Millisecond, forever)),
		},
		{
			name: "redis-connect-timeout", kind: "duration", def: "30s",
			help: "How long to try to reach Redis at start-up before giving up.",
			set:  into(func(c *Config) *time.Duration { return &c.Redis.ConnectTimeout }, durationFrom(time.Millisecond, forever)),
		},
	}
}

func redisAccessOptions() []option {
	return []option{
		{
			name: "redis-ca-file", kind: "file", help: "PEM file of the authorities that may sign Redis's certificate, instead of the system's. Turns TLS on.",
			set: redisText(func(r *Redis) *string { return &r.CAFile }),
		},
		{
			name: "redis-cert-file", kind: "file", help: "PEM file of the service's own certificate, for a Redis that asks for one. Turns TLS on.",
			set: redisText(func(r *Redis) *string { return &r.CertFile }),
		},
		{
			name: "redis-key-file", kind: "file", help: "PEM file of the key of redis-cert-file.",
			set: redisText(func(r *Redis) *string { return &r.KeyFile }),
		},
		{
			name: "redis-sentinel-master", kind: "text", help: "Name of the primary to ask the Sentinels for. The addresses of --redis are then theirs.",
			set: redisText(func(r *Redis) *string { return &r.SentinelMaster }),
		},
		{
			name: "redis-sentinel-username", kind: "text", help: "User to log in to the Sentinels as.",
			set: redisText(func(r *Redis) *string { return &r.SentinelUsername }),
		},
		{
			name: "redis-sentinel-password", kind: "text", help: "Password to log in to the Sentinels with.",
			set: redisText(func(r *Redis) *string { return &r.SentinelPassword }),
		},
	}
}

func managedOptions() []option {
	return []option{
		{
			name: "data-dir", kind: "directory", def: "./tidemark-data",
			help: "Where the managed Redis keeps its data. One service at a time can use it.",
			set:  into(func(c *Config) *string { return &c.Managed.DataDir }, parseText),
		},
		{
			name: "redis-binary", kind: "file",
			help: "The server to run, a path or a name in PATH. Not set: redis-server or valkey-server, whichever is found first.",
			set:  into(func(c *Config) *string { return &c.Managed.Binary }, parseText),
		},
	}
}

func channelOptions() []option {
	return []option{
		{
			name: "channel-ttl", kind: "duration", def: "24h",
			help: "Life of a message from its publish, and of a channel and its subscribers without activity.",
			set:  into(func(c *Config) *time.Duration { return &c.Channel.TTL }, durationFrom(channel.MinTTL, channel.MaxTTL)),
		},
		{
			name: "channel-max-messages", kind: "int", def: "0",
			help: "Messages that a channel keeps at most; the oldest go first. 0: as many as live.",
			set:  into(func(c *Config) *int { return &c.Channel.MaxMessages }, intFrom(0)),
		},
		{
			name: "channel-max-message-bytes", kind: "bytes", def: "256KiB",
			help: "Size of one message's content at most.",
			set:  into(func(c *Config) *int { return &c.Channel.MaxMessageBytes }, parseBytes),
		},
		{
			name: "channel-replicas", kind: "int", def: "0",
			help: "Replicas of Redis that must have a message before its publish is answered; where they don't confirm in time it is answered 503, and trying again is safe. 0: don't wait.",
			set:  into(func(c *Config) *int { return &c.Channel.Replicas }, intFrom(0)),
		},
		{
			name: "channels", kind: kindRules,
			help: "Channels with a policy of their own: a list of rules with the keys pattern, ttl, maxMessages, maxMessageBytes and replicas, of which the first that matches holds. A JSON array in a flag or variable.",
			set:  into(func(c *Config) *[]channel.Rule { return &c.Rules }, parseRules),
		},
	}
}
