package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shared returns the shared part of a configuration in YAML, as it is announced.
func shared(t *testing.T, yaml string) (s Shared) {
	t.Helper()
	c, err := load(t, yaml, nil, nil)
	require.NoError(t, err)
	mine, err := c.Shared()
	require.NoError(t, err)
	text, err := json.Marshal(mine)
	require.NoError(t, err)
	require.NotContains(t, string(text), "hunter2")
	require.NoError(t, json.Unmarshal(text, &s))
	return s
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{"any.json": `{}`, "text.json": `{"type":"string"}`} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	for name, c := range map[string]struct {
		first, other string
		want         Differences
	}{
		"none":           {"", "", Differences{}},
		"other options":  {"maxWait: 5s", "logLevel: debug", Differences{}},
		"equal queues":   {"queues: {a: {match: {teams: 2}}}", "queues: {a: {match: {teams: 2}}}", Differences{}},
		"default values": {"queues: {a: {}}", "queues: {a: {match: {function: first-come}}}", Differences{}},
		"queues": {"queues: {a: {match: {teams: 2}}, b: {}}", "queues: {a: {match: {teams: 3}}, b: {}}",
			Differences{Queues: []string{"a"}}},
		"one has queues":        {"queues: {b: {}, a: {}}", "", Differences{Queues: []string{"a", "b"}}},
		"one has no tickets":    {"queues: {b: {}}", "matchmaking: off", Differences{}},
		"rules":                 {rules("a, ttl: 1m", "b"), rules("a, ttl: 2m", "b"), Differences{Channels: []string{"a"}}},
		"rights":                {rules("a, readers: [x]"), rules("a"), Differences{Channels: []string{"a"}}},
		"one has a rule":        {rules("a", "b", "c"), rules("a", "c"), Differences{Channels: []string{"b"}}},
		"order":                 {rules("a", "b", "c"), rules("a", "c", "b"), Differences{Channels: []string{"b", "c"}}},
		"a rule without effect": {rules("a", "b", "a, ttl: 1m"), rules("a", "b"), Differences{}},
		"no rule":               {"channelTtl: 2h", "", Differences{Channels: []string{".*"}}},
		"schemas": {
			rules("a, schema: "+filepath.Join(folder, "any.json"), "b, schema: notification"),
			rules("a, schema: "+filepath.Join(folder, "text.json"), "b, schema: notification"),
			Differences{Channels: []string{"a"}},
		},
		"kinds": {kindsOf("product, ttl: 1h", "page"), kindsOf("product, ttl: 2h", "shelf"),
			Differences{Kinds: []string{"page", "product", "shelf"}}},
		"schemas of kinds": {
			kindsOf("a, schema: " + filepath.Join(folder, "any.json")),
			kindsOf("a, schema: " + filepath.Join(folder, "text.json")),
			Differences{Kinds: []string{"a"}},
		},
		"defaults of kinds": {kindsOf("a, value: json, maxBytes: 1MiB", "b"), kindsOf("b", "a"), Differences{}},
		"other sections": {"kinds: {locks: [{name: a}], metrics: [a]}", "kinds: {locks: [], statistics: [{name: a}]}",
			Differences{Kinds: []string{"locks:", "metrics:", "statistics:"}}},
		"form of keys":       {kindsOf("a"), "recordsKeys: plain\n" + kindsOf("a"), Differences{Kinds: []string{"keys:"}}},
		"one has no records": {kindsOf("a"), "records: off", Differences{}},
		"all": {"queues: {a: {}}\n" + rules("a"), "channelTtl: 2h",
			Differences{Queues: []string{"a"}, Channels: []string{".*", "a"}}},
		"secrets": {
			"queues: {a: {assigner: {kind: webhook, url: 'http://a/', secret: hunter2}}}",
			"queues: {a: {assigner: {kind: webhook, url: 'http://a/', secret: hunter22}}}", Differences{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, other := shared(t, c.first), shared(t, c.other)
			require.Equal(t, c.want, first.Differences([]Shared{first, other}))
			require.Equal(t, c.want, other.Differences([]Shared{first, other}))
			require.Empty(t, first.Differences(nil))
		})
	}
}

// Several other servers can differ in different ways.
func TestDifferencesFromMany(t *testing.T) {
	t.Parallel()
	config := shared(t, "queues: {a: {}, b: {}}\n"+rules("x", "y", "z"))
	require.Equal(t, Differences{Queues: []string{"a", "b", "c"}, Channels: []string{"x", "y", "z"}},
		config.Differences([]Shared{
			shared(t, "queues: {a: {}, c: {}}\n"+rules("x", "z")),
			shared(t, "queues: {b: {}}\n"+rules("z", "x", "y, ttl: 1m")),
		}))
}

// kindsOf returns the kinds of a configuration. Each begins with its name.
func kindsOf(list ...string) string {
	text := "kinds:\n  caches:\n"
	for _, kind := range list {
		name, _, _ := strings.Cut(kind, ",")
		text += "  - {key: \"" + name + ":{<id>}\", name: " + kind + "}\n"
	}
	return text
}

// rules returns the rules of a configuration. Each begins with its pattern.
func rules(list ...string) string {
	text := "channels:\n"
	for _, rule := range list {
		text += "- {pattern: " + rule + "}\n"
	}
	return text
}
