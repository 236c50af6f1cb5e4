package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tidemark-dev/tidemark/internal/program/suggest"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// source is a source of options.
type source struct {
	values map[string]any         // by option.key
	name   func(o option) string  // of an option in this source
	other  func(key string) error // the error for a key that isn't an option
	file   string                 // path, with tree; "": it is no file
	// defaults is set for the source of the defaults.
	defaults bool
	tree     *tree
}

// Load reads the options: from flags, over environment variables (KEY=value), over the YAML file, over defaults. It
// checks all values, also those that another source overrides. An error is [Faults]: each names the option as its
// source does. The file may be a pipe, which Load reads to its end: see [Within].
func Load(flags *pflag.FlagSet, environ []string) (Config, error) {
	return loadFrom(flags, environ, readAny)
}

// LoadAgain is Load for a service that runs. The file must be a regular one, since a pipe can be read only once.
func LoadAgain(flags *pflag.FlagSet, environ []string) (Config, error) {
	return loadFrom(flags, environ, readRegular)
}

// Check returns the faults that Load finds, and those of more, whose errors begin with the key of an option.
func Check(flags *pflag.FlagSet, environ []string, more func(Config) []error) error {
	c, found := serve.read(flags, environ, readAny)
	c.complete(found)
	if len(found.wrong) == 0 {
		for _, err := range more(c) {
			found.check(func() error { return err })
		}
	}
	return found.err()
}

func loadFrom(flags *pflag.FlagSet, environ []string, file readFunc) (Config, error) {
	c, found := serve.read(flags, environ, file)
	c.complete(found)
	return c, found.err()
}

// LoadNode is Load for a node of shards: AddNodeFlags has added its flags. Files of options that nodes don't have
// aren't read.
func LoadNode(flags *pflag.FlagSet, environ []string) (Config, error) {
	return loadNodeFrom(flags, environ, readAny)
}

// LoadNodeAgain is LoadNode for a node that runs, as LoadAgain.
func LoadNodeAgain(flags *pflag.FlagSet, environ []string) (Config, error) {
	return loadNodeFrom(flags, environ, readRegular)
}

func loadNodeFrom(flags *pflag.FlagSet, environ []string, file readFunc) (Config, error) {
	c, found := node.read(flags, environ, file)
	c.completeNode(found)
	return c, found.err()
}

// LoadRedis is Load for a command that only connects to Redis: AddRedisFlags has added its flags. Files of options that
// aren't about Redis aren't read.
func LoadRedis(flags *pflag.FlagSet, environ []string) (Config, error) {
	c, found := serve.read(flags, environ, readAny)
	c.Redis.complete(found)
	found.check(c.Records.completeKeys, "recordsKeys", "kinds")
	return c, found.err()
}

// listenKeys are the options that say how a service on this machine is reached.
var listenKeys = []string{"listen", "adminListen", "portOffset", "tlsCert", "tlsKey"}

// LoadListen is Load for a command that only calls a service on this machine: AddFlags has added its flags. The other
// options may have faults, and no file but that of the configuration is read.
func LoadListen(flags *pflag.FlagSet, environ []string) (Config, error) {
	found := newFindings()
	sources := serve.readSources(flags, environ, readAny, found)
	for _, s := range sources {
		maps.DeleteFunc(s.values, func(key string, _ any) bool { return !slices.Contains(listenKeys, key) })
		if s.file != "" && s.values != nil {
			found.faults = nil // those of values that could be read in part
		}
	}
	return serve.merge(sources, found), found.err()
}

// read reads all sources. An option with a fault isn't set.
func (cmd command) read(flags *pflag.FlagSet, environ []string, file readFunc) (Config, *findings) {
	found := newFindings()
	return cmd.merge(cmd.readSources(flags, environ, file, found), found), found
}

// merge returns the options of sources, the weakest first. An option with a fault isn't set.
func (cmd command) merge(sources []source, found *findings) Config {
	base := newConfig()
	kinds := kindsOption(&base)[0] // first, since other options are checked by the table of kinds
	for _, s := range sources {
		s.check(kinds, found)
	}
	merged := make(map[string]any)
	for _, s := range sources {
		scratch := base
		options := allOptions(&scratch)
		for _, key := range slices.Sorted(maps.Keys(s.values)) {
			if i := slices.IndexFunc(options, func(o option) bool { return o.key() == key }); i < 0 {
				found.add(s.faultOf(key, s.other(key)))
			} else if key != kinds.key() {
				s.check(options[i], found)
			}
			found.origins[key] = s
		}
		maps.Copy(merged, s.values)
	}
	c := base
	c.sources = sourcesOf(found)
	if err := c.set(merged, found.wrong); err != nil {
		found.add(finding{text: err.Error()})
	}
	found.check(func() error { return cmd.offset(&c) }, "portOffset")
	return c
}

// set sets the options that are in values, by their keys, but for the table of kinds, and for some that are wrong. They
// were checked before, so that an error means that a file that they name has changed since.
func (c *Config) set(values map[string]any, wrong map[string]bool) error {
	c.values = values
	kinds := kindsOption(c)[0].key()
	for _, o := range allOptions(c) {
		if value, ok := values[o.key()]; ok && !wrong[o.key()] && o.key() != kinds {
			if err := o.apply(value); err != nil {
				return fmt.Errorf("%s: %w", o.key(), err)
			}
		}
	}
	return nil
}

