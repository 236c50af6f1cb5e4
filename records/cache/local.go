package cache

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// shards is the number of locks that the values of a cache are divided among.
const shards = 16

// overhead is the approximate memory of a kept value, besides its encoded bytes.
const overhead = 256

// local holds decoded values up to a number of bytes. It evicts the least recently used ones.
type local[T any] struct {
	seed   maphash.Seed
	most   int64
	bytes  atomic.Int64
	shards [shards]shard[T]
}

type shard[T any] struct {
	mu   sync.Mutex
	kept *simplelru.LRU[string, *kept[T]]
	_    [64]byte // keeps the locks of two shards out of one cache line
}

// kept is a decoded value, or the fact that there is none.
type kept[T any] struct {
	value  T
	absent bool
	bytes  int64
	until  time.Time
	early  time.Time // when it is loaded again, before it ends; zero: never; changes under the lock of its shard
}

func newLocal[T any](most int) *local[T] {
	l := &local[T]{seed: maphash.MakeSeed(), most: int64(most)}
	for i := range l.shards {
		// fails only for size 0
		l.shards[i].kept, _ = simplelru.NewLRU(math.MaxInt, func(_ string, k *kept[T]) { l.bytes.Add(-k.bytes) })
	}
	return l
}

func (l *local[T]) shard(id string) *shard[T] { return &l.shards[maphash.String(l.seed, id)%shards] }

// get returns the value kept for an ID, and whether the caller has to load it again early.
func (l *local[T]) get(id string) (k *kept[T], early bool) {
	s := l.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.kept.Get(id)
	if !ok {
		return nil, false
	}
	now := time.Now()
	if !now.Before(k.until) {
		s.kept.Remove(id)
		return nil, false
	}
	if early = !k.early.IsZero() && now.After(k.early); early {
		k.early = now.Add(earlyPause)
	}
	return k, early
}

// keep keeps a value, unless it has changed since it was read.
func (l *local[T]) keep(id string, k *kept[T], fresh func() bool) {
	k.bytes += int64(len(id)) + overhead
	s := l.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !fresh() {
		return
	}
	s.kept.Remove(id)
	s.kept.Add(id, k)
	l.bytes.Add(k.bytes)
	for l.bytes.Load() > l.most && s.kept.Len() > 0 {
		s.kept.RemoveOldest()
	}
}

func (l *local[T]) drop(id string) {
	s := l.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Remove(id)
}

func (l *local[T]) dropAll() {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		s.kept.Purge()
		s.mu.Unlock()
	}
}
