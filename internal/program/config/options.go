package config

import (
	"cmp"
	"slices"
	"strings"
	"time"
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

// option is a setting of a Config. Its flag, environment variable and YAML key follow from its name.
type option struct {
	name string // of the flag, without the dashes
	kind string // sort of value, as the help shows it
	def  string // default, as a user would write it; "": not set
	set  func(text string) error
	help string // one or more sentences, without the names and the default
	// setTree sets the option from a mapping of a YAML file, whose values are all text. nil: a mapping is refused.
	setTree func(tree map[string]any) error
	// live is whether a reload changes the option in a service that runs.
	live bool
	// hidden is whether the option's value is a secret, which is never shown.
	hidden bool
	// nodeFlag is the option's flag in `tidemark shard serve`, without the dashes; "": its name.
	nodeFlag string
}

// define returns an option. Line breaks in help count as spaces.
func define(name, kind, def string, set func(text string) error, help string) option {
	return option{name: name, kind: kind, def: def, set: set, help: strings.Join(strings.Fields(help), " ")}
}

// to returns a function that parses a value and stores it in field.
func to[T any](field *T, parse func(text string) (T, error)) func(text string) error {
	return func(text string) error {
		value, err := parse(text)
		if err != nil {
			return err
		}
		*field = value
		return nil
	}
}

// reloadable returns the option as one that a reload changes.
func (o option) reloadable() option {
	o.live = true
	return o
}

// secret returns the option as one whose value is never shown.
func (o option) secret() option {
	o.hidden = true
	return o
}

// onNode returns the option with this flag in `tidemark shard serve`.
func (o option) onNode(flag string) option {
	o.nodeFlag = flag
	return o
}

// orTree returns the option with a function that sets it from a mapping.
func (o option) orTree(set func(tree map[string]any) error) option {
	o.setTree = set
	return o
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
	kindLimits = "limits" // separated by commas, too, but in one flag
	kindRules  = "rules"  // a list of mappings
	kindGrants = "grants" // a list of mappings, too
	kindQueues = "queues" // a mapping of mappings
	kindTable  = "table"  // a mapping of lists

	kindSwitch = "[=on|off]" // a flag without a value means on
)

// optionGroup is options that belong together, under a title in the help and the documentation.
type optionGroup struct {
	title   string
	options []option
}

// command is a command that has options.
type command struct {
	use    string // as a user writes it
	about  string // its help, up to the list of options
	groups func(*Config) []optionGroup
	name   func(option) string // of an option's flag, without the dashes
	offset func(*Config) error // adds Server.PortOffset to the ports that the command listens on
}

var (
	serve = command{"tidemark serve", serveHelp, serveGroups, func(o option) string { return o.name },
		(*Config).offsetServerPorts}
	node = command{"tidemark shard serve", nodeHelp, nodeGroups,
		func(o option) string { return cmp.Or(o.nodeFlag, o.name) }, (*Config).offsetNodePorts}
)

// options returns the options that are the command's flags. They set c.
func (cmd command) options(c *Config) (all []option) {
	for _, g := range cmd.groups(c) {
		all = append(all, g.options...)
	}
	return all
}

// InServe returns an option of `tidemark serve` by its flag, as a message names it to who may set either:
// "--listen (TIDEMARK_LISTEN)".
func InServe(flag string) string { return serve.both(flag) }

// InNode returns an option of `tidemark shard serve` in the same way.
func InNode(flag string) string { return node.both(flag) }

// both returns the flag and the environment variable of an option.
func (cmd command) both(flag string) string {
	options := cmd.options(new(Config))
	i := slices.IndexFunc(options, func(o option) bool { return cmd.name(o) == flag })
	if i < 0 {
		panic("no option of " + cmd.use + " has the flag " + flag)
	}
	return cmd.flag(options[i]) + " (" + options[i].env() + ")"
}

// flag returns an option's flag.
func (cmd command) flag(o option) string { return "--" + cmd.name(o) }

// serveGroups returns the options of serve. The help, docs/options.md and the accepted options follow from it.
func serveGroups(c *Config) []optionGroup {
	return []optionGroup{
		{"Server", serverOptions(c)},
		{"gRPC", grpcOptions(c)},
		{"TLS", tlsOptions(c)},
		{"Access", accessOptions(c)},
		{"Redis", redisOptions(c)},
		{"Redis behind TLS or Sentinels", redisAccessOptions(c)},
		{"Managed Redis (if --redis isn't set)", managedOptions(c)},
		{"Channels", channelOptions(c)},
		{"Tokens of users", tokenOptions(c)},
		{"Limits of each client", clientOptions(c)},
		{"Matchmaking", matchmakingOptions(c)},
		{"Records", recordOptions(c)},
		{"Metrics of keys", keyMetricsOptions(c)},
		{"Shards", shardOptions(c)},
		{"Limits", limitOptions(c)},
		{"Receipt handles", receiptOptions(c)},
		{"Logs", logOptions(c)},
	}
}

// nodeGroups returns the options of a node, in the same way. Some are serve's.
func nodeGroups(c *Config) []optionGroup {
	return []optionGroup{
		{"Nodes of shards", slices.Concat(nodeOptions(c), servingOptions(c), named(c, "port-offset"))},
		{"TLS", tlsOptions(c)},
		{"Redis", append(redisOptions(c), redisAccessOptions(c)...)},
		{"Other Redis", named(c, "data-dir", "cache-redis", "cache-redis-password-file", "kinds", "records-keys")},
		{"Logs", logOptions(c)},
	}
}

// allOptions returns the options of all groups, each once. A service and a node can share a file or an environment.
func allOptions(c *Config) (all []option) {
	known := make(map[string]bool)
	for _, o := range append(serve.options(c), node.options(c)...) {
		if !known[o.name] {
			known[o.name] = true
			all = append(all, o)
		}
	}
	return all
}

// named returns options of serve by their names.
func named(c *Config, names ...string) []option {
	return slices.DeleteFunc(serve.options(c), func(o option) bool { return !slices.Contains(names, o.name) })
}
