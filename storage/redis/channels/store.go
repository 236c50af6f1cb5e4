package channels

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/group"
)

// Store keeps channels in Redis. It may be used by many goroutines.
type Store struct {
	conn        *redis.Conn
	notifyBytes int
	ttls        *ttlCache
	groupCommit *group.Group[terms, message, reply]
	listened    sync.Map               // positionKeys by channel, while it is listened to
	keyChanges  *prometheus.CounterVec // of receipt keys; nil: not counted
}

var _ channel.Store = (*Store)(nil)

// Options configures a Store.
type Options struct {
	// NotifyBytes is the size from which a message isn't part of its notification. Zero: DefaultNotifyBytes.
	NotifyBytes int
	// Metrics registers the store's metrics; nil: none are kept.
	Metrics prometheus.Registerer
}

// DefaultNotifyBytes is the default of Options.NotifyBytes. Servers with waiters fetch larger messages.
const DefaultNotifyBytes = 16 << 10

// New returns the channels in the Redis of a connection. Close it before the connection. The error is that of
// registering metrics.
func New(conn *redis.Conn, o Options) (*Store, error) {
	s := &Store{conn: conn, notifyBytes: o.NotifyBytes, ttls: newTTLCache()}
	if s.notifyBytes == 0 {
		s.notifyBytes = DefaultNotifyBytes
	}
	s.groupCommit = s.newGroupCommit(groupCalls)
	if o.Metrics == nil {
		return s, nil
	}
	s.keyChanges = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidemark_redis_receipt_key_changes_total",
		Help: "Times that the receipt keys in Redis were missing and restored, or others and adopted.",
	}, []string{"change"})
	for _, change := range []string{keysRestored, keysAdopted} {
		s.keyChanges.WithLabelValues(change) // 0, so that alerts see the first one
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tidemark_redis_publishes_waiting",
		Help: "Publishes that wait for the call of their channel in progress, to go together in the next one.",
	}, func() float64 { return float64(s.groupCommit.Waiting()) })
	for _, c := range []prometheus.Collector{s.keyChanges, waiting} {
		if err := o.Metrics.Register(c); err != nil {
			return nil, fmt.Errorf("metrics of channels: %w", err)
		}
	}
	return s, nil
}

// Close ends the publishes of groups in progress.
func (s *Store) Close() { s.groupCommit.Close() }

func (s *Store) keys(channel string) Keys { return KeysOf(s.conn.Prefix(), channel) }
