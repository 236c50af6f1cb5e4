package access

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// The bounds of what is remembered for operators.
const (
	// MaxRecent is how many entries a Recent has, at most: the most recent ones.
	MaxRecent = 200
	// RecentGap is the longest pause between two events of an entry: after a longer one it begins again.
	RecentGap = 10 * time.Minute
)

// Recent remembers recent events, such as refusals, by a key. Repeated events of a key are one entry, so that one
// client can't displace all others. Its zero value is empty. Any number of goroutines may use it.
type Recent[K comparable, V any] struct {
	mu      sync.Mutex
	entries *simplelru.LRU[K, *RecentEntry[K, V]]
}

// RecentEntry is the events of a key.
type RecentEntry[K comparable, V any] struct {
	Key         K
	Value       V // of the last event
	Since, Last time.Time
	Count       int
}

// Add adds an event.
func (r *Recent[K, V]) Add(key K, value V, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries, _ = simplelru.NewLRU[K, *RecentEntry[K, V]](MaxRecent, nil) // fails only for sizes below 1
	}
	e, ok := r.entries.Get(key)
	if !ok || at.Sub(e.Last) > RecentGap {
		e = &RecentEntry[K, V]{Key: key, Since: at}
		r.entries.Add(key, e)
	}
	e.Value, e.Last, e.Count = value, at, e.Count+1
}

// All returns the entries, the most recent one first.
func (r *Recent[K, V]) All() []RecentEntry[K, V] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		return nil
	}
	var all []RecentEntry[K, V]
	for _, e := range slices.Backward(r.entries.Values()) { // the oldest first
		all = append(all, *e)
	}
	return all
}
