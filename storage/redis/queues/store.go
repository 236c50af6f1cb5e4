// Package queues keeps the queues of matchmaking and their tickets in Redis: it implements matchmaking.Store, with one
// Lua script, and one round trip, for each operation. docs/redis-internals.md documents the keys and the scripts.
//
// Start from [New]. A ticket is created by create.go, together with others of its queue, claimed by a director by
// claim.go, and assigned by assign.go, whose script also adds the assignment to the queue's outbox (outbox.go). All
// keys of a queue have its name as their hash tag, so that they are in one slot; while that slot is being moved,
// operations are tried again until the time limit.
//
// Errors are those that matchmaking.Store documents. A [Store] may be used by many goroutines.
package queues

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/group"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// Store keeps queues and their tickets in Redis. It may be used by many goroutines.
type Store struct {
	conn      *redis.Conn
	replicas  *redis.Replicas // nil: tickets are read from the primary
	values    valueReader
	confirmed *confirmer // nil: claims and assignments count at once
	creations *group.Group[*creation, *redis.Decoder]
	slowed    func(queue string, by time.Duration)
	rides     removals
}

var _ matchmaking.Store = (*Store)(nil)

// Options configures a Store.
type Options struct {
	// Replicas leads to what Ticket, and readers of many tickets, read first: the options of the Conn if it is a
	// Cluster or behind Sentinel, or those of a replica of a standalone server; nil: the primary alone. While no
	// replica can be reached the primary is read.
	Replicas *redis.Options
	// Confirmations is how many replicas must have a claim or an assignment before it counts: otherwise a fail-over
	// that loses writes can put a ticket into two matches. Zero: none.
	Confirmations int
	// Slowed is called when a queue begins to take no tickets for some time, because many of its assignments are on
	// their way to their players; nil: it isn't.
	Slowed func(queue string, by time.Duration)
}

// New returns the queues in the Redis of a connection. Close it before the connection.
func New(conn *redis.Conn, o Options) *Store {
	s := &Store{conn: conn, slowed: o.Slowed}
	if s.slowed == nil {
		s.slowed = func(string, time.Duration) {}
	}
	s.creations = s.newCreations()
	if o.Confirmations > 0 {
		s.confirmed = s.newConfirmer(o.Confirmations)
	}
	if o.Replicas != nil {
		replicas := *o.Replicas
		replicas.Logger = conn.Logger()
		s.replicas = redis.NewReplicas(replicas)
	}
	s.values = valueReader{Conn: conn, Replicas: s.replicas}
	return s
}

// Close ends what is being created, and closes the connections to replicas.
func (s *Store) Close() {
	s.creations.Close()
	if s.confirmed != nil {
		s.confirmed.Close()
	}
	if s.replicas != nil {
		s.replicas.Close()
	}
}

func (s *Store) keys(queue string) keys { return keysOf(s.conn.Prefix(), queue) }

// run runs a script, and returns what follows the status OK.
func (s *Store) run(ctx context.Context, script *lua.Script, keys, args []string) (*redis.Decoder, error) {
	rep, err := s.conn.Run(ctx, script, keys, args)
	if err != nil {
		return nil, err
	}
	if rep.Status != redis.OK {
		return nil, refusals.Error(rep)
	}
	return rep.Decoder(), nil
}

// do runs a script that returns nothing but the status OK.
func (s *Store) do(ctx context.Context, script *lua.Script, keys, args []string) error {
	d, err := s.run(ctx, script, keys, args)
	if err != nil {
		return err
	}
	return d.End()
}

// The statuses of the scripts of queues, besides those that all scripts have.
const (
	statusCreated  redis.Status = "CREATED"
	statusExists   redis.Status = "EXISTS"
	statusFull     redis.Status = "FULL"
	statusConflict redis.Status = "CONFLICT"
	statusKept     redis.Status = "KEPT"
	statusLease    redis.Status = "LEASE"
)

var refusals = redis.Refusals{
	statusFull:  matchmaking.ErrQueueFull,
	"NO_TICKET": matchmaking.ErrNoTicket,
	"VACANT":    matchmaking.ErrNoTicket,
	"MATCHED":   matchmaking.ErrTicketMatched,
	statusLease: lease.ErrLost,
	"LOST":      matchmaking.ErrChangesLost,
	"IDLE":      matchmaking.ErrQueueIdle,
	"UNDONE":    errUndone,
}

// maxIDs limits the tickets of one script: a script can pass at most about 8,000 values to a command.
const maxIDs = 3000
