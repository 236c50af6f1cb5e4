// Package queues stores the queues of matchmaking and their tickets in Redis: it implements matchmaking.Store, with one
// Lua script, and one round trip, for each operation. docs/redis/queues.md documents the keys and the scripts.
//
// Start from [New]. A ticket is created by create.go, together with others of its queue, claimed by a director by
// claim.go, and assigned by assign.go, whose script also adds the assignment to the queue's outbox (outbox.go). All
// keys of a queue have its name as their hash tag, so that they are in one slot; while that slot is being moved,
// operations are tried again until the time limit.
//
// Errors are those that matchmaking.Store documents. A [Store] may be used by many goroutines.
//
// Only the program uses it: nothing in it is promised to others.
package queues

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/group"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// Store stores queues and their tickets in Redis. It may be used by many goroutines.
type Store struct {
	conn      *redis.Conn
	replicas  *redis.Replicas // nil: tickets are read from the primary
	values    valueReader
	confirmed *confirmer // nil: claims and assignments count without confirmation
	creations *group.Group[string, *creation, *redis.Decoder]
	// prolongations are acknowledgements of backfills without tickets
	prolongations *group.Group[lives, string, prolonged]
	slowed        func(queue string, by time.Duration)
	removals      removals
}

var _ matchmaking.Store = (*Store)(nil)

// Options configures a Store.
type Options struct {
	// Replicas configures the replicas that Ticket, and readers of many tickets, read first: the options of the Conn
	// for a Cluster or Sentinel, or those of a replica of a standalone server; nil: the primary alone. While no replica
	// can be reached the primary is read.
	Replicas *redis.Options
	// Confirmations is the number of replicas that must have a claim or an assignment before it counts: otherwise a
	// fail-over that loses writes can put a ticket into two matches. Zero: none.
	Confirmations int
	// Slowed is called when a queue pauses the creation of tickets because of many unpublished assignments; optional.
	Slowed func(queue string, by time.Duration)
}

// New returns the queues in the Redis of a connection. Close it before the connection.
func New(conn *redis.Conn, o Options) *Store {
	s := &Store{conn: conn, slowed: o.Slowed}
	if s.slowed == nil {
		s.slowed = func(string, time.Duration) {}
	}
	s.creations, s.prolongations = s.newCreations(), s.newProlongations()
	if o.Confirmations > 0 {
		s.confirmed = newConfirmer(conn, o.Confirmations)
	}
	if o.Replicas != nil {
		replicas := *o.Replicas
		replicas.Logger = conn.Logger()
		s.replicas = redis.NewReplicas(replicas)
	}
	s.values = valueReader{Conn: conn, Replicas: s.replicas}
	return s
}

// Close ends creations in progress, and closes the connections to replicas.
func (s *Store) Close() {
	s.creations.Close()
	s.prolongations.Close()
	if s.confirmed != nil {
		s.confirmed.close()
	}
	if s.replicas != nil {
		s.replicas.Close()
	}
}

func (s *Store) keys(queue string) keys { return keysOf(s.conn.Prefix(), queue) }

// run runs a script, and returns the reply after the status OK.
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

// do runs a script whose reply is only the status OK.
func (s *Store) do(ctx context.Context, script *lua.Script, keys, args []string) error {
	d, err := s.run(ctx, script, keys, args)
	if err != nil {
		return err
	}
	return d.End()
}

// The statuses of the queues' scripts, besides those common to all scripts.
const (
	statusCreated  redis.Status = "CREATED"
	statusExists   redis.Status = "EXISTS"
	statusFull     redis.Status = "FULL"
	statusConflict redis.Status = "CONFLICT"
	statusKept     redis.Status = "KEPT"
	statusLease    redis.Status = "LEASE"
	statusTickets  redis.Status = "TICKETS"
	statusChanged  redis.Status = "CHANGED"
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

	"NO_BACKFILL": matchmaking.ErrNoBackfill,
	"EXPIRED":     matchmaking.ErrBackfillExpired,
}

// maxIDs limits the tickets of one script: a script can pass at most about 8,000 values to a command.
const maxIDs = 3000

// readEntry decodes an entry: its ID and its fields.
func readEntry(d *redis.Decoder) (id string, fields map[string]string) {
	fields = map[string]string{}
	list := d.List()
	id = list.Text()
	list.Each(func(list *redis.Decoder) {
		name := list.Text()
		fields[name] = list.Text()
	})
	d.Fail(list.End())
	return id, fields
}

// timeOfEntry returns the time at which the entry with an ID was added, to the millisecond.
func timeOfEntry(id string) (time.Time, error) {
	text, _, _ := strings.Cut(id, "-")
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("entry %q: %w", id, err)
	}
	return time.UnixMilli(ms).UTC(), nil
}
