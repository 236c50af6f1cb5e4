package shard

import "context"

// Request is a call of a node. Its slices must not be changed: one Request goes to several nodes.
type Request struct {
	Cache   string
	Payload []byte // the keys, encoded; empty if there are none
	// their sharding keys, in the order of the keys; none: the shard is asked for only, which is the ping
	Keys []uint64
}

// MaxKeys is how many keys a Request can have. A Client splits longer ones.
const MaxKeys = 10_000

// Response is a node's answer.
type Response struct {
	Payload     []byte   // the values, encoded
	Assigned    bool     // the node answers for a shard now
	Shard       Interval // if Assigned
	Incarnation uint64   // if Assigned: rises with each holder of the shard in its data centre
	// AllMatched reports whether all keys are in the shard. Only then there is a payload, and keys without a value in
	// it have none.
	AllMatched bool
}

// Host is where a node listens.
type Host struct {
	Address string // host:port
	DC      string // data centre; "": not known
}

// String returns the address, after the data centre if that is known.
func (h Host) String() string {
	if h.DC == "" {
		return h.Address
	}
	return h.DC + "=" + h.Address
}

// Transport calls nodes. Its methods may be called by many goroutines.
type Transport interface {
	// Call asks a node. Errors: ErrOtherCache, ErrUndecodable; ErrUnavailable if it may pass; that of ctx.
	Call(ctx context.Context, address string, r *Request) (Response, error)
	// Retain closes connections to all other addresses. Calls on them may fail. A Client calls none of these addresses
	// afterwards until they are retained again.
	Retain(addresses []string)
}

// Handler answers calls: a *Node is one.
type Handler interface {
	// Get answers a request. Errors: ErrOtherCache, ErrUndecodable, and those of what the node reads from.
	Get(ctx context.Context, r *Request) (Response, error)
}

// Hosts is a list of the addresses at which nodes may listen.
type Hosts interface {
	// Hosts returns all hosts, also those that are down. If it returns an error, too, that is logged. A client keeps
	// the hosts that it has if there are none in the result, and uses the first MaxHosts if there are more.
	Hosts(ctx context.Context) ([]Host, error)
}

// MaxHosts is how many hosts a client knows at most.
const MaxHosts = 4096

// StaticHosts is a list of hosts that doesn't change. Package hosts parses lists, and looks up DNS names.
type StaticHosts []Host

// Hosts implements Hosts.
func (s StaticHosts) Hosts(context.Context) ([]Host, error) { return s, nil }
