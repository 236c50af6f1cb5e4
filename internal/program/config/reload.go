package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/redact"
)

// Change is a difference between two configurations, without secrets.
type Change struct {
	Option string // its YAML key, or the path of a part of it, such as queues.ranked.ticketTTL
	From   string // "": it was not there
	To     string // "": it is not there any more
}

// String returns the change in one line.
func (c Change) String() string {
	return fmt.Sprintf("%s: %s -> %s", c.Option, orNone(c.From), orNone(c.To))
}

func orNone(text string) string {
	if text == "" {
		return "not set"
	}
	return text
}

// maxChanges is how many changes are listed. Each value has at most maxShown bytes.
const maxChanges = 100

// Reloaded is the configuration of a running service after a reload.
type Reloaded struct {
	Config
	Changes []Change
	Restart []string // YAML keys of options with other values, or other files, now: they take effect after a restart
}

// Reload returns the configuration that a service that runs with c has after its sources have become next: the
// reloadable options are those of next. The others stay as they are, with the contents of the files that they name,
// none of which is read. The error is [Faults] if these options don't fit together, or if a change needs a restart.
func (c Config) Reload(next Config) (Reloaded, error) {
	r := c.reload(serve, next)
	r.ticketLife, r.copying = c.TicketLife(), c.Copies()
	found := newFindings()
	r.checkTogether(found)
	r.checkLives(found, next)
	if err := found.err(); err != nil {
		return Reloaded{}, err
	}
	return r, nil
}

// ReloadNode is Reload for a node of shards. Nothing is refused.
func (c Config) ReloadNode(next Config) Reloaded { return c.reload(node, next) }

func (c Config) reload(of command, next Config) Reloaded {
	r := Reloaded{Config: c}
	r.values, r.sources = maps.Clone(c.values), map[string]string{}
	for _, o := range of.options(new(Config)) {
		key := o.key()
		value, ok := next.values[key]
		switch {
		case !o.live && (!reflect.DeepEqual(c.values[key], value) || c.readsOther(next, key)):
			r.Restart = append(r.Restart, key)
		case o.live && ok:
			r.values[key] = value
		case o.live:
			delete(r.values, key)
		}
		from := c.sources
		if o.live {
			from = next.sources
		}
		if source, ok := from[key]; ok {
			r.sources[key] = source
		}
	}
	r.setLive(next)
	r.Changes = changes(of, c, r.Config)
	return r
}

// setLive sets the reloadable options to those of next.
func (c *Config) setLive(next Config) {
	c.Channel, c.Rules, c.Access.Rules = next.Channel, next.Rules, next.Access.Rules
	c.Access.UserLimits, c.Access.AddressLimits = next.Access.UserLimits, next.Access.AddressLimits
	c.Access.Quotas = next.Access.Quotas
	c.Matchmaking.Queues, c.Matchmaking.MaxQueues = next.Matchmaking.Queues, next.Matchmaking.MaxQueues
	wait := c.Limits.MaxWait
	c.Limits = next.Limits
	c.Limits.MaxWait = wait
	c.Log.Level = next.Log.Level
}

// readsOther reports whether an option, which is read at the start, names a file with other contents in next.
func (c Config) readsOther(next Config, key string) bool {
	switch key {
	case "kinds":
		now, err := sharedKinds(c.Records)
		then, nextErr := sharedKinds(next.Records)
		return errors.Join(err, nextErr) == nil && !maps.Equal(now, then)
	case "receiptKeysFile":
		return !reflect.DeepEqual(c.Receipts.Keys, next.Receipts.Keys)
	case "shardTokenFile":
		return c.Shards.Token != next.Shards.Token
	}
	return false
}

// checkLives checks what a service can't change while it runs.
func (c *Config) checkLives(found *findings, next Config) {
	for _, d := range next.Matchmaking.Queues {
		if life := d.TicketLife(); c.Matchmaking.On && life > c.ticketLife && d.HasChannels() {
			found.add(finding{text: fmt.Sprintf(
				"queues.%s.ticketTTL: together with assignmentTTL it is %s, and the channels of tickets live for %s since the start: restart the service",
				d.Name, life, c.ticketLife)})
		}
	}
	if next.Copies() && !c.copying {
		found.add(finding{text: "channels: no rule had deliver: copies when the service started: restart the service"})
	}
}

