// Package refusal is the table of the errors with which Redis refuses calls: for each whether the same call may succeed
// a little later, what clients are told, and what an operator can change. [Of] finds the row of an error, [Is] compares
// its code, and an [Adviser] explains it, as well as errors of TLS and of the network.
package refusal

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/fault"
)

// Cause is why a call has failed. The zero value, besides Code, is that of an error that isn't expected.
type Cause struct {
	Code      string       // first word of the reply, unless the table has a better one
	Transient bool         // the same call may succeed a little later
	ReadOnly  bool         // the server refuses all writes, and serves reads
	Replica   bool         // the server is a replica
	NoCommand bool         // the server lacks a command, or has renamed it
	Fault     *fault.Error // what clients are told; nil: an internal error

	texts  []string // beginnings of replies that have no code, in lower case
	parts  []string // of such replies, in lower case, for those that begin with a script's name
	advice string   // what to change, with placeholders: see Adviser
}

// Codes that the program compares with.
const (
	Ask          = "ASK"
	MaxClients   = "MAXCLIENTS"
	Moved        = "MOVED"
	NoPermission = "NOPERM"
	NoScript     = "NOSCRIPT"
	OutOfMemory  = "OOM"
	ReadOnly     = "READONLY"
	TryAgain     = "TRYAGAIN" // several keys of a slot that is being moved; calls with one key each work
	WrongType    = "WRONGTYPE"
)

// RetryAfter is the time after which clients should try again: about as long as a fail-over takes.
const RetryAfter = time.Second

// Faults of causes.
var (
	// Unavailable is that of a call that may succeed later.
	Unavailable = &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugUnavailable, RetryAfter: RetryAfter,
		Detail: fault.ErrUnavailable.Detail}
	// Refused is that of a call that fails until somebody changes the configuration of Redis or of the service. Clients
	// are told no more: the log has the cause and the advice.
	Refused = &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugUnavailable, RetryAfter: 10 * time.Second,
		Detail: "the storage refuses what the service asks of it; trying again helps only after its operator has changed " +
			"its configuration or that of the service, whose log says what to change"}
)

const adviceReplica = "this Redis is a replica, which refuses writes: set --{option} to its primary, or promote it"

// table has the causes that are expected. Codes that aren't here are of calls that are wrong. A row without a code is
// found by its texts alone.
var table = []Cause{
	// Slots and nodes that change.
	{Code: Moved, Transient: true, Fault: Unavailable},
	{Code: Ask, Transient: true, Fault: Unavailable},
	{Code: TryAgain, Transient: true, Fault: Unavailable},
	{Code: "CLUSTERDOWN", Transient: true, Fault: Unavailable,
		advice: "not all slots of the Cluster have a primary that works: see redis-cli --cluster check"},
	{Code: ReadOnly, Transient: true, ReadOnly: true, Replica: true, Fault: Unavailable, advice: adviceReplica,
		texts: []string{"wait cannot be used with replica"}},
	// without its primary a replica refuses reads, too
	{Code: "MASTERDOWN", Transient: true, Replica: true, Fault: Unavailable, advice: adviceReplica},
	{Code: "UNBLOCKED", Transient: true, Fault: Unavailable}, // by a server that has become a replica
	{Code: "NOREPLICAS", Transient: true, ReadOnly: true, Fault: Unavailable,
		advice: "fewer replicas are connected than Redis's min-replicas-to-write: see why, or change that setting of Redis"},

	// States of a server.
	{Code: "LOADING", Transient: true, Fault: Unavailable,
		advice: "Redis is reading its data from disk: if it takes longer, raise --redis-connect-timeout"},
	{Code: "BUSY", Transient: true, Fault: Unavailable},
	{Code: MaxClients, Transient: true, Fault: Unavailable, texts: []string{"max number of clients"},
		advice: "Redis has as many clients as its maxclients allows: raise it"},
	{Code: "MISCONF", ReadOnly: true, Fault: Unavailable,
		advice: "Redis can't write to its disk and refuses all writes: see its log, and free disk space or repair its directory"},
	{Code: OutOfMemory, ReadOnly: true, Fault: fault.ErrStorageFull,
		advice: "Redis has reached its maxmemory: raise it, or store less with shorter TTLs or --channel-max-messages; " +
			"acknowledgements still work"},

	// Configuration of Redis, or of the service.
	{Code: "NOAUTH", Fault: Refused, advice: "Redis requires a password: set {credentials}"},
	{Code: "WRONGPASS", Fault: Refused,
		advice: `Redis has no enabled user "{user}" with this password: check {credentials}`},
	{Code: NoPermission, Fault: Refused, // its advice depends on the right: Adviser.ofPermission
		texts: []string{"the user executing the script can't", "acl failure in script:"}}, // in Redis 7.0
	{Code: "DENIED", Fault: Refused, advice: "Redis accepts connections from its own machine only: give it a password " +
		"and set {credentials}, or set its protected-mode to no"},
	{NoCommand: true, Fault: Refused, texts: []string{"unknown command 'sentinel"},
		advice: "with --redis-sentinel-master, --{option} has the addresses of Sentinels, and this is no Sentinel"},
	{NoCommand: true, Fault: Refused, texts: []string{"unknown command", "unknown redis command called from script"},
		advice: "Redis lacks a command, or has renamed it: remove rename-command from its configuration, or use Redis 7.0 " +
			"or newer; tidemark doctor names all commands that it lacks"},
	{Fault: Refused,
		parts: []string{"undeclared key", "passed using the keys array", "dynamic keys are not allowed"}, // of Dragonfly, Tair, Upstash
		advice: "this server lets a script use only the keys that its call declares, but each message has a key of its own: " +
			"allow them (Dragonfly: --default_lua_flags=allow-undeclared-keys; Tair: script_check_enable 0), or use " +
			"another Redis"},
	{texts: []string{"this instance has cluster support disabled"},
		advice: "a list of addresses is for a Cluster or Sentinels: set --{option} to the address of this server, " +
			"or --redis-sentinel-master"},
	{texts: []string{"select is not allowed in cluster mode"},
		advice: "a Cluster has only database 0: remove the number from the URL of --{option}"},
	{texts: []string{"db index is out of range"},
		advice: "Redis has fewer databases: change the number in the URL of --{option}"},
	{texts: []string{"no such master"},
		advice: `set --redis-sentinel-master to the name that the Sentinels' configuration has, not "{sentinel}"`},

	{Code: "DAMAGED", Fault: fault.ErrDamaged}, // of our scripts
}

// Of returns the cause of an error reply of Redis. ok is false if err isn't one.
func Of(err error) (c Cause, ok bool) {
	var reply *rueidis.RedisError
	if !errors.As(err, &reply) {
		return Cause{}, false
	}
	return ofText(reply.Error()), true
}

// ofText returns the cause for the text of an error reply, from which the client cuts the code ERR.
func ofText(text string) Cause {
	code, _, _ := strings.Cut(text, " ")
	lower := strings.ToLower(text)
	for _, c := range table {
		if slices.ContainsFunc(c.texts, func(begin string) bool { return strings.HasPrefix(lower, begin) }) ||
			slices.ContainsFunc(c.parts, func(part string) bool { return strings.Contains(lower, part) }) {
			c.Code = cmp.Or(c.Code, code)
			return c
		}
	}
	for _, c := range table {
		if code != "" && c.Code == code {
			return c
		}
	}
	return Cause{Code: code}
}

// Is reports whether err is an error reply of Redis with one of some codes.
func Is(err error, codes ...string) bool {
	c, ok := Of(err)
	return ok && slices.Contains(codes, c.Code)
}
