package shard

import (
	"errors"
	"fmt"
	"regexp"
)

// NamePattern is the regular expression that names of caches, data centres and hosts match.
const NamePattern = `^[0-9A-Za-z][0-9A-Za-z_.-]{0,63}$`

var namePattern = regexp.MustCompile(NamePattern)

// CheckName returns an error that wraps ErrName unless a name matches NamePattern. what says what it names.
func CheckName(what, name string) error {
	if namePattern.MatchString(name) {
		return nil
	}
	return fmt.Errorf("%w: %s %q must match %s", ErrName, what, name, NamePattern)
}

// ErrName is wrapped by the errors of names that don't match NamePattern.
var ErrName = errors.New("invalid name")
