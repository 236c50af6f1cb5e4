package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/records/followers"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// The values of publish and deliver.
const (
	plain  = "plain"
	copies = "copies"
)

// oneOf returns an error if a value is neither omitted nor the only valid value of its key.
func oneOf(value, key, known string) error {
	if value != "" && value != known {
		return fmt.Errorf("%s: is %.64q, it must be %s", key, value, known)
	}
	return nil
}

// value is a value of a rule as it is written.
type value string

// UnmarshalJSON accepts a string or a number.
func (v *value) UnmarshalJSON(text []byte) error {
	kind := jsontext.Value(text).Kind()
	if kind == jsontext.KindNumber {
		*v = value(text)
		return nil
	}
	if kind != jsontext.KindString {
		return errors.New("must be a string or a number")
	}
	plain, err := jsontext.AppendUnquote(nil, text)
	*v = value(plain)
	return err
}

// setRules parses a JSON array of rules, checks them, and sets their policies and their access rules. The errors name
// the rule and the key, as in `channels[1].ttl: …`.
func (c *Config) setRules(text string) (err error) {
	c.Rules, c.Access.Rules, err = parseRules(text)
	return err
}

func parseRules(text string) ([]channel.Rule, []access.ChannelRule, error) {
	var list []struct {
		Pattern         value    `json:"pattern"`
		TTL             value    `json:"ttl"`
		MaxMessages     value    `json:"maxMessages"`
		MaxMessageBytes value    `json:"maxMessageBytes"`
		Replicas        value    `json:"replicas"`
		MaxSubscribers  value    `json:"maxSubscribers"`
		Readers         []string `json:"readers"`
		Writers         []string `json:"writers"`
		QueryToken      bool     `json:"queryToken"`
		Schema          string   `json:"schema"`
		Publish         string   `json:"publish"`
		Deliver         string   `json:"deliver"`
		LagMetrics      bool     `json:"lagMetrics"`
	}
	var wrong *strictjson.Error
	switch err := strictjson.Unmarshal([]byte(text), &list, strictjson.TextIsPlain); {
	case errors.As(err, &wrong) && wrong.Path != "":
		return nil, nil, fmt.Errorf("channels%w", err)
	case err != nil:
		return nil, nil, fmt.Errorf(
			"channels: not a list of rules, such as [{\"pattern\": \"tmp[.].*\", \"ttl\": \"10m\"}]: %w", err)
	}
	policies, rights := make([]channel.Rule, len(list)), make([]access.ChannelRule, len(list))
	for i, r := range list {
		bytes, err := withoutUnit(string(r.MaxMessageBytes))
		if err != nil {
			return nil, nil, fmt.Errorf("channels[%d].maxMessageBytes: %w", i, err)
		}
		rights[i] = access.ChannelRule{Pattern: string(r.Pattern), Readers: r.Readers, Writers: r.Writers,
			QueryToken: r.QueryToken}
		policies[i] = channel.Rule{
			Pattern: string(r.Pattern), TTL: string(r.TTL), MaxMessages: string(r.MaxMessages), MaxMessageBytes: bytes,
			Replicas:       string(r.Replicas),
			MaxSubscribers: string(r.MaxSubscribers), Plain: r.Publish == plain, Copies: r.Deliver == copies,
			LagMetrics: r.LagMetrics,
		}
		if err := cmp.Or(oneOf(r.Publish, "publish", plain), oneOf(r.Deliver, "deliver", copies)); err != nil {
			return nil, nil, fmt.Errorf("channels[%d].%w", i, err)
		}
		if r.Schema == "" {
			continue
		}
		if policies[i].Schema, err = openSchema(r.Schema); err != nil {
			return nil, nil, fmt.Errorf("channels[%d].schema: %w", i, err)
		}
	}
	// Keys that a rule omits come from the default policy, which is always valid.
	anyPolicy := channel.Policy{TTL: channel.MinTTL, MaxMessageBytes: 1}
	if _, err := channel.NewPolicies(anyPolicy, policies); err != nil {
		return nil, nil, err
	}
	_, err := access.CompileRules(rights)
	return policies, rights, err
}

// withoutUnit returns a number of bytes without its unit. Text that refers to captures stays as it is.
func withoutUnit(text string) (string, error) {
	if text == "" || strings.Contains(text, "$") {
		return text, nil
	}
	n, err := ParseBytes(text)
	return strconv.Itoa(n), err
}

const (
	// leastTicketLife is the shortest life of tickets' channels: that of a ticket of the default queue, and of its
	// assignment after it.
	leastTicketLife = matchmaking.DefaultTicketTTL + matchmaking.DefaultAssignmentTTL
	// leastAssignmentBytes is a size that assignments may have even if other messages must be smaller.
	leastAssignmentBytes = 256 << 10
)

// TicketLife returns how long the channels of tickets live without activity: as long as any queue of the configuration
// needs whose tickets have channels. In a running service it stays as at the start.
func (c Config) TicketLife() time.Duration {
	if c.ticketLife > 0 {
		return c.ticketLife
	}
	life := leastTicketLife
	for _, d := range c.Matchmaking.Queues {
		if d.HasChannels() && d.TicketTTL != matchmaking.Unlimited {
			life = max(life, d.TicketLife())
		}
	}
	return life
}

// Copies reports whether the messages of channels may have to be copied to followers: by a rule, or by one that there
// was when the service started.
func (c Config) Copies() bool {
	return c.copying || slices.ContainsFunc(c.Rules, func(r channel.Rule) bool { return r.Copies })
}

// ChannelRules returns all rules in order: those of the channels of tickets and of changes of caches, those of the
// configuration, and that of the channels of notifications.
func (c Config) ChannelRules() []channel.Rule {
	configured := append(slices.Clone(c.Rules), followers.Rule(c.Records.Notifications))
	if len(c.Shards.Reads.Caches) > 0 {
		configured = append([]channel.Rule{tier.ChannelRule}, configured...)
	}
	if !c.Matchmaking.On {
		return configured
	}
	tickets := channel.Rule{
		Pattern: regexp.QuoteMeta(matchmaking.ChannelPrefix) + ".*", TTL: c.TicketLife().String(),
		MaxMessageBytes: strconv.Itoa(max(c.Channel.MaxMessageBytes, leastAssignmentBytes)),
	}
	return append([]channel.Rule{tickets}, configured...)
}
