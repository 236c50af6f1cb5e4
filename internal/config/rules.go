package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
)

// parseRules reads the policies of channels by pattern, from a JSON array, and checks all of them. Its errors
// name the rule and the key, as in `channels[1].ttl: …`.
func parseRules(text string) ([]channel.Rule, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var list []map[string]any
	if err := d.Decode(&list); err != nil {
		return nil, errors.New("channels: isn't a list of rules, such as [{\"pattern\": \"tmp[.].*\", \"ttl\": \"10m\"}]")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("channels: has more than one list")
	}
	rules := make([]channel.Rule, 0, len(list))
	for i, members := range list {
		rule, err := parseRule(members)
		if err != nil {
			return nil, fmt.Errorf("channels[%d].%w", i, err)
		}
		rules = append(rules, rule)
	}
	// What a rule leaves out comes from the default policy, which is in order whatever it is.
	anyPolicy := channel.Policy{TTL: channel.MinTTL, MaxMessageBytes: 1}
	if _, err := channel.NewPolicies(anyPolicy, rules); err != nil {
		return nil, err
	}
	return rules, nil
}

func parseRule(members map[string]any) (channel.Rule, error) {
	var r channel.Rule
	fields := map[string]*string{
		"pattern": &r.Pattern, "ttl": &r.TTL, "maxMessages": &r.MaxMessages, "maxMessageBytes": &r.MaxMessageBytes,
		"replicas": &r.Replicas,
	}
	for key, value := range members {
		field, known := fields[key]
		if !known {
			return channel.Rule{}, fmt.Errorf("%s: unknown key; the keys of a rule are pattern, ttl, maxMessages, maxMessageBytes and replicas", key)
		}
		switch value := value.(type) {
		case string:
			*field = value
		case json.Number:
			*field = value.String()
		default:
			return channel.Rule{}, fmt.Errorf("%s: is neither text nor a number", key)
		}
	}
	if text := r.MaxMessageBytes; text != "" && !strings.Contains(text, "$") {
		n, err := parseBytes(text)
		if err != nil {
			return channel.Rule{}, fmt.Errorf("maxMessageBytes: %w", err)
		}
		r.MaxMessageBytes = strconv.Itoa(n)
	}
	return r, nil
}
