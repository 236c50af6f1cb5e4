package shard

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// firstHosts returns how many hosts of a part are asked at once, and moves those to the front of p.hosts: the local
// ones, unless there is none or the last call of one failed.
func (f *flight) firstHosts(p *part) int {
	if !slices.ContainsFunc(p.hosts, f.all.isLocal) {
		return len(p.hosts)
	}
	var near, far []*peer
	for _, h := range p.hosts {
		if !f.all.isLocal(h) {
			far = append(far, h)
		} else if h.failing.Load() {
			return len(p.hosts)
		} else {
			near = append(near, h)
		}
	}
	p.hosts = append(near, far...)
	if len(far) > 0 && f.hedge == nil {
		f.hedge = time.NewTimer(f.all.local.get(f.all.o.MaxHedge))
	}
	return len(near)
}

func (f *flight) hedged() <-chan time.Time {
	if f.hedge == nil {
		return nil
	}
	return f.hedge.C
}

// allHosts returns how many hosts a part has, unless it has its answer.
func allHosts(p *part) int {
	if p.done {
		return 0
	}
	return len(p.hosts)
}

// isLocal reports whether a host is asked first.
func (c *flights) isLocal(h *peer) bool { return c.o.LocalDC != "" && h.DC == c.o.LocalDC }

const (
	p95Window = 128 // durations that count
	p95Every  = 16  // durations until the percentile is computed again
)

// p95 is the 95th percentile of the last 128 durations, up to date within 16. Its methods may be called by many
// goroutines.
type p95 struct {
	value atomic.Int64

	mu   sync.Mutex
	last [p95Window]time.Duration
	n    int
}

// add adds a duration.
func (p *p95) add(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[p.n%p95Window] = d
	p.n++
	if p.n%p95Every != 0 {
		return
	}
	sorted := p.last
	samples := sorted[:min(p.n, p95Window)]
	slices.Sort(samples)
	p.value.Store(int64(samples[len(samples)*95/100]))
}

// get returns the percentile, or the given duration if that is shorter, or there are less than 16 durations.
func (p *p95) get(limit time.Duration) time.Duration {
	if d := time.Duration(p.value.Load()); d > 0 {
		return min(d, limit)
	}
	return limit
}
