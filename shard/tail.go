// Package tail measures how long slow calls take.

package shard

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	window = 128 // durations that count
	every  = 16  // durations until the percentile is computed again
)

// p95 is the 95th percentile of the last 128 durations, up to date within 16. Its methods may be called by many
// goroutines.
type p95 struct {
	value atomic.Int64

	mu   sync.Mutex
	last [window]time.Duration
	n    int
}

// Add adds a duration.
func (p *p95) Add(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[p.n%window] = d
	p.n++
	if p.n%every != 0 {
		return
	}
	sorted := p.last
	known := sorted[:min(p.n, window)]
	slices.Sort(known)
	p.value.Store(int64(known[len(known)*95/100]))
}

// Get returns the percentile, or the given duration if that is shorter, or there are less than 16 durations.
func (p *p95) Get(most time.Duration) time.Duration {
	if d := time.Duration(p.value.Load()); d > 0 {
		return min(d, most)
	}
	return most
}
