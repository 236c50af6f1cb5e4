package channel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
)

func TestPolicyFor(t *testing.T) {
	t.Parallel()
	fallback := Policy{TTL: time.Hour, MaxMessages: 5, MaxMessageBytes: 100}
	with := func(change func(*Policy)) Policy {
		p := fallback
		change(&p)
		return p
	}
	policies, err := NewPolicies(fallback, []Rule{
		{Pattern: `short`, TTL: "90s"},
		{Pattern: `s.*t`, TTL: "1s", MaxMessages: "1", MaxMessageBytes: "1"},
		{Pattern: `tmp\.(?P<life>[0-9]+[smh])\..+`, TTL: "${life}"},
		{Pattern: `log-([0-9]+)-(?P<bytes>[0-9]+)(?:-(x))?`, MaxMessages: "$1", MaxMessageBytes: "${bytes}0"},
		{Pattern: `none`, MaxMessages: "0"},
		{Pattern: `a|ab`, TTL: "2s"},
		{Pattern: `all(.*)`, TTL: "${0}", MaxMessageBytes: "7"},
		{Pattern: `same`},
		{Pattern: `safe([0-9])`, Replicas: "$1"},
		{Pattern: `room([0-9]+)`, MaxSubscribers: "$1"},
	})
	require.NoError(t, err)
	for _, tt := range []struct {
		channel string
		want    Policy
	}{
		{"anything", fallback},
		{"same", fallback},
		{"short", with(func(p *Policy) { p.TTL = 90 * time.Second })},
		{"shirt", Policy{TTL: time.Second, MaxMessages: 1, MaxMessageBytes: 1}},
		{"a-short", fallback},
		{"short-a", fallback},
		{"tmp.10m.x", with(func(p *Policy) { p.TTL = 10 * time.Minute })},
		{"tmp.10m.", fallback},
		{"log-12-34", with(func(p *Policy) { p.MaxMessages, p.MaxMessageBytes = 12, 340 })},
		{"log-12-34-x", with(func(p *Policy) { p.MaxMessages, p.MaxMessageBytes = 12, 340 })},
		{"none", with(func(p *Policy) { p.MaxMessages = 0 })},
		{"safe2", with(func(p *Policy) { p.Replicas = 2 })},
		{"room12", with(func(p *Policy) { p.MaxSubscribers = 12 })},
		{"ab", with(func(p *Policy) { p.TTL = 2 * time.Second })},
		{"a\n", fallback},
	} {
		got, err := policies.For(tt.channel)
		require.NoError(t, err, tt.channel)
		require.Equal(t, tt.want, got, tt.channel)
	}
}

