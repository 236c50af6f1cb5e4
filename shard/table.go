package shard

import (
	"slices"
	"sync"
	"sync/atomic"
)

// routeInterval is a range of sharding keys, both ends included.
type routeInterval struct{ First, Last uint64 }

// peer is a node that may have a shard. An address that leaves the list and comes back is another peer.
type peer struct {
	Address string
	DC      string

	// For the user of the table.
	Pinging atomic.Bool  // a ping is on its way
	Failing atomic.Bool  // its last call failed
	Wrong   atomic.Bool  // its last call failed, and a repeat can't help
	Heard   atomic.Int64 // when it answered last

	removed atomic.Bool // from the list; set with Table.mu held

	// Guarded by Table.mu.
	route  route
	number uint64 // of the request from which the route was learnt
}

// Removed reports whether the host has left the list.
func (h *peer) Removed() bool { return h.removed.Load() }

// route is what a host has answered: which sharding keys it has.
type route struct {
	Assigned    bool
	Interval    routeInterval // if Assigned; First is at most Last
	Incarnation uint64        // if Assigned
}

// routeTable is a map of hosts. Its methods may be called by many goroutines.
type routeTable struct {
	numbers  atomic.Uint64
	snapshot atomic.Pointer[snapshot] // nil: to be made

	mu       sync.Mutex
	hosts    map[string]*peer
	assigned int           // of hosts
	changed  chan struct{} // closed and replaced with each change
}

// newRouteTable returns an empty table.
func newRouteTable() *routeTable {
	return &routeTable{hosts: map[string]*peer{}, changed: make(chan struct{})}
}

// Number returns the number of a request that is going to be sent.
func (t *routeTable) Number() uint64 { return t.numbers.Add(1) }

// place is an entry of a list of hosts.
type place struct{ Address, DC string }

// SetHosts replaces the list of hosts. It returns those that weren't in it, and reports whether the list changed. What
// is known of those that stay is kept. Of duplicate addresses the first entry counts.
func (t *routeTable) SetHosts(places []place) (added []*peer, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stay := make(map[string]*peer, len(places))
	for _, p := range places {
		if stay[p.Address] != nil {
			continue
		}
		h := t.hosts[p.Address]
		if h == nil || h.DC != p.DC {
			h = &peer{Address: p.Address, DC: p.DC}
			added = append(added, h)
		}
		stay[p.Address] = h
	}
	changed = len(added) > 0
	before := t.assigned
	for address, h := range t.hosts {
		if stay[address] == h {
			continue
		}
		h.removed.Store(true)
		changed = true
		if h.route.Assigned {
			t.assigned--
		}
	}
	t.hosts = stay
	if t.assigned < before {
		t.change()
	}
	return added, changed
}

// Hosts returns all hosts, sorted by address.
func (t *routeTable) Hosts() []*peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	hosts := make([]*peer, 0, len(t.hosts))
	for _, h := range t.hosts {
		hosts = append(hosts, h)
	}
	slices.SortFunc(hosts, byAddress)
	return hosts
}

// Learn records what a host answered to the request with a number. It reports whether that changed the map: an answer
// to a request that was sent before that of which an answer is known doesn't, nor one of a host that was removed.
func (t *routeTable) Learn(h *peer, number uint64, r route) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.Removed() || number <= h.number {
		return false
	}
	if !r.Assigned || r.Interval.First > r.Interval.Last {
		r = route{}
	}
	changed = r.Assigned != h.route.Assigned || r.Interval != h.route.Interval
	if h.route.Assigned {
		t.assigned--
	}
	if r.Assigned {
		t.assigned++
	}
	h.number, h.route = number, r
	if changed {
		t.change()
	}
	return changed
}

// change is called with t.mu held.
func (t *routeTable) change() {
	t.snapshot.Store(nil)
	close(t.changed)
	t.changed = make(chan struct{})
}

// Changed returns a channel that is closed with the next change.
func (t *routeTable) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

// Count returns how many hosts there are, and how many of them have a shard.
func (t *routeTable) Count() (hosts, assigned int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.hosts), t.assigned
}

// Snapshot returns the map as it is.
func (t *routeTable) Snapshot() *snapshot {
	if s := t.snapshot.Load(); s != nil {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.snapshot.Load(); s != nil {
		return s
	}
	s := t.build()
	t.snapshot.Store(s)
	return s
}
