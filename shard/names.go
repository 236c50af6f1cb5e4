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

// Errors that a client gets from a node.
var (
	// ErrOtherCache is the answer of a node of another cache.
	ErrOtherCache = errors.New("the node serves another cache")
	// ErrUndecodable is the answer to keys that can't be decoded, or whose sharding keys are wrong.
	ErrUndecodable = errors.New("the keys can't be decoded")
	// ErrUnavailable is wrapped by errors that may pass if the call is repeated: the node can't be reached, or is
	// overloaded.
	ErrUnavailable = errors.New("the node can't be reached")
)

// Further errors of nodes, which a client finds.
var (
	// ErrTimeout is wrapped by the error of a node that didn't answer in time.
	ErrTimeout = errors.New("no answer within the time-out")
	// ErrNotMatched is the error of a node that answered that not all keys are in its shard.
	ErrNotMatched = errors.New("the node doesn't have the shard of all keys")
	// ErrBadAnswer is wrapped by the error of a node whose answer contradicts itself or can't be decoded.
	ErrBadAnswer = errors.New("bad answer")
)
