package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/redact"
	"github.com/tidemark-dev/tidemark/matchmaking"
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

// maxChanges is how many changes are listed. Each value has at most maxDetail bytes.
const maxChanges = 100

// Reloaded is the configuration of a running service after a reload.
type Reloaded struct {
	Config
	Changes []Change
	Restart []string // YAML keys of options that have other values now, which take effect after a restart
}

// Reload returns the configuration that a service that runs with c has after its sources have become next: the
// reloadable options are those of next. The others stay as they are. The error is [Faults] if these options don't fit
// together, or if a change needs a restart.
func (c Config) Reload(next Config) (Reloaded, error) {
	r := Reloaded{Config: next}
	values := maps.Clone(c.values)
	for _, o := range serve.options(new(Config)) {
		key := o.key()
		value, ok := next.values[key]
		switch {
		case !o.live && !reflect.DeepEqual(c.values[key], value):
			r.Restart = append(r.Restart, key)
		case o.live && ok:
			values[key] = value
		case o.live:
			delete(values, key)
		}
	}
	found := newFindings()
	if len(r.Restart) > 0 {
		r.Config = newConfig()
		r.Records.Site = c.Records.Site
		if err := r.set(values, nil); err != nil {
			return Reloaded{}, err
		}
		r.complete(found)
	}
	r.values, r.ticketLife, r.copying = values, c.TicketLife(), c.Copies()
	r.checkLives(found, next)
	if err := found.err(); err != nil {
		return Reloaded{}, err
	}
	r.Changes = changes(c, r.Config)
	return r, nil
}

// checkLives checks what a service can't change while it runs.
func (c *Config) checkLives(found *findings, next Config) {
	for _, d := range next.Matchmaking.Queues {
		if life := d.TicketTTL.Std() + d.AssignmentTTL.Std(); c.Matchmaking.On && life > c.ticketLife {
			found.add(finding{text: fmt.Sprintf(
				"queues.%s.ticketTTL: together with assignmentTTL it is %s, and the channels of tickets live for %s since the start: restart the service",
				d.Name, life, c.ticketLife)})
		}
	}
	if next.Copies() && !c.copying {
		found.add(finding{text: "channels: no rule had deliver: copies when the service started: restart the service"})
	}
}

// changes returns the differences of the reloadable options.
func changes(old, now Config) (list []Change) {
	add := func(option, from, to string) {
		if from != to {
			list = append(list, Change{Option: option, From: cut(from), To: cut(to)})
		}
	}
	for _, o := range serve.options(new(Config)) {
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
