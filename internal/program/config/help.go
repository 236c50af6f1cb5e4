package config

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tidemark-dev/tidemark/internal/program/wrap"
)

// AddFlags adds the options of serve to flags, without defaults: those are a source of their own.
func AddFlags(flags *pflag.FlagSet) {
	serve.addFlags(flags, serve.options(new(Config)))
	flags.Bool(CheckFlag, false, checkHelp)
}

// AddNodeFlags adds the options of a node of shards in the same way.
func AddNodeFlags(flags *pflag.FlagSet) { node.addFlags(flags, node.options(new(Config))) }

// AddRedisFlags adds the options for the addresses of all Redis servers.
func AddRedisFlags(flags *pflag.FlagSet) {
	others := named(new(Config), "tickets-redis", "tickets-redis-password-file", "sessions-redis",
		"sessions-redis-password-file", "cache-redis", "cache-redis-password-file", "kinds", "records-keys")
	serve.addFlags(flags, append(channelsRedis(), others...))
}

// AddChannelsRedisFlags adds the options for the Redis of the channels.
func AddChannelsRedisFlags(flags *pflag.FlagSet) { serve.addFlags(flags, channelsRedis()) }

func channelsRedis() []option {
	c := new(Config) // the flags are read by Load
	return slices.Concat(redisOptions(c), redisAccessOptions(c), named(c, "data-dir"))
}

// ConnectionFlag is the annotation of flags that the help of a command lists as those of its connection.
const ConnectionFlag = "connection"

func (cmd command) addFlags(flags *pflag.FlagSet, options []option) {
	flags.String("config", "", "`file` "+configHelp)
	for _, o := range options {
		usage := "`" + o.kind + "` " + o.help
		if o.def != "" {
			usage += " Default: " + o.def + "."
		}
		if o.kind == kindList {
			flags.StringArray(cmd.name(o), nil, usage)
			continue
		}
		flags.String(cmd.name(o), "", usage)
		if o.kind == kindSwitch {
			flags.Lookup(cmd.name(o)).NoOptDefVal = "on"
		}
	}
	flags.VisitAll(func(f *pflag.Flag) { f.Annotations = map[string][]string{ConnectionFlag: {}} })
}

const (
	configHelp = "YAML file with options, of at most 1MiB."
	checkHelp  = "Read the options and the files that they name, print every fault or ok, and exit with status 2 or 0. " +
		"Nothing is started, and Redis isn't connected to."
)

// CheckFlag is the flag of serve that only checks the options.
const CheckFlag = "check"

// serveHelp is the help of serve up to its list of options.
const serveHelp = `Run the service until SIGTERM or SIGINT. It then answers the requests in flight, and exits.

Without --redis it runs a redis-server of its own, which keeps its data in --data-dir.

A flag has precedence over the environment variable, which has precedence over the YAML file. In the file an option's
name is that of its flag in camel case: data-dir is dataDir. Unknown names and invalid values are errors in every
source. An empty variable counts as not set.

SIGHUP, and tidemark reload, make the service read the file again. Options marked as reloadable then change; others need
a restart, which the log says. A file with a fault changes nothing. With --check it is only read, and its faults are
printed.
`

// nodeHelp is the help of a node up to its list of options.
const nodeHelp = `Hold a shard of a cache in memory, and answer from it, until SIGTERM or SIGINT.

The node claims a shard of its data centre, whose layout "tidemark shards layout" has written, loads it from the cache's
Redis, and follows changes. It waits if all shards are held. If it loses its shard it exits with status 75: start it again.

Without --redis it uses the Redis of the service whose --data-dir is the same. A flag has precedence over the environment
variable, which has precedence over the YAML file, as for "tidemark serve". A file can be that of both.
`

// WriteHelp writes the help of serve, with every option, in lines of at most width characters.
func WriteHelp(w io.Writer, width int) error { return serve.writeHelp(w, width) }

// WriteNodeHelp writes the help of a node in the same way.
func WriteNodeHelp(w io.Writer, width int) error { return node.writeHelp(w, width) }

func (cmd command) writeHelp(w io.Writer, width int) error {
	var b strings.Builder
	b.WriteString(wrap.Paragraphs(cmd.about, width) + "\nUsage:\n  " + cmd.use + " [options]\n\nOptions:\n")
	writeOptionHelp(&b, width, "--config file", configHelp, EnvPrefix+"CONFIG")
	if cmd.use == serve.use {
		writeOptionHelp(&b, width, "--"+CheckFlag, checkHelp, "flag only")
	}
	for _, g := range cmd.groups(new(Config)) {
		fmt.Fprintf(&b, "\n%s:\n", g.title)
		for _, o := range g.options {
			names := o.env()
			if o.def != "" {
				names += ", default " + o.def
			}
			if o.live && cmd.use == serve.use {
				names += ", reloadable"
			}
			writeOptionHelp(&b, width, cmd.flag(o)+" "+o.kind, o.help, names)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeOptionHelp(b *strings.Builder, width int, head, help, names string) {
	const indent = "\n        "
	lines := append(wrap.Lines(help, width-len(indent)), wrap.Lines("("+names+")", width-len(indent))...)
	b.WriteString("  " + head + indent + strings.Join(lines, indent) + "\n")
}

// Table is the options in the form that docs/options.md has them.
func Table() string {
	var b strings.Builder
	b.WriteString("## Configuration file\n\n")
	b.WriteString("`--config`, `TIDEMARK_CONFIG`: " + configHelp + "\n")
	for _, g := range serveGroups(new(Config)) {
		serve.writeTable(&b, g)
	}
	node.writeTable(&b, nodeGroups(new(Config))[0])
	return b.String()
}

// writeTable writes a table of options. It has a column of variables unless the command is serve, whose variables have
// the names of its flags.
func (cmd command) writeTable(b *strings.Builder, g optionGroup) {
	variables := cmd.use != serve.use
	if variables {
		fmt.Fprintf(b, "\n## %s\n\n| flag | variable | default | meaning |\n|---|---|---|---|\n", g.title)
	} else {
		fmt.Fprintf(b, "\n## %s\n\n| flag | default | meaning |\n|---|---|---|\n", g.title)
	}
	for _, o := range g.options {
		help, variable := o.help, ""
		if o.live && !variables {
			help += " Reloadable."
		}
		if variables {
			variable = " `" + o.env() + "` |"
		}
		fmt.Fprintf(b, "| `%s` %s |%s %s | %s |\n", cmd.flag(o), strings.ReplaceAll(o.kind, "|", `\|`), variable,
			code(o.def), help)
	}
}

func code(text string) string { return cmp.Or(strings.TrimSuffix("`"+text+"`", "``"), "not set") }
