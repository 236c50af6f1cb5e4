package cache

import (
	"context"
	"sync"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

// The scripts of caches.
var (
	claimScript   = lua.Must("records/cache_claim")
	storeScript   = lua.Must("records/cache_store")
	endScript     = lua.Must("records/cache_end")
	indexScript   = lua.Must("records/cache_index")
	unindexScript = lua.Must("records/cache_unindex")
	markScript    = lua.Must("records/cache_mark")
)

// The statuses of the scripts, besides those that all scripts have.
const (
	statusStored redis.Status = "STORED"
	statusAbsent redis.Status = "ABSENT"
	statusBusy   redis.Status = "BUSY"
)

// absent is the value of a claim's key after a loader found nothing.
const absent = "absent"

var refusals = redis.Refusals{"SUPERSEDED": cache.ErrSuperseded, "FULL": cache.ErrIndexFull}

// Store keeps cached values. Its methods may be called by many goroutines.
type Store struct {
	values  *redis.Conn
	indexes *redis.Conn
	reads   *tracked.Client
	changes cache.Announcer // nil: changes aren't announced
	stop    func()

	mu        sync.RWMutex // held while listeners are called
	listeners map[string]map[*cache.Listener]*records.Kind
}

var _ cache.Store = (*Store)(nil)

// New returns the caches in the Redis of values, which is also that of reads. Their indexes are in the Redis of
// indexes, which can be the same. Close ends it, before reads is closed.
func New(values, indexes *redis.Conn, reads *tracked.Client) *Store {
	s := &Store{values: values, indexes: indexes, reads: reads,
		listeners: map[string]map[*cache.Listener]*records.Kind{}}
	s.stop = reads.Listen(tracked.Listener{Changed: s.changed, Lost: s.lost})
	return s
}

// Announce enables announcements of all changes of values. It must be called before any change.
func (s *Store) Announce(a cache.Announcer) { s.changes = a }

// announced runs a change of values, with announcements if they are enabled.
func (s *Store) announced(ctx context.Context, keys []cache.Key, write func(ctx context.Context) error) error {
	if s.changes == nil {
		return write(ctx)
	}
	return s.changes.Announce(ctx, keys, write)
}

// Close ends the listening.
func (s *Store) Close() { s.stop() }

// Listen implements cache.Store.
func (s *Store) Listen(kind *records.Kind, l cache.Listener) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners[kind.Name] == nil {
		s.listeners[kind.Name] = map[*cache.Listener]*records.Kind{}
	}
	s.listeners[kind.Name][&l] = kind
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners[kind.Name], &l)
	}
}

// changed is called with a key that changed in Redis: of a value, of a claim, or another one.
func (s *Store) changed(key string) {
	if parts, ok := records.CacheLoad.Parse(key); ok {
		s.report(parts[1], parts[0])
	} else if kind := records.Of(key); kind != nil {
		if parts, ok := kind.Parse(key); ok && len(parts) == 1 {
			s.report(kind.Name, parts[0])
		}
	}
}

// report notifies the listeners of a kind that a value has changed.
func (s *Store) report(kind, id string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for l := range s.listeners[kind] {
		l.Changed(id)
	}
}

// settle reports that this store has changed values, once its own reads return them. If that wait fails, Redis's
// messages report the change soon after.
func (s *Store) settle(ctx context.Context, keys ...cache.Key) {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = valueKey(key)
	}
	_ = s.reads.Settle(ctx, names...)
	for _, key := range keys {
		s.report(key.Kind.Name, key.ID)
	}
}

func (s *Store) lost() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, listeners := range s.listeners {
		for l := range listeners {
			l.Lost()
		}
	}
}

// Read implements cache.Store.
func (s *Store) Read(ctx context.Context, kind *records.Kind, ids []string) ([]cache.Entry, error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = kind.Key(id)
	}
	found, err := s.reads.GetMany(ctx, keys)
	if err != nil {
		return nil, err
	}
	entries := make([]cache.Entry, len(ids))
	for i := range found {
		entries[i] = entryOf(&found[i])
	}
	return entries, nil
}

func entryOf(e *tracked.Entry) cache.Entry {
	return cache.Entry{Found: e.Found, Bytes: e.Bytes, Until: e.Until, Fresh: e.Fresh}
}

// Watch implements cache.Store.
func (s *Store) Watch(ctx context.Context, key cache.Key) (cache.Watched, error) {
	e, err := s.reads.Get(ctx, loadKey(key))
	if err != nil {
		return cache.Watched{}, err
	}
	return cache.Watched{Entry: entryOf(&e), Absent: string(e.Bytes) == absent}, nil
}
