package config

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// AddFlags adds all options to flags, without defaults: those are a source of their own.
func AddFlags(flags *pflag.FlagSet) { addFlags(flags, allOptions()) }

// AddRedisFlags adds the options that say which Redis there are.
func AddRedisFlags(flags *pflag.FlagSet) {
	all := append(redisOptions(), redisAccessOptions()...)
	for _, o := range allOptions() {
		if slices.Contains([]string{"data-dir", "tickets-redis", "sessions-redis", "cache-redis"}, o.name) {
			all = append(all, o)
		}
	}
	addFlags(flags, all)
}

func addFlags(flags *pflag.FlagSet, options []option) {
	flags.String("config", "", configHelp)
	for _, o := range options {
		if o.kind == kindList {
			flags.StringArray(o.name, nil, o.help)
			continue
		}
		flags.String(o.name, "", o.help)
		if o.kind == kindSwitch {
			flags.Lookup(o.name).NoOptDefVal = "on"
		}
	}
}

const configHelp = "YAML file with options."

// serveHelp is the help of serve up to its list of options.
const serveHelp = `Run the service until SIGTERM or SIGINT. It then answers the requests in flight, and exits.

Without --redis it runs a redis-server of its own, which keeps its data in --data-dir.

A flag has precedence over the environment variable, which has precedence over the YAML file. In the file an option's
name is that of its flag in camel case: data-dir is dataDir. Unknown names and invalid values are errors in every
source. An empty variable counts as not set.
`

// WriteHelp writes the help of serve, with every option.
func WriteHelp(w io.Writer) error {
	var b strings.Builder
	b.WriteString(serveHelp + "\nUsage:\n  tidemark serve [options]\n\nOptions:\n")
	writeOptionHelp(&b, "--config file", configHelp, EnvPrefix+"CONFIG")
	for _, g := range optionGroups() {
		fmt.Fprintf(&b, "\n%s:\n", g.title)
		for _, o := range g.options {
			names := o.env()
			if o.def != "" {
				names += ", default " + o.def
			}
			writeOptionHelp(&b, o.flag()+" "+o.kind, o.help, names)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeOptionHelp(b *strings.Builder, head, help, names string) {
	fmt.Fprintf(b, "  %s\n", head)
	for _, line := range wrap(help, 90) {
		fmt.Fprintf(b, "        %s\n", line)
	}
	fmt.Fprintf(b, "        (%s)\n", names)
}

// wrap breaks text between words into lines of at most width bytes, unless a word is longer.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line += strings.Repeat(" ", min(1, len(line))) + word
	}
	return append(lines, line)
}

// Table is the options in the form that docs/operations.md has them.
func Table() string {
	var b strings.Builder
	b.WriteString("### Configuration file\n\n")
	b.WriteString("`--config`, `TIDEMARK_CONFIG`: " + configHelp + "\n")
	for _, g := range optionGroups() {
		fmt.Fprintf(&b, "\n### %s\n\n| flag | variable | YAML key | default | meaning |\n|---|---|---|---|---|\n", g.title)
		for _, o := range g.options {
			fmt.Fprintf(&b, "| `%s` %s | `%s` | `%s` | %s | %s |\n", o.flag(), o.kind, o.env(), o.key(), code(o.def), o.help)
		}
	}
	return b.String()
}

func code(text string) string { return cmp.Or(strings.TrimSuffix("`"+text+"`", "``"), "not set") }
