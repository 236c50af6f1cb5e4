// Package counters keeps views, states of processes, and statistics in Redis. docs/records.md has the keys and the scripts.
package counters

import (
	"time"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/counters"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// Store keeps counters in Redis. It may be used by many goroutines.
type Store struct {
	conn *redis.Conn
	now  func() time.Time // a guess at Redis's
}

var (
	_ counters.ViewStore  = (*Store)(nil)
	_ counters.StatsStore = (*Store)(nil)
	_ counters.StateStore = (*states)(nil)
)

// New returns the counters in the Redis of a connection.
func New(conn *redis.Conn) *Store { return &Store{conn: conn, now: time.Now} }

// States returns the states in the same Redis.
func (s *Store) States() counters.StateStore { return &states{conn: s.conn} }

var refusals = redis.Refusals{
	"RANGE":    counters.ErrRange,
	"MANY":     counters.ErrManyFields,
	"CONFLICT": counters.ErrImport,
	"NONE":     counters.ErrNoState,
}

// key returns a key of a kind in a Redis.
func key(conn *redis.Conn, k *records.Kind, parts ...string) string {
	return conn.Prefix() + k.Key(parts...)
}
