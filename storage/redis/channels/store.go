package channels

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// Store keeps channels in Redis. It may be used by many goroutines.
type Store struct {
	conn        *redis.Conn
	notifyBytes int
	ttls        *ttlCache
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

// New returns the channels in the Redis of a connection. The error is that of registering metrics.
func New(conn *redis.Conn, o Options) (*Store, error) {
	s := &Store{conn: conn, notifyBytes: o.NotifyBytes, ttls: newTTLCache()}
	if s.notifyBytes == 0 {
		s.notifyBytes = DefaultNotifyBytes
	}
	if o.Metrics == nil {
		return s, nil
	}
	s.keyChanges = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidemark_redis_receipt_key_changes_total",
		Help: "Times that the receipt keys in Redis were missing and restored, or others and adopted.",
	}, []string{"change"})
	if err := o.Metrics.Register(s.keyChanges); err != nil {
		return nil, fmt.Errorf("metrics of channels: %w", err)
	}
	return s, nil
}

func (s *Store) keys(channel string) Keys { return KeysOf(s.conn.Prefix(), channel) }
