package shard

import "errors"

// Errors that a client gets from a node.
var (
	// ErrOtherCache is the answer of a node of another cache.
	ErrOtherCache = errors.New("the node serves another cache")
	// ErrUndecodable is the answer to keys that can't be decoded, or have wrong sharding keys.
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

// mayPass reports whether a call that failed may succeed if it is repeated: the host didn't answer.
func mayPass(err error) bool { return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrTimeout) }

// answered reports whether an error comes from an answer, which can update the map.
func answered(err error) bool {
	return errors.Is(err, ErrNotMatched) || errors.Is(err, ErrBadAnswer) || errors.Is(err, ErrOtherCache)
}
