package records

import (
	"time"

	"github.com/tidemark-dev/tidemark/internal/records/counters"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// Counters keeps counters in Redis. It may be used by many goroutines.
type Counters struct {
	conn *redis.Conn
	now  func() time.Time // a guess at Redis's
}

var (
	_ counters.ViewStore  = (*Counters)(nil)
	_ counters.StatsStore = (*Counters)(nil)
	_ counters.StateStore = (*states)(nil)
)

// NewCounters returns the counters in the Redis of a connection.
func NewCounters(conn *redis.Conn) *Counters { return &Counters{conn: conn, now: time.Now} }

// States returns the states in the same Redis.
func (s *Counters) States() counters.StateStore { return &states{conn: s.conn} }

var counterRefusals = redis.Refusals{
	"RANGE":    counters.ErrRange,
	"MANY":     counters.ErrManyFields,
	"CONFLICT": counters.ErrImport,
	"NONE":     counters.ErrNoState,
}
