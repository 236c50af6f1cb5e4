package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
)

// complete reads the flags that are pairs or JSON into the ticket, and checks the others.
func (f *ticketFlags) complete() error {
	t := &f.ticket
	switch {
	case f.wait < 0:
		return cli.Usagef("--wait: %s is negative", f.wait)
	case f.keep && !f.waits:
		return cli.Usagef("--keep needs --wait: nothing else cancels a ticket")
	case t.TTL < 0:
		return cli.Usagef("--ttl: %s is negative", t.TTL)
	}
	doubles, err := pairs(f.doubles, parseNumber)
	if err != nil {
		return cli.Usagef("--double: %w", err)
	}
	if t.SearchFields.StringArgs,
		err = pairs(f.texts, func(text string) (string, error) { return text, nil }); err != nil {
		return cli.Usagef("--string: %w", err)
	}
	t.SearchFields.DoubleArgs = doubles
	for _, text := range f.criteria {
		c, err := parseCriterion(text)
		if err != nil {
			return cli.Usagef("--criterion: %w", err)
		}
		t.Criteria = append(t.Criteria, c)
	}
	for _, text := range f.statistics {
		name, value, err := parsePair(text, parseFinite)
		if err != nil {
			return cli.Usagef("--statistic: %w", err)
		}
		t.Statistics = append(t.Statistics, client.Statistic{Name: name, Value: value})
	}
	t.Extensions, err = readExtensions(f.extensions)
	return err
}

// readExtensions parses the flag --extensions.
func readExtensions(text string) (extensions map[string]json.RawMessage, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &extensions); err != nil || extensions == nil {
		return nil, cli.Usagef("--extensions: %q isn't a JSON object", text)
	}
	return extensions, nil
}

// pairs parses texts like NAME=VALUE. A name may be there once.
func pairs[T any](texts []string, parse func(string) (T, error)) (map[string]T, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	all := make(map[string]T, len(texts))
	for _, text := range texts {
		name, value, err := parsePair(text, parse)
		if err != nil {
			return nil, err
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("duplicate name %q", name)
		}
		all[name] = value
	}
	return all, nil
}

func parsePair[T any](text string, parse func(string) (T, error)) (name string, value T, err error) {
	name, rest, found := strings.Cut(text, "=")
	if !found || name == "" {
		return "", value, fmt.Errorf("%q isn't like NAME=VALUE", text)
	}
	if value, err = parse(rest); err != nil {
		return "", value, fmt.Errorf("%s: %w", name, err)
	}
	return name, value, nil
}

// parseCriterion parses text like skill=1000..1500.
func parseCriterion(text string) (client.Criterion, error) {
	name, ends, err := parsePair(text, func(text string) (ends [2]float64, err error) {
		least, highest, found := strings.Cut(text, "..")
		if !found {
			return ends, fmt.Errorf("%q isn't like MIN..MAX", text)
		}
		if ends[0], err = parseFinite(least); err != nil {
			return ends, err
		}
		ends[1], err = parseFinite(highest)
		return ends, err
	})
	return client.Criterion{Name: name, MinValue: ends[0], MaxValue: ends[1]}, err
}

func parseNumber(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%q isn't a number", text)
	}
	return n, nil
}

func parseFinite(text string) (float64, error) {
	n, err := parseNumber(text)
	if err == nil && (math.IsNaN(n) || math.IsInf(n, 0)) {
		err = errors.New(text + " isn't finite")
	}
	return n, err
}
