// Package patterns reads rules for channels: a pattern matches whole names, and values may refer to its captures.
package patterns

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// Compile compiles a pattern that matches whole names.
func Compile(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, errors.New("is empty")
	}
	if _, err := regexp.Compile(pattern); err != nil { // because the group below would make "a)(b" valid
		return nil, err
	}
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
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