// check applies an option, and adds its faults. In a file, what is wrong is left out to find what else is wrong.
func (s source) check(o option, found *findings) {
	key := o.key()
	value, ok := s.values[key]
	if !ok {
		return
	}
	doubtful := map[*tree]bool{} // entries without some of their values
	for err := o.apply(value); err != nil; err = o.apply(value) {
		found.wrong[key] = true
		if s.tree == nil {
			found.add(finding{text: fmt.Sprintf("%s: %v", s.name(o), err)})
			return
		}
		at := s.tree.place(key, err)
		entry := at.entry()
		var syntax *strictjson.Error
		isSyntax := errors.As(err, &syntax)
		if !doubtful[entry] || isSyntax {
			found.add(s.faultOf(key, err))
		}
		switch {
		case isSyntax && at.up != s.tree: // the other values of the entry may be wrong, too
			doubtful[entry] = doubtful[entry] || !errors.Is(err, strictjson.ErrUnknown)
			at.remove()
		case o.kind == kindRules && at.up == entry && !strings.HasSuffix(at.path, ".pattern"):
			at.remove()
		case entry.up != s.tree:
			entry.remove()
		default:
			return
		}
		value = s.tree.of[key].value()
	}
}

// faultOf returns the fault for the error of a key. The error of a nested value begins with its path.
func (s source) faultOf(key string, err error) finding {
	if s.tree == nil {
		return finding{text: err.Error()}
	}
	text := pathed(key, err)
	at, length := s.tree.find(text)
	return finding{file: s.file, line: at.line, text: at.path + text[length:]}
}

// pathed returns the text of an error of a key, which begins with the key.
func pathed(key string, err error) string {
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, key); ok && rest != "" && strings.ContainsRune(".[:", rune(rest[0])) {
		return text
	}
	return key + ": " + text
}

// place returns the value that the error of a key is about.
func (t *tree) place(key string, err error) *tree {
	at, _ := t.find(pathed(key, err))
	return at
}

// entry returns the item of a list that a value is in, or else the member of an option, such as a queue, or the option.
func (t *tree) entry() *tree {
	for at := t; at.up != nil && at.up.up != nil; at = at.up {
		if at.up.list != nil && at.up.up.up == nil || at.up.up.up == nil || strings.HasSuffix(at.path, "]") {
			return at
		}
	}
	return t
}

// sourcesOf returns where options come from that have not their defaults, by option.key.
func sourcesOf(found *findings) (sources map[string]string) {
	for _, o := range allOptions(new(Config)) {
		if s, ok := found.origins[o.key()]; ok && !s.defaults {
			if sources == nil {
				sources = map[string]string{}
			}
			sources[o.key()] = s.origin(o)
		}
	}
	return sources
}

// origin returns where the source has an option: a line of a file, a variable or a flag.
func (s source) origin(o option) string {
	if s.tree != nil {
		return fmt.Sprintf("%s:%d", s.file, s.tree.of[o.key()].line)
	}
	return s.name(o)
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
	case map[string]any:
		return "", o.mustBe("a mapping")
	}
	return "", o.mustBe("a list")
}

// mustBe returns the error of a value that is something else than the option's kind.
func (o option) mustBe(found string) error {
	kind := "a plain value, of the kind " + o.kind
	switch o.kind {
	case kindQueues:
		kind = `a mapping of queues by name, such as {"duel": {}}`
	case kindTable:
		kind = "a mapping"
	case kindRules, kindGrants:
		kind = "a list of mappings"
	}
	return fmt.Errorf("must be %s, not %s", kind, found)
}

// readSources returns the sources, the weakest first, but for those that can't be read.
func (cmd command) readSources(flags *pflag.FlagSet, environ []string, file readFunc, found *findings) []source {
	defaults := make(map[string]any)
	for _, o := range allOptions(new(Config)) {
		if o.def != "" {
			defaults[o.key()] = o.def
		}
	}
	sources := []source{{values: defaults, name: option.key, other: errors.New, defaults: true}}
	if path := configPath(flags, environ); path != "" {
		sources = append(sources, cmd.readFile(path, file, found))
	}
	return append(sources, cmd.readEnviron(environ), cmd.readFlags(flags))
}

func (cmd command) readFile(path string, read readFunc, found *findings) source {
	s := source{
		file: path, tree: &tree{},
		other: func(key string) error {
			return fmt.Errorf("%s: unknown key%s", key, cmd.didYouMean(key, option.key))
		},
	}
	text, err := read(path)
	if err != nil {
		found.add(finding{text: fmt.Sprintf("read the configuration: %v", err)})
		return s
	}
	root, faults := parseFile(text)
	for _, f := range faults {
		f.file = path
		found.add(f)
	}
	if root != nil {
		s.tree = root
		s.values = root.value().(map[string]any)
	}
	return s
}

// readEnviron reads the variables with the prefix. An empty one isn't set; of two with one name the last counts.
func (cmd command) readEnviron(environ []string) source {
	keys := make(map[string]string) // of options, by their variables
	for _, o := range allOptions(new(Config)) {
		keys[o.env()] = o.key()
	}
	values := make(map[string]any)
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, EnvPrefix) && value != "" && !notForServe(name) {
			values[cmp.Or(keys[name], name)] = value
		}
	}
	return source{
		values: values, name: option.env,
		other: func(key string) error {
			return fmt.Errorf("%s: unknown environment variable%s", key, cmd.didYouMean(key, option.env))
		},
	}
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

// readFlags reads the flags that were set; the defaults are another source.
func (cmd command) readFlags(flags *pflag.FlagSet) source {
	keys := make(map[string]string) // of options, by their flags
	for _, o := range cmd.options(new(Config)) {
		keys[cmd.name(o)] = o.key()
	}
	values := make(map[string]any)
	flags.Visit(func(f *pflag.Flag) {
		key, ok := keys[f.Name]
		if !ok {
			return
		}
		values[key] = f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values[key] = strings.Join(list.GetSlice(), ",")
		}
	})
	return source{values: values, name: cmd.flag, other: errors.New}
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
