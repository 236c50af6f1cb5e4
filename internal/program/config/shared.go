package config

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/schema"
)

// Shared identifies the part of a configuration that all servers on one Redis should have in common: queues, rules for
// channels, and the table of kinds. It has no secrets.
type Shared struct {
	Queues   map[string]string `json:"queues"`   // digests of the definitions by name; nil: no matchmaking
	Channels []SharedRule      `json:"channels"` // in order
	Kinds    map[string]string `json:"kinds"`    // digests of the entries by name; nil: no records
}

// SharedRule identifies a rule for channels.
type SharedRule struct {
	Pattern string `json:"pattern"`
	Digest  string `json:"digest"`
}

// anyChannel is the pattern of the settings for channels that no rule matches.
const anyChannel = ".*"

// Shared returns the shared part of the configuration.
func (c Config) Shared() (Shared, error) {
	var s Shared
	if c.Matchmaking.On {
		s.Queues = make(map[string]string, len(c.Matchmaking.Queues))
		for _, q := range c.Matchmaking.Queues {
			digest, err := digestOf(q.Redacted())
			if err != nil {
				return Shared{}, fmt.Errorf("queue %s: %w", q.Name, err)
			}
			s.Queues[q.Name] = digest
		}
	}
	for i, rule := range c.Rules {
		shared, err := sharedRule(rule, c.Access.Rules[i])
		if err != nil {
			return Shared{}, err
		}
		s.Channels = append(s.Channels, shared)
	}
	digest, err := digestOf(c.Channel)
	if err != nil {
		return Shared{}, err
	}
	s.Channels = append(s.Channels, SharedRule{Pattern: anyChannel, Digest: digest})
	if c.Records.On {
		s.Kinds, err = sharedKinds(c.Records)
	}
	return s, err
}

func sharedKinds(r RecordOptions) (digests map[string]string, err error) {
	digests = map[string]string{}
	for _, k := range r.Site.Table.Caches() {
		row := *k.In(true) // the form of keys has a digest of its own
		row.Schema = nil
		if digests[k.Name], err = digestOf([]any{row, sumOf(k.Schema)}); err != nil {
			return nil, fmt.Errorf("kind %s: %w", k.Name, err)
		}
	}
	for section, value := range map[string]any{ // names of kinds have no colon
		"notifications:": []any{r.Site.Sources, sumOf(r.Notifications)}, "locks:": r.Site.Operations,
		"statistics:": r.Site.Statistics.Entities, "metrics:": r.Site.Statistics.Metrics,
	} {
		if digests[section], err = digestOf(value); err != nil {
			return nil, fmt.Errorf("kinds %s %w", section, err)
		}
	}
	if r.PlainKeys {
		digests["keys:"] = "plain"
	}
	return digests, nil
}

// sumOf returns the checksum of a schema that openSchema returned, or nil.
func sumOf(s channel.Schema) []byte {
	if s, ok := s.(*schema.Schema); ok {
		return s.Sum()
	}
	return nil
}

func sharedRule(rule channel.Rule, rights access.ChannelRule) (SharedRule, error) {
	sum := sumOf(rule.Schema)
	rule.Schema = nil
	digest, err := digestOf([]any{rule, rights, sum})
	if err != nil {
		return SharedRule{}, fmt.Errorf("rule %s: %w", rule.Pattern, err)
	}
	return SharedRule{Pattern: rule.Pattern, Digest: digest}, nil
}

// digestOf returns a digest of a value's JSON.
func digestOf(value any) (string, error) {
	text, err := json.Marshal(value)
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:12]), err
}

// Differences are the queues, the rules and the kinds that servers define differently, sorted. One that only some of
// them have is a difference, too. The settings for channels that no rule matches have the pattern .* here, and the
// other sections of the table of kinds are the kinds notifications:, locks:, statistics: and metrics:, and the form of
// their keys is the kind keys:.
type Differences struct {
	Queues   []string // names
	Channels []string // patterns of rules
	Kinds    []string // names
}

// Differences returns the differences from other servers.
func (s Shared) Differences(others []Shared) Differences {
	queues, channels, kinds := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, other := range others {
		if s.Queues != nil && other.Queues != nil {
			addDiffering(queues, s.Queues, other.Queues)
		}
		if s.Kinds != nil && other.Kinds != nil {
			addDiffering(kinds, s.Kinds, other.Kinds)
		}
		addDiffering(channels, s.digests(), other.digests())
		mine, theirs := s.patterns(channels), other.patterns(channels)
		for i := range mine { // the order decides which of the rules that match a channel applies
			if mine[i] != theirs[i] {
				channels[mine[i]] = true
			}
		}
	}
	return Differences{Queues: slices.Sorted(maps.Keys(queues)), Channels: slices.Sorted(maps.Keys(channels)),
		Kinds: slices.Sorted(maps.Keys(kinds))}
}

// addDiffering adds the keys that don't have the same value in both maps.
func addDiffering(found map[string]bool, a, b map[string]string) {
	for key := range a {
		found[key] = found[key] || a[key] != b[key]
	}
	for key := range b {
		found[key] = found[key] || a[key] != b[key]
	}
	maps.DeleteFunc(found, func(_ string, differs bool) bool { return !differs })
}

// digests returns the digests of the rules by pattern. Of several rules with one pattern only the first has an effect.
func (s Shared) digests() map[string]string {
	digests := make(map[string]string, len(s.Channels))
	for _, rule := range slices.Backward(s.Channels) {
		digests[rule.Pattern] = rule.Digest
	}
	return digests
}

// patterns returns the patterns of the rules in order, each once, without some.
func (s Shared) patterns(without map[string]bool) (list []string) {
	seen := maps.Clone(without)
	for _, rule := range s.Channels {
		if !seen[rule.Pattern] {
			seen[rule.Pattern] = true
			list = append(list, rule.Pattern)
		}
	}
	return list
}
