// Package recent remembers recent events for operators, in bounded memory.
package recent

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// Max is how many entries an LRU has, at most: the most recent ones.
	Max = 200
	// Gap is the longest pause between two events of an entry: after a longer one it begins again.
	Gap = 10 * time.Minute
)

// LRU remembers events, such as refusals, by a key. Repeated events of a key are one entry, so that one client can't
// displace all others. Its zero value is empty. Any number of goroutines may use it.
type LRU[K comparable, V any] struct {
	mu      sync.Mutex
	entries *simplelru.LRU[K, *Entry[K, V]]
}

// Entry is the events of a key.
type Entry[K comparable, V any] struct {
	Key         K
	Value       V // of the last event
	Since, Last time.Time
	Count       int
}

// Add adds an event.
func (r *LRU[K, V]) Add(key K, value V, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries, _ = simplelru.NewLRU[K, *Entry[K, V]](Max, nil) // fails only for sizes below 1
	}
	e, ok := r.entries.Get(key)
	if !ok || at.Sub(e.Last) > Gap {
		e = &Entry[K, V]{Key: key, Since: at}
		r.entries.Add(key, e)
	}
	e.Value, e.Last, e.Count = value, at, e.Count+1
}

// All returns the entries, the most recent one first.
func (r *LRU[K, V]) All() []Entry[K, V] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		return nil
	}
	var all []Entry[K, V]
	for _, e := range slices.Backward(r.entries.Values()) { // the oldest first
		all = append(all, *e)
	}
	return all
}
