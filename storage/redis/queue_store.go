package redis

import (
	"strconv"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Queues keeps queues and their tickets in the Redis of a [Store], whose connections, time limit, retries and metrics
// it shares. It may be used by many goroutines.
type Queues struct {
	store    *Store
	replicas *Replicas // nil: tickets are read from the primary
	// confirmations is how many replicas must have a claim, and an assignment, before it counts.
	confirmations int

	mu    sync.Mutex
	feeds map[string]feed // how far the changes of each queue were read
}

var _ matchmaking.Store = (*Queues)(nil)

// QueueOptions says how queues are kept.
type QueueOptions struct {
	// Replicas is where Ticket reads first: the Store's own Options where it is a Cluster or behind Sentinel, those of
	// a replica of a standalone server; nil: at the primary alone. Replicas that can't be reached are done without.
	Replicas *Options
	// Confirmations is how many replicas must have a claim or an assignment before it counts: otherwise a fail-over that
	// loses writes can put a ticket into two matches. Zero: none.
	Confirmations int
}

// Queues gives the queues on the store's Redis. Close ends what they begin, and must come before the store's Close.
func (s *Store) Queues(o QueueOptions) *Queues {
	q := &Queues{store: s, confirmations: o.Confirmations, feeds: map[string]feed{}}
	if o.Replicas != nil {
		replicas := *o.Replicas
		replicas.Logger = s.Logger()
		q.replicas = NewReplicas(replicas)
	}
	return q
}

// Close ends the connections to replicas.
func (q *Queues) Close() {
	if q.replicas != nil {
		q.replicas.Close()
	}
}

func (q *Queues) keys(queue string) queueKeys { return q.store.keys.queue(queue) }

// maxIDs bounds the tickets of one script: a script passes at most about 8,000 values to a command.
const maxIDs = 3000

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