func TestPolicyThatACaptureSpoils(t *testing.T) {
	t.Parallel()
	policies, err := NewPolicies(testPolicy, []Rule{
		{Pattern: `ttl-(.*)`, TTL: "$1"},
		{Pattern: `count-(.*)`, MaxMessages: "$1"},
		{Pattern: `bytes-(.*)`, MaxMessageBytes: "$1"},
		{Pattern: `maybe(?:-(.*))?`, TTL: "$1"},
	})
	require.NoError(t, err)
	for channel, says := range map[string]string{
		"ttl-5":                       "ttl: ",
		"ttl-1ms":                     "ttl: 1ms isn't between 1s",
		"ttl--5s":                     "ttl: -5s isn't between 1s",
		"ttl-999999h":                 "ttl: ",
		"count-x":                     `maxMessages: "x" isn't an integer`,
		"count--1":                    "maxMessages: -1 is negative",
		"count-99999999999999999999":  "maxMessages: 99999999999999999999 is too large",
		"bytes-0":                     "maxMessageBytes: 0 isn't positive",
		"bytes-99999999999999999999x": "maxMessageBytes: ",
		"maybe":                       "ttl: ",
	} {
		_, err := policies.For(channel)
		e := requireError(t, err, fault.Invalid, fault.SlugInvalidPolicy)
		require.Equal(t, "channel", e.Field)
		require.Contains(t, e.Detail, says)
		require.Contains(t, e.Detail, channel)
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule Rule
		says string
	}{
		{Rule{}, "pattern: is empty"},
		{Rule{Pattern: "("}, "pattern: "},
		{Rule{Pattern: "a)(b"}, "pattern: "},
		{Rule{Pattern: "a", TTL: "10"}, "ttl: "},
		{Rule{Pattern: "a", TTL: "1ms"}, "ttl: 1ms isn't between 1s"},
		{Rule{Pattern: "a", TTL: "87601h"}, "ttl: 87601h0m0s isn't between 1s"},
		{Rule{Pattern: "a", MaxMessages: "many"}, `maxMessages: "many" isn't an integer`},
		{Rule{Pattern: "a", MaxMessages: "1e3"}, `maxMessages: "1e3" isn't an integer`},
		{Rule{Pattern: "a", MaxMessages: "-1"}, "maxMessages: -1 is negative"},
		{Rule{Pattern: "a", MaxMessageBytes: "0"}, "maxMessageBytes: 0 isn't positive"},
		{Rule{Pattern: "a", Replicas: "-1"}, "replicas: -1 is negative"},
		{Rule{Pattern: "a", MaxSubscribers: "-1"}, "maxSubscribers: -1 is negative"},
		{Rule{Pattern: "a", Replicas: "all"}, `replicas: "all" isn't an integer`},
		{Rule{Pattern: "a", MaxMessageBytes: " 1"}, `maxMessageBytes: " 1" isn't an integer`},
		{Rule{Pattern: "a", TTL: "$life"}, `ttl: "$life" names a capture`},
		{Rule{Pattern: "(?P<life>.*)", TTL: "${lif}"}, `ttl: "${lif}" names a capture`},
		{Rule{Pattern: "(.*)", TTL: "$2"}, `ttl: "$2" names a capture`},
		{Rule{Pattern: "(.*)", TTL: "$01"}, `ttl: "$01" names a capture`},
		{Rule{Pattern: "(.*)", TTL: "$1s"}, `ttl: "$1s" names a capture`}, // ${1}s is meant
		{Rule{Pattern: "(.*)", TTL: "${1"}, `ttl: "$" names a capture`},
		{Rule{Pattern: "(.*)", MaxMessages: "$$"}, `maxMessages: "$" names a capture`},
		{Rule{Pattern: "(.*)", MaxMessageBytes: "${}"}, `maxMessageBytes: "${}" names a capture`},
		// A value without a capture is checked now even where another one has to wait for a name.
		{Rule{Pattern: "(.*)", TTL: "$1", MaxMessages: "many"}, `maxMessages: "many" isn't an integer`},
		{Rule{Pattern: "(.*)", MaxMessageBytes: "$1", TTL: "1ms"}, "ttl: 1ms isn't between 1s"},
		// The first key that is wrong is named.
		{Rule{Pattern: "a", TTL: "x", MaxMessages: "x", MaxMessageBytes: "x"}, "ttl: "},
	} {
		_, err := NewPolicies(testPolicy, []Rule{{Pattern: "fine"}, tt.rule})
		require.ErrorContains(t, err, "channels[1]."+tt.says, "%+v", tt.rule)
	}
}

func TestDefaultPolicyThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		policy Policy
		says   string
	}{
		{Policy{TTL: MinTTL - 1, MaxMessageBytes: 1}, "ttl: "},
		{Policy{TTL: MaxTTL + 1, MaxMessageBytes: 1}, "ttl: "},
		{Policy{TTL: MinTTL, MaxMessages: -1, MaxMessageBytes: 1}, "maxMessages: "},
		{Policy{TTL: MaxTTL}, "maxMessageBytes: "},
		{Policy{TTL: MaxTTL, MaxMessageBytes: 1, Replicas: -1}, "replicas: "},
	} {
		_, err := NewPolicies(tt.policy, nil)
		require.ErrorContains(t, err, tt.says)
	}
	for _, ttl := range []time.Duration{MinTTL, MaxTTL} {
		_, err := NewPolicies(Policy{TTL: ttl, MaxMessageBytes: 1}, nil)
		require.NoError(t, err)
	}
}
