package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// ruleValue is a value of a rule as it is written.
type ruleValue string

// UnmarshalJSON accepts a string or a number.
func (v *ruleValue) UnmarshalJSON(text []byte) error {
	kind := jsontext.Value(text).Kind()
	if kind == jsontext.KindNumber {
		*v = ruleValue(text)
		return nil
	}
	if kind != jsontext.KindString {
		return errors.New("must be a string or a number")
	}
	plain, err := jsontext.AppendUnquote(nil, text)
	*v = ruleValue(plain)
	return err
}

// rules are the rules of channels, as the packages know them that apply them.
type rules struct {
	policies []channel.Rule
	access   []access.ChannelRule
}

// parseRules parses a JSON array of rules for channels, and checks them. Its errors name the rule and the key, as in
// `channels[1].ttl: …`.
func parseRules(text string) (rules, error) {
	var list []struct {
		Pattern         ruleValue `json:"pattern"`
		TTL             ruleValue `json:"ttl"`
		MaxMessages     ruleValue `json:"maxMessages"`
		MaxMessageBytes ruleValue `json:"maxMessageBytes"`
		Replicas        ruleValue `json:"replicas"`
		MaxSubscribers  ruleValue `json:"maxSubscribers"`
		Readers         []string  `json:"readers"`
		Writers         []string  `json:"writers"`
		QueryToken      bool      `json:"queryToken"`
	}
	var wrong *strictjson.Error
	switch err := strictjson.Unmarshal([]byte(text), &list, strictjson.TextIsPlain); {
	case errors.As(err, &wrong) && wrong.Path != "":
		return rules{}, fmt.Errorf("channels%w", err)
	case err != nil:
		return rules{}, fmt.Errorf("channels: not a list of rules, such as [{\"pattern\": \"tmp[.].*\", \"ttl\": \"10m\"}]: %w", err)
	}
	parsed := rules{policies: make([]channel.Rule, len(list)), access: make([]access.ChannelRule, len(list))}
	for i, r := range list {
		bytes, err := ruleBytes(string(r.MaxMessageBytes))
		if err != nil {
			return rules{}, fmt.Errorf("channels[%d].maxMessageBytes: %w", i, err)
		}
		parsed.policies[i] = channel.Rule{
			Pattern: string(r.Pattern), TTL: string(r.TTL), MaxMessages: string(r.MaxMessages), MaxMessageBytes: bytes, Replicas: string(r.Replicas),
			MaxSubscribers: string(r.MaxSubscribers),
		}
		parsed.access[i] = access.ChannelRule{Pattern: string(r.Pattern), Readers: r.Readers, Writers: r.Writers, QueryToken: r.QueryToken}
	}
	// What a rule leaves out comes from the default policy, which is valid whatever it is.
	anyPolicy := channel.Policy{TTL: channel.MinTTL, MaxMessageBytes: 1}
	if _, err := channel.NewPolicies(anyPolicy, parsed.policies); err != nil {
		return rules{}, err
	}
	return parsed, access.CheckRules(parsed.access)
}

// ruleBytes returns a number of bytes without its unit. Text that refers to captures stays as it is.
func ruleBytes(text string) (string, error) {
	if text == "" || strings.Contains(text, "$") {
		return text, nil
	}
	n, err := parseBytes(text)
	return strconv.Itoa(n), err
}
