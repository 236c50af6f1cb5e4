package channel

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
)

// MinTTL and MaxTTL bound a channel's TTL.
const (
	MinTTL = time.Second
	MaxTTL = 10 * 365 * 24 * time.Hour
)

// Policy says how a channel is kept.
type Policy struct {
	TTL             time.Duration // life of a message, and of the channel and its marks without activity
	MaxMessages     int           // messages kept at most, the oldest go first; 0: no limit but the TTL
	MaxMessageBytes int           // size of one message's content at most
	Replicas        int           // replicas of Redis that must have a publish before it is answered; 0: none
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
	}
	return nil
}

// Rule gives the channels whose whole name matches Pattern a policy of their own. An empty value keeps the
// default. A value may name captures of the pattern, as in
//
//	Rule{Pattern: `tmp\.(?P<life>[0-9]+[smh])\..+`, TTL: "${life}"}
type Rule struct {
	Pattern         string // regular expression in the syntax of package regexp
	TTL             string // Go duration
	MaxMessages     string // integer
	MaxMessageBytes string // integer
	Replicas        string // integer
}

// setting is one key of a rule: where its value is, and how the value gets into a policy.
type setting struct {
	key   string
	value func(*Rule) string
	set   func(*Policy, string) error
}

var settings = []setting{
	{
		key:   "ttl",
		value: func(r *Rule) string { return r.TTL },
		set: func(p *Policy, value string) (err error) {
			p.TTL, err = time.ParseDuration(value)
			return err
		},
	},
	{
		key:   "maxMessages",
		value: func(r *Rule) string { return r.MaxMessages },
		set:   func(p *Policy, value string) error { return setInt(&p.MaxMessages, value) },
	},
	{
		key:   "maxMessageBytes",
		value: func(r *Rule) string { return r.MaxMessageBytes },
		set:   func(p *Policy, value string) error { return setInt(&p.MaxMessageBytes, value) },
	},
	{
		key:   "replicas",
		value: func(r *Rule) string { return r.Replicas },
		set:   func(p *Policy, value string) error { return setInt(&p.Replicas, value) },
	},
}

func setInt(to *int, value string) error {
	n, err := strconv.Atoi(value)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s is too large", value)
	case err != nil:
		return fmt.Errorf("%q isn't an integer", value)
	}
	*to = n
	return nil
}

// Policies finds a channel's policy. It may be used by many goroutines.
type Policies struct {
	fallback Policy
	rules    []compiledRule
}

// compiledRule is a rule of which all is worked out that doesn't depend on the channel's name.
type compiledRule struct {
	pattern *regexp.Regexp
	policy  Policy     // without the captured values
	dynamic []template // the values that name captures
}

// template is a value that is known only with a channel's name.
type template struct {
	setting
	text string
}

// NewPolicies checks the default policy and the rules; its error names the rule and the key that is wrong. The
// first rule that matches a channel holds.
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
	pattern, err := compilePattern(r.Pattern)
	if err != nil {
		return compiledRule{}, fmt.Errorf("pattern: %w", err)
	}
	c := compiledRule{pattern: pattern, policy: fallback}
	for _, s := range settings {
		value := s.value(r)
		captures, err := findCaptures(pattern, value)
		switch {
		case err != nil:
			return compiledRule{}, fmt.Errorf("%s: %w", s.key, err)
		case captures:
			c.dynamic = append(c.dynamic, template{setting: s, text: value})
		case value != "":
			if err := s.set(&c.policy, value); err != nil {
				return compiledRule{}, fmt.Errorf("%s: %w", s.key, err)
			}
		}
	}
	return c, c.policy.check()
}

// compilePattern compiles a pattern for whole names.
func compilePattern(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, errors.New("is empty")
	}
	if _, err := regexp.Compile(pattern); err != nil { // before the group below can mend it, as it does "a)(b"
		return nil, err
	}
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}

// reference is a capture's name in a value, as (*regexp.Regexp).Expand reads it, or a lone $.
var reference = regexp.MustCompile(`\$(?:\{(\w*)\}|(\w+)|)`)

// findCaptures reports whether value names captures. One that the pattern doesn't have is an error.
func findCaptures(pattern *regexp.Regexp, value string) (bool, error) {
	found := reference.FindAllStringSubmatch(value, -1)
	for _, m := range found {
		name := m[1] + m[2]
		n, err := strconv.Atoi(name)
		numbered := err == nil && strconv.Itoa(n) == name && n <= pattern.NumSubexp()
		if !numbered && (name == "" || pattern.SubexpIndex(name) < 0) {
			return false, fmt.Errorf("%q names a capture that the pattern doesn't have", m[0])
		}
	}
	return len(found) > 0, nil
}

// For gives the policy of a channel. Where a capture makes a value that can't be used it returns an *fault.Error with
// fault.SlugInvalidPolicy.
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
				return Policy{}, &fault.Error{
					Kind: fault.Invalid, Slug: fault.SlugInvalidPolicy, Field: "channel",
					Detail: fmt.Sprintf("the channel name %q makes no policy: %v", channel, err),
				}
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
