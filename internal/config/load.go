package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/tidemark-dev/tidemark/internal/suggest"
)

// keyDelimiter would join the keys of nested mappings; no option is nested.
const keyDelimiter = "."

// source is a source of options.
type source struct {
	values *koanf.Koanf           // by option.key
	name   func(o option) string  // of an option in this source
	other  func(key string) error // the error for a key that isn't an option
}

// Load reads the options: from flags, over environment variables (KEY=value), over the YAML file, over defaults. It
// checks all values, also those that another source overrides. Every error names the option as its source does.
func Load(flags *pflag.FlagSet, environ []string) (Config, error) {
	c, err := serve.read(flags, environ)
	if err != nil {
		return Config{}, err
	}
	return c, c.complete()
}

// LoadNode is Load for a node of shards: AddNodeFlags has added its flags. Files of options that nodes don't have
// aren't read.
func LoadNode(flags *pflag.FlagSet, environ []string) (Config, error) {
	c, err := node.read(flags, environ)
	if err != nil {
		return Config{}, err
	}
	for _, complete := range []func() error{c.TLS.complete, c.Redis.complete, c.Shards.completeNode} {
		if err := complete(); err != nil {
			return Config{}, err
		}
	}
	if c.Shards.Node.Insecure && c.TLS.ClientCA != "" {
		return Config{}, errors.New("shardInsecure: is on, but tlsClientCa is set: leave one of them out")
	}
	return c, nil
}

// LoadRedis is Load for a command that only connects to Redis: AddRedisFlags has added its flags. Files of options that
// aren't about Redis aren't read.
func LoadRedis(flags *pflag.FlagSet, environ []string) (Config, error) {
	c, err := serve.read(flags, environ)
	if err != nil {
		return Config{}, err
	}
	return c, c.Redis.complete()
}

func (cmd command) read(flags *pflag.FlagSet, environ []string) (Config, error) {
	sources, err := cmd.readSources(flags, environ)
	if err != nil {
		return Config{}, err
	}
	base := newConfig() // with the table of kinds, by which other options are checked
	for _, s := range sources {
		if err := apply(kindsOption(&base), s.values, s.name); err != nil {
			return Config{}, err
		}
	}
	merged := koanf.New(keyDelimiter)
	for _, s := range sources {
		if err := s.check(base); err != nil {
			return Config{}, err
		}
		if err := merged.Merge(s.values); err != nil {
			return Config{}, fmt.Errorf("merge the configuration: %w", err)
		}
	}
	c := base
	err = apply(allOptions(&c), merged, option.key)
	return c, err
}

// check parses all values of the source, and refuses keys that aren't options.
func (s source) check(scratch Config) error {
	options := allOptions(&scratch)
	for _, key := range slices.Sorted(maps.Keys(s.values.Raw())) {
		if !slices.ContainsFunc(options, func(o option) bool { return o.key() == key }) {
			return s.other(key)
		}
	}
	return apply(options, s.values, s.name)
}

// apply sets the options that from contains. name returns the name of an option for errors.
func apply(options []option, from *koanf.Koanf, name func(option) string) error {
	for _, o := range options {
		value := from.Get(o.key())
		if value == nil && !from.Exists(o.key()) {
			continue
		}
		if err := o.apply(value); err != nil {
			return fmt.Errorf("%s: %w", name(o), err)
		}
	}
	return nil
}

// apply sets one option.
func (o option) apply(value any) error {
	if value == nil { // a key without a value in a YAML file isn't set, unless the option must not be empty
		if err := o.set(""); errors.Is(err, errEmpty) {
			return err
		}
		return nil
	}
	if tree, ok := value.(map[string]any); ok && o.setTree != nil {
		return o.setTree(tree)
	}
	text, err := o.text(value)
	if err != nil {
		return err
	}
	return o.set(text)
}

