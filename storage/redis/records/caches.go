package records

import (
	"context"
	"sync"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

// cacheRefusals holds the errors of the scripts' statuses.
var cacheRefusals = redis.Refusals{"FULL": records.ErrIndexFull}

// Caches keeps cached values. Its methods may be called by many goroutines.
type Caches struct {
	values  *redis.Conn
	indexes *redis.Conn
	reads   *tracked.Client
	kinds   *records.Table
	changes records.Announcer // nil: changes aren't announced
	stop    func()

	mu        sync.RWMutex                  // held while listeners are called
	listeners map[string]map[*listener]bool // by the names of their kinds
}

// listener is called with the ID of each value that changes.
type listener struct{ changed func(id string, own bool) }

var _ records.CacheStore = (*Caches)(nil)

// NewCaches returns the caches of the kinds in a table, which has the form of keys of both connections. Values are in
// the Redis of values, which is also that of reads, and their indexes in that of indexes, which can be the same. Close
// ends it, before reads is closed.
func NewCaches(kinds *records.Table, values, indexes *redis.Conn, reads *tracked.Client) *Caches {
	s := &Caches{kinds: kinds, values: values, indexes: indexes, reads: reads,
		listeners: map[string]map[*listener]bool{}}
	s.stop = reads.Listen(tracked.Listener{Changed: s.changed})
	return s
}

// Announce enables announcements of all changes of values. It must be called before any change.
func (s *Caches) Announce(a records.Announcer) { s.changes = a }

// announced runs a change of values, with announcements if they are enabled.
func (s *Caches) announced(ctx context.Context, keys []records.CacheKey, write func(ctx context.Context) error) error {
	if s.changes == nil {
		return write(ctx)
	}
	return s.changes.Announce(ctx, keys, write)
}

// Close ends the listening.
func (s *Caches) Close() { s.stop() }

// Listen implements records.CacheStore.
func (s *Caches) Listen(kind *records.Kind, changed func(id string, own bool)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &listener{changed}
	if s.listeners[kind.Name] == nil {
		s.listeners[kind.Name] = map[*listener]bool{}
	}
	s.listeners[kind.Name][l] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners[kind.Name], l)
	}
}

// changed is called with a key that was read and has changed in Redis.
func (s *Caches) changed(key string) {
	if kind := s.kinds.Of(key); kind != nil {
		if id, ok := kind.IDOf(key); ok {
			s.report(kind.Name, id, false)
		}
	}
}

// report notifies the listeners of a kind that a value has changed. For own see records.CacheStore's Listen.
func (s *Caches) report(kind, id string, own bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for l := range s.listeners[kind] {
		l.changed(id, own)
	}
}

// settle reports that this store has changed values, once its own reads return them. If that wait fails, Redis's
// messages report the change soon after. For own see records.CacheStore's Listen: all messages about these changes have
// arrived before it is reported.
func (s *Caches) settle(ctx context.Context, own bool, keys ...records.CacheKey) {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = valueKey(key)
	}
	_ = s.reads.Settle(ctx, names...)
	for _, key := range keys {
		s.report(key.Kind.Name, key.ID, own)
	}
}

// Read implements records.CacheStore.
func (s *Caches) Read(ctx context.Context, kind *records.Kind, ids []string) ([]records.Entry, error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = kind.KeyOf(id)
	}
	found, err := s.reads.GetMany(ctx, keys)
	if err != nil {
		return nil, err
	}
	entries := make([]records.Entry, len(ids))
	for i, e := range found {
		entries[i] = records.Entry{Found: e.Found, Bytes: e.Bytes}
	}
	return entries, nil
}