// changes returns the differences of the reloadable options of a command.
func changes(of command, old, now Config) (list []Change) {
	add := func(option, from, to string) {
		if from != to {
			list = append(list, Change{Option: option, From: redact.Cut(from, maxShown), To: redact.Cut(to, maxShown)})
		}
	}
	for _, o := range of.options(new(Config)) {
		key := o.key()
		switch {
		case !o.live:
		case key == "queues":
			addQueues(add, old.Matchmaking.Queues, now.Matchmaking.Queues)
		case key == "channels":
			addRules(add, old, now)
		default: // a plain value, and no secret
			add(key, text(old.values[key]), text(now.values[key]))
		}
	}
	if n := len(list); n > maxChanges {
		list = append(list[:maxChanges:maxChanges], Change{Option: fmt.Sprintf("and %d more", n-maxChanges)})
	}
	return list
}

// defined stands for a whole queue or rule.
const defined = "defined"

func addQueues(add func(option, from, to string), old, now []matchmaking.Definition) {
	before, after := byName(old), byName(now)
	for _, name := range slices.Sorted(maps.Keys(joined(before, after))) {
		option := "queues." + name
		from, was := before[name]
		to, is := after[name]
		switch {
		case !was:
			add(option, "", defined)
		case !is:
			add(option, defined, "")
		case !reflect.DeepEqual(from, to):
			a, b := leaves(from.Redacted()), leaves(to.Redacted())
			if maps.Equal(a, b) {
				add(option, redact.Mark, "another "+redact.Mark)
			}
			for _, path := range slices.Sorted(maps.Keys(joined(a, b))) {
				add(option+path, a[path], b[path])
			}
		}
	}
}

func byName(list []matchmaking.Definition) map[string]matchmaking.Definition {
	m := make(map[string]matchmaking.Definition, len(list))
	for _, d := range list {
		m[d.Name] = d
	}
	return m
}

// addRules adds the changes of rules by their patterns. Of rules with the same pattern the first one applies.
func addRules(add func(option, from, to string), old, now Config) {
	before, ofBefore := old.writtenRules()
	after, ofAfter := now.writtenRules()
	for _, pattern := range slices.Sorted(maps.Keys(joined(ofBefore, ofAfter))) {
		option := "channels[" + pattern + "]"
		a, was := ofBefore[pattern]
		b, is := ofAfter[pattern]
		switch {
		case !was:
			add(option, "", defined)
		case !is:
			add(option, defined, "")
		default:
			for _, path := range slices.Sorted(maps.Keys(joined(a, b))) {
				add(option+path, a[path], b[path])
			}
		}
	}
	both := func(pattern string) bool { return ofBefore[pattern] == nil || ofAfter[pattern] == nil }
	add("channels", strings.Join(slices.DeleteFunc(before, both), ", "),
		strings.Join(slices.DeleteFunc(after, both), ", "))
}

// writtenRules returns the patterns of the rules in order, and the rules as they are written.
func (c Config) writtenRules() (patterns []string, rules map[string]map[string]string) {
	rules = make(map[string]map[string]string, len(c.Rules))
	for i, r := range c.Rules {
		if rules[r.Pattern] != nil {
			continue
		}
		patterns, rules[r.Pattern] = append(patterns, r.Pattern), written(r, c.Access.Rules[i])
	}
	return patterns, rules
}

func written(r channel.Rule, rights access.ChannelRule) map[string]string {
	schema := ""
	if sum := sumOf(r.Schema); sum != nil {
		schema = fmt.Sprintf("sha256:%x", sum[:4])
	}
	return leaves(map[string]any{
		"ttl": r.TTL, "maxMessages": r.MaxMessages, "maxMessageBytes": r.MaxMessageBytes, "replicas": r.Replicas,
		"maxSubscribers": r.MaxSubscribers, "schema": schema, "plain": r.Plain, "copies": r.Copies,
		"lagMetrics": r.LagMetrics,
		"readers":    strings.Join(rights.Readers, ", "), "writers": strings.Join(rights.Writers, ", "),
		"queryToken": rights.QueryToken,
	})
}

// leaves returns the values of a value's JSON by their paths.
func leaves(value any) map[string]string {
	found := map[string]string{}
	encoded, err := json.Marshal(value)
	var tree any
	if err == nil {
		err = json.Unmarshal(encoded, &tree)
	}
	if err != nil {
		found[""] = err.Error() // impossible: the values are those of a configuration
	}
	var add func(path string, value any)
	add = func(path string, value any) {
		if members, ok := value.(map[string]any); ok {
			for name, member := range members {
				add(path+"."+name, member)
			}
			return
		}
		if shown := text(value); shown != "" {
			found[path] = shown
		}
	}
	add("", tree)
	return found
}

// text returns a value of a configuration, or of its JSON, as text; "" for one that isn't set.
func text(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}

// joined returns a map with the keys of both maps.
func joined[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
