package records

import (
	"time"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// Counters keeps counters in Redis. It may be used by many goroutines.
type Counters struct {
	conn *redis.Conn
	now  func() time.Time // a guess at Redis's
}

var (
	_ records.ViewStore  = (*Counters)(nil)
	_ records.StatsStore = (*Counters)(nil)
	_ records.StateStore = (*states)(nil)
)

// NewCounters returns the counters in the Redis of a connection.
func NewCounters(conn *redis.Conn) *Counters { return &Counters{conn: conn, now: time.Now} }

// States returns the states in the same Redis.
func (s *Counters) States() records.StateStore { return &states{conn: s.conn} }

var counterRefusals = redis.Refusals{
	"RANGE":    records.ErrCounterRange,
	"MANY":     records.ErrManyFields,
	"CONFLICT": records.ErrImportConflict,
	"NONE":     records.ErrNoState,
}