// text returns a value in the form that the option's set function reads.
func (o option) text(value any) (string, error) {
	switch value := value.(type) {
	case string:
		return value, nil
	case []any:
		if o.kind == kindRules || o.kind == kindGrants {
			text, err := json.Marshal(value)
			return string(text), err
		}
		if o.kind != kindList {
			break
		}
		var parts []string
		for _, item := range value {
			part, ok := item.(string)
			if !ok {
				return "", errors.New("isn't a list of plain values")
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, ","), nil
	}
	return "", fmt.Errorf("isn't a value of the kind %q", o.kind)
}

// readSources returns the sources, the weakest first.
func (cmd command) readSources(flags *pflag.FlagSet, environ []string) ([]source, error) {
	defaults := make(map[string]any)
	for _, o := range allOptions(new(Config)) {
		if o.def != "" {
			defaults[o.key()] = o.def
		}
	}
	base := koanf.New(keyDelimiter)
	if err := base.Load(confmap.Provider(defaults, ""), nil); err != nil {
		return nil, fmt.Errorf("read the defaults: %w", err)
	}
	sources := []source{{values: base, name: option.key, other: func(key string) error { return errors.New(key) }}}
	if path := configPath(flags, environ); path != "" {
		yaml, err := cmd.readFile(path)
		if err != nil {
			return nil, err
		}
		sources = append(sources, yaml)
	}
	variables, err := cmd.readEnviron(environ)
	if err != nil {
		return nil, err
	}
	flagged, err := cmd.readFlags(flags)
	if err != nil {
		return nil, err
	}
	return append(sources, variables, flagged), nil
}

func (cmd command) readFile(path string) (source, error) {
	values := koanf.New(keyDelimiter)
	if err := values.Load(file.Provider(path), parser{}); err != nil {
		var failed *os.PathError
		if errors.As(err, &failed) {
			return source{}, fmt.Errorf("read the configuration: %w", err)
		}
		return source{}, fmt.Errorf("%s: %w", path, err)
	}
	return source{
		values: values,
		name: func(o option) string {
			if o.kind == kindRules || o.kind == kindQueues || o.kind == kindTable {
				return path // the error names the key, and which part of it
			}
			return path + ": " + o.key()
		},
		other: func(key string) error {
			return fmt.Errorf("%s: %s: unknown key%s", path, key, cmd.didYouMean(key, option.key))
		},
	}, nil
}

func (cmd command) readEnviron(environ []string) (source, error) {
	keys := make(map[string]string) // of options, by their variables
	for _, o := range allOptions(new(Config)) {
		keys[o.env()] = o.key()
	}
	values := koanf.New(keyDelimiter)
	provider := env.Provider("", env.Opt{
		Prefix:      EnvPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			if value == "" || notForServe(name) {
				return "", nil
			}
			return cmp.Or(keys[name], name), value
		},
	})
	if err := values.Load(provider, nil); err != nil {
		return source{}, fmt.Errorf("read the environment: %w", err)
	}
	return source{
		values: values, name: option.env,
		other: func(key string) error {
			return fmt.Errorf("%s: unknown environment variable%s", key, cmd.didYouMean(key, option.env))
		},
	}, nil
}

// ownVariables are variables of this program that aren't options of serve.
var ownVariables = []string{EnvPrefix + "CONFIG", ServerVariable, AdminVariable, TokenVariable}

// serviceLink matches the variables that Kubernetes and Docker set in a container for each service whose name starts
// with tidemark, such as TIDEMARK_SERVICE_HOST and TIDEMARK_REDIS_PORT_6379_TCP.
var serviceLink = regexp.MustCompile(
	`_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

func notForServe(name string) bool {
	return slices.Contains(ownVariables, name) || strings.HasPrefix(name, EnvPrefix+"TEST_") ||
		serviceLink.MatchString(name)
}

func (cmd command) readFlags(flags *pflag.FlagSet) (source, error) {
	keys := make(map[string]string) // of options, by their flags
	for _, o := range cmd.options(new(Config)) {
		keys[cmd.name(o)] = o.key()
	}
	values := koanf.New(keyDelimiter)
	provider := posflag.ProviderWithFlag(flags, keyDelimiter, nil, func(f *pflag.Flag) (string, any) {
		if list, ok := f.Value.(pflag.SliceValue); ok {
			return keys[f.Name], strings.Join(list.GetSlice(), ",")
		}
		return keys[f.Name], f.Value.String() // "" for a flag that is no option: it is left out
	})
	if err := values.Load(provider, nil); err != nil {
		return source{}, fmt.Errorf("read the flags: %w", err)
	}
	return source{values: values, name: cmd.flag, other: func(key string) error { return errors.New(key) }}, nil
}

// configPath returns the path of the YAML file, or "".
func configPath(flags *pflag.FlagSet, environ []string) string {
	if f := flags.Lookup("config"); f != nil && f.Changed {
		return f.Value.String()
	}
	for _, variable := range slices.Backward(environ) {
		if path, ok := strings.CutPrefix(variable, EnvPrefix+"CONFIG="); ok {
			return path
		}
	}
	return ""
}

// didYouMean returns a hint at the option that was probably meant by key. name names an option in the source of key.
func (cmd command) didYouMean(key string, name func(option) string) string {
	plain := func(s string) string {
		s = strings.TrimPrefix(strings.ToLower(s), strings.ToLower(EnvPrefix))
		return strings.NewReplacer("-", "", "_", "").Replace(s)
	}
	names, byPlain := []string{}, map[string]string{}
	for _, o := range allOptions(new(Config)) {
		names, byPlain[plain(o.name)] = append(names, plain(o.name)), name(o)
	}
	if exact := byPlain[plain(key)]; exact != "" {
		return suggest.Hint([]string{exact})
	}
	meant := suggest.Near(plain(key), names)
	for i := range meant {
		meant[i] = byPlain[meant[i]]
	}
	return suggest.Hint(meant) + "; see " + cmd.use + " --help"
}
