// Package patterns reads rules for channels: a pattern is a regular expression that matches whole names, and values may
// refer to its captures. It also has the patterns of host names. Those of grants are in package access; docs/security.md
// compares all.
package patterns

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// Compile compiles a pattern that matches whole names. It refuses what is written for another language of patterns.
// inNames reports whether names can contain a character.
func Compile(pattern string, inNames func(rune) bool) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, errors.New("is empty")
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl) // because the group below would make "a)(b" valid
	var wrong *syntax.Error
	switch {
	case errors.As(err, &wrong) && (wrong.Code == syntax.ErrMissingRepeatArgument ||
		wrong.Code == syntax.ErrInvalidRepeatOp):
		return nil, fmt.Errorf("%w. A rule has a regular expression, in which .* stands for any text", err)
	case err != nil:
		return nil, err
	}
	if err := checkForeign(parsed, inNames); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}

// checkForeign returns an error if an expression repeats one character, as one that should have been a pattern with a
// star does, or contains a character that no name has.
func checkForeign(e *syntax.Regexp, inNames func(rune) bool) error {
	if e.Op == syntax.OpStar && e.Sub[0].Op == syntax.OpLiteral && len(e.Sub[0].Rune) == 1 {
		char := string(e.Sub[0].Rune)
		written := regexp.QuoteMeta(char)
		return fmt.Errorf("%s* would be any number of %q, since a rule has a regular expression. "+
			"For any text write %[1]s.*, or %[1]s{0,} if that is meant", written, char)
	}
	if e.Op == syntax.OpLiteral {
		for _, r := range e.Rune {
			if !inNames(r) {
				return errForeign(r)
			}
		}
	}
	for _, sub := range e.Sub {
		if err := checkForeign(sub, inNames); err != nil {
			return err
		}
	}
	return nil
}

func errForeign(r rune) error {
	if r == '{' || r == '}' {
		return errors.New("no name has a brace. {sub} and {name} are for grants: in a rule (?P<user>[^.]+) captures " +
			"a part of the name, and its values refer to that by ${user}")
	}
	return fmt.Errorf("no name has %q: leave it out", r)
}

// MatchesHost reports whether a pattern has the name of a host, in lower case. *.example.com has all names below
// example.com, at any depth.
func MatchesHost(pattern, host string) bool {
	if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
		return len(host) > len(suffix) && host[0] != '.' && strings.HasSuffix(host, suffix)
	}
	return pattern == host
}

// reference matches a reference to a capture, as (*regexp.Regexp).Expand does, or a lone $.
var reference = regexp.MustCompile(`\$(?:\{(\w*)\}|(\w+)|)`)

// Cut returns the text before the first reference to a capture, the capture's name, and the text after the reference.
// If there is none, before is the whole value and found is false.
func Cut(value string) (before, name, after string, found bool) {
	m := reference.FindStringSubmatchIndex(value)
	if m == nil {
		return value, "", "", false
	}
	for _, group := range []int{2, 4} {
		if m[group] >= 0 {
			name = value[m[group]:m[group+1]]
		}
	}
	return value[:m[0]], name, value[m[1]:], true
}

// In reports whether value refers to captures. The error names a capture that the pattern doesn't have.
func In(pattern *regexp.Regexp, value string) (bool, error) {
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

// Int parses the integer of a value.
func Int(value string) (int, error) {
	n, err := strconv.Atoi(value)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is too large", value)
	case err != nil:
		return 0, fmt.Errorf("%q isn't an integer", value)
	}
	return n, nil
}
