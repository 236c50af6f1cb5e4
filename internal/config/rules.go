package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

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

// parseRules parses a JSON array of policies for channels, and checks them. Its errors name the rule and the key, as in
// `channels[1].ttl: …`.
func parseRules(text string) ([]channel.Rule, error) {
	var list []struct {
		Pattern         ruleValue `json:"pattern"`
		TTL             ruleValue `json:"ttl"`
		MaxMessages     ruleValue `json:"maxMessages"`
		MaxMessageBytes ruleValue `json:"maxMessageBytes"`
		Replicas        ruleValue `json:"replicas"`
	}
	var wrong *strictjson.Error
	switch err := strictjson.Unmarshal([]byte(text), &list); {
	case errors.As(err, &wrong) && wrong.Path != "":
		return nil, fmt.Errorf("channels%w", err)
	case err != nil:
		return nil, fmt.Errorf("channels: not a list of rules, such as [{\"pattern\": \"tmp[.].*\", \"ttl\": \"10m\"}]: %w", err)
	}
	rules := make([]channel.Rule, len(list))
	for i, r := range list {
		bytes, err := ruleBytes(string(r.MaxMessageBytes))
		if err != nil {
			return nil, fmt.Errorf("channels[%d].maxMessageBytes: %w", i, err)
		}
		rules[i] = channel.Rule{
			Pattern: string(r.Pattern), TTL: string(r.TTL), MaxMessages: string(r.MaxMessages), MaxMessageBytes: bytes, Replicas: string(r.Replicas),
		}
	}
	// What a rule leaves out comes from the default policy, which is valid whatever it is.
	anyPolicy := channel.Policy{TTL: channel.MinTTL, MaxMessageBytes: 1}
	if _, err := channel.NewPolicies(anyPolicy, rules); err != nil {
		return nil, err
	}
	return rules, nil
}

// ruleBytes returns a number of bytes without its unit. Text that refers to captures stays as it is.
func ruleBytes(text string) (string, error) {
	if text == "" || strings.Contains(text, "$") {
		return text, nil
	}
	n, err := parseBytes(text)
	return strconv.Itoa(n), err
}
