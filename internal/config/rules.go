// Package rules reads the rules of channels that a configuration has.

package config

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// The values of publish and deliver.
const (
	plain  = "plain"
	copies = "copies"
)

// oneOf returns an error if a value is neither left out nor the one that its key can have.
func oneOf(value, key, known string) error {
	if value != "" && value != known {
		return fmt.Errorf("%s: is %.64q, it must be %s", key, value, known)
	}
	return nil
}

// builtIn returns the rules that follow those of the configuration: the channels of notifications have the form of the
// notifications of a community site.
func builtIn() []channel.Rule {
	return []channel.Rule{{Pattern: "notifications:.+", Schema: notification()}}
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

// ChannelRules are the rules of channels, as the packages know them that apply them.
type ChannelRules struct {
	Policies []channel.Rule
	Access   []access.ChannelRule
}

// parseRules parses a JSON array of rules, and checks them. parseBytes parses a number of bytes. The errors name the
// rule and the key, as in `channels[1].ttl: …`.
func parseRules(text string, parseBytes func(string) (int, error)) (ChannelRules, error) {
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
	}
	var wrong *strictjson.Error
	switch err := strictjson.Unmarshal([]byte(text), &list, strictjson.TextIsPlain); {
	case errors.As(err, &wrong) && wrong.Path != "":
		return ChannelRules{}, fmt.Errorf("channels%w", err)
	case err != nil:
		return ChannelRules{},
			fmt.Errorf("channels: not a list of rules, such as [{\"pattern\": \"tmp[.].*\", \"ttl\": \"10m\"}]: %w",
				err)
	}
	parsed := ChannelRules{Policies: make([]channel.Rule, len(list)), Access: make([]access.ChannelRule, len(list))}
	for i, r := range list {
		bytes, err := withoutUnit(string(r.MaxMessageBytes), parseBytes)
		if err != nil {
			return ChannelRules{}, fmt.Errorf("channels[%d].maxMessageBytes: %w", i, err)
		}
		parsed.Access[i] = access.ChannelRule{Pattern: string(r.Pattern), Readers: r.Readers, Writers: r.Writers,
			QueryToken: r.QueryToken}
		parsed.Policies[i] = channel.Rule{
			Pattern: string(r.Pattern), TTL: string(r.TTL), MaxMessages: string(r.MaxMessages), MaxMessageBytes: bytes,
			Replicas:       string(r.Replicas),
			MaxSubscribers: string(r.MaxSubscribers), Plain: r.Publish == plain, Copies: r.Deliver == copies,
		}
		if err := cmp.Or(oneOf(r.Publish, "publish", plain), oneOf(r.Deliver, "deliver", copies)); err != nil {
			return ChannelRules{}, fmt.Errorf("channels[%d].%w", i, err)
		}
		if r.Schema == "" {
			continue
		}
		if parsed.Policies[i].Schema, err = open(r.Schema); err != nil {
			return ChannelRules{}, fmt.Errorf("channels[%d].schema: %w", i, err)
		}
	}
	// What a rule leaves out comes from the default policy, which is valid whatever it is.
	anyPolicy := channel.Policy{TTL: channel.MinTTL, MaxMessageBytes: 1}
	if _, err := channel.NewPolicies(anyPolicy, parsed.Policies); err != nil {
		return ChannelRules{}, err
	}
	return parsed, access.CheckRules(parsed.Access)
}

// withoutUnit returns a number of bytes without its unit. Text that refers to captures stays as it is.
func withoutUnit(text string, parseBytes func(string) (int, error)) (string, error) {
	if text == "" || strings.Contains(text, "$") {
		return text, nil
	}
	n, err := parseBytes(text)
	return strconv.Itoa(n), err
}
