package channel

import (
	"cmp"
	"fmt"
	"regexp"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/names"
	"github.com/tidemark-dev/tidemark/internal/patterns"
)

// MinTTL and MaxTTL bound a channel's TTL.
const (
	MinTTL = time.Second
	MaxTTL = 10 * 365 * 24 * time.Hour
)

// Policy is the settings of a channel.
type Policy struct {
	TTL             time.Duration // life of a message, and of the channel and its marks without activity
	MaxMessages     int           // most messages kept, the oldest are removed first; 0: no limit but the TTL
	MaxMessageBytes int           // largest content of a message
	Replicas        int           // replicas of Redis that must confirm a publish; 0: don't wait
	MaxSubscribers  int           // 0: no limit
	Schema          Schema        // of the contents of messages, which are JSON; nil: any content
	Copies          bool          // messages are copied to the channels of followers: see Copies
	// each new message is also published plainly, on the pub/sub channel of Redis with the channel's name
	Plain      bool
	LagMetrics bool // Service.Lags has the channel's subscribers
}

// Schema validates the contents of messages. Many goroutines may use it.
type Schema interface {
	// Check validates content, which is JSON. The error describes the mismatch, and field is the JSON pointer to it, or
	// "" for the content as a whole.
	Check(content []byte) (field string, err error)
}

func (p Policy) check() error {
	switch {
	case p.TTL < MinTTL || p.TTL > MaxTTL:
		return fmt.Errorf("ttl: %s isn't between %s and %s", p.TTL, MinTTL, MaxTTL)
	case p.MaxMessages < 0:
		return fmt.Errorf("maxMessages: %d is negative (0: no limit)", p.MaxMessages)
	case p.MaxMessageBytes < 1:
		return fmt.Errorf("maxMessageBytes: %d isn't positive", p.MaxMessageBytes)
	case p.Replicas < 0:
		return fmt.Errorf("replicas: %d is negative (0: don't wait)", p.Replicas)
	case p.MaxSubscribers < 0:
		return fmt.Errorf("maxSubscribers: %d is negative (0: no limit)", p.MaxSubscribers)
	}
	return nil
}

// Rule sets the policy of channels whose whole name matches Pattern. An empty value keeps the default. A value may
// refer to captures of the pattern, as in
//
//	Rule{Pattern: `tmp\.(?P<life>[0-9]+[smh])\..+`, TTL: "${life}"}
type Rule struct {
	Pattern         string // regular expression in the syntax of package regexp
	TTL             string // Go duration
	MaxMessages     string // integer
	MaxMessageBytes string // integer
	Replicas        string // integer
	MaxSubscribers  string // integer
	Schema          Schema // no captures
	Plain           bool
	Copies          bool
	LagMetrics      bool
}

// setting is one key of a rule.
type setting struct {
	key   string
	value func(*Rule) string
	set   func(*Policy, string) error
}

var settings = []setting{
	{"ttl", func(r *Rule) string { return r.TTL }, func(p *Policy, value string) (err error) {
		p.TTL, err = time.ParseDuration(value)
		return err
	}},
	intSetting("maxMessages", func(r *Rule) string { return r.MaxMessages },
		func(p *Policy) *int { return &p.MaxMessages }),
	intSetting("maxMessageBytes", func(r *Rule) string { return r.MaxMessageBytes },
		func(p *Policy) *int { return &p.MaxMessageBytes }),
	intSetting("replicas", func(r *Rule) string { return r.Replicas }, func(p *Policy) *int { return &p.Replicas }),
	intSetting("maxSubscribers", func(r *Rule) string { return r.MaxSubscribers },
		func(p *Policy) *int { return &p.MaxSubscribers }),
}

func intSetting(key string, value func(*Rule) string, field func(*Policy) *int) setting {
	return setting{key, value, func(p *Policy, value string) (err error) {
		*field(p), err = patterns.Int(value)
		return err
	}}
}

// Policies finds the policy of a channel. Many goroutines may use it.
type Policies struct {
	fallback Policy
	rules    []compiledRule
}

// compiledRule is a Rule with all values resolved that don't depend on the channel's name.
type compiledRule struct {
	written string // the pattern, as it was configured
	pattern *regexp.Regexp
	policy  Policy     // without the captured values
	dynamic []template // the values that refer to captures
}

// template is a value that refers to captures.
type template struct {
	setting
	text string
}

// NewPolicies returns policies with a default and rules, of which the first one that matches a channel applies. Its
// error names the rule and the key that are invalid.
func NewPolicies(fallback Policy, rules []Rule) (*Policies, error) {
	if err := fallback.check(); err != nil {
		return nil, err
	}
	p := &Policies{fallback: fallback}
	for i := range rules {
		c, err := compileRule(&rules[i], fallback)
		if err != nil {
			return nil, fmt.Errorf("channels[%d].%w", i, err)
		}
		p.rules = append(p.rules, c)
	}
	return p, nil
}

func compileRule(r *Rule, fallback Policy) (compiledRule, error) {
	pattern, err := patterns.Compile(r.Pattern, names.ChannelCanContain)
	if err != nil {
		return compiledRule{}, fmt.Errorf("pattern: %w", err)
	}
	c := compiledRule{pattern: pattern, written: r.Pattern, policy: fallback}
	c.policy.Schema, c.policy.Plain, c.policy.Copies = cmp.Or(r.Schema, fallback.Schema), r.Plain || fallback.Plain,
		r.Copies || fallback.Copies
	c.policy.LagMetrics = r.LagMetrics || fallback.LagMetrics
	for _, s := range settings {
		value := s.value(r)
		dynamic, err := patterns.In(pattern, value)
		switch {
		case err != nil:
			return compiledRule{}, fmt.Errorf("%s: %w", s.key, err)
		case dynamic:
			c.dynamic = append(c.dynamic, template{setting: s, text: value})
		case value != "":
			if err := s.set(&c.policy, value); err != nil {
				return compiledRule{}, fmt.Errorf("%s: %w", s.key, err)
			}
		}
	}
	return c, c.policy.check()
}

// Rule returns the pattern of the rule that sets the policy of a channel, or "" if none does.
func (p *Policies) Rule(channel string) string {
	for i := range p.rules {
		if p.rules[i].pattern.MatchString(channel) {
			return p.rules[i].written
		}
	}
	return ""
}

// For returns the policy of a channel. Errors: fault.SlugInvalidPolicy if a capture results in an invalid value.
func (p *Policies) For(channel string) (Policy, error) {
	for i := range p.rules {
		r := &p.rules[i]
		if len(r.dynamic) == 0 {
			if r.pattern.MatchString(channel) {
				return r.policy, nil
			}
			continue
		}
		if match := r.pattern.FindStringSubmatchIndex(channel); match != nil {
			policy, err := r.expand(channel, match)
			if err != nil {
				return Policy{}, invalid(fault.SlugInvalidPolicy, "channel", "the channel name %q makes no policy: %v",
					channel, err)
			}
			return policy, nil
		}
	}
	return p.fallback, nil
}

func (r *compiledRule) expand(channel string, match []int) (Policy, error) {
	policy := r.policy
	for _, d := range r.dynamic {
		value := r.pattern.ExpandString(nil, d.text, channel, match)
		if err := d.set(&policy, string(value)); err != nil {
			return Policy{}, fmt.Errorf("%s: %w", d.key, err)
		}
	}
	return policy, policy.check()
}
