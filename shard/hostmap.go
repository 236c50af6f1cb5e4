package shard

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// peer is a host in a client's list. An address that leaves the list and comes back is another peer.
type peer struct {
	Host

	pinging atomic.Bool  // a ping is in progress
	failing atomic.Bool  // its last call failed
	wrong   atomic.Bool  // its last call failed, and a repeat can't help
	heard   atomic.Int64 // when it answered last, in ns
	removed atomic.Bool  // from the list; set with hostMap.mu held

	// Guarded by hostMap.mu.
	assigned bool     // it has a shard
	shard    Interval // if assigned; First is at most Last
	number   uint64   // of the request with this answer
}

// hostMap records which host has which sharding keys. It is learnt from the answers of the hosts, which may arrive
// late, out of order, or never. Each request has a number, which rises with each that is sent; of a host's answers the
// one to the request with the highest number counts. Its methods may be called by many goroutines.
type hostMap struct {
	numbers atomic.Uint64
	current atomic.Pointer[snapshot] // nil: the next lookup builds it

	mu       sync.Mutex
	hosts    map[string]*peer
	assigned int           // of hosts
	changed  chan struct{} // closed and replaced with each change
}

func newHostMap() *hostMap {
	return &hostMap{hosts: map[string]*peer{}, changed: make(chan struct{})}
}

// number returns the number of a request that is going to be sent.
func (m *hostMap) number() uint64 { return m.numbers.Add(1) }

// setHosts replaces the list of hosts. It returns those that weren't in it, and reports whether the list changed. What
// is known of those that stay is kept. Of duplicate addresses the first entry counts.
func (m *hostMap) setHosts(list []Host) (added []*peer, changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	stay := make(map[string]*peer, len(list))
	for _, host := range list {
		if stay[host.Address] != nil {
			continue
		}
		h := m.hosts[host.Address]
		if h == nil || h.DC != host.DC {
			h = &peer{Host: host}
			added = append(added, h)
		}
		stay[host.Address] = h
	}
	changed = len(added) > 0
	before := m.assigned
	for address, h := range m.hosts {
		if stay[address] == h {
			continue
		}
		h.removed.Store(true)
		changed = true
		if h.assigned {
			m.assigned--
		}
	}
	m.hosts = stay
	if m.assigned < before {
		m.change()
	}
	return added, changed
}

// list returns all hosts, sorted by address.
func (m *hostMap) list() []*peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	hosts := make([]*peer, 0, len(m.hosts))
	for _, h := range m.hosts {
		hosts = append(hosts, h)
	}
	slices.SortFunc(hosts, byAddress)
	return hosts
}

// learn records which shard a host has, by its answer to the request with the given number. It reports whether the map
// changed. Answers to requests older than the one that counts are ignored, and answers of hosts that were removed.
func (m *hostMap) learn(h *peer, number uint64, answer Response) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.removed.Load() || number <= h.number {
		return false
	}
	assigned, shard := answer.Assigned, answer.Shard
	if !assigned || shard.First > shard.Last {
		assigned, shard = false, Interval{}
	}
	changed = assigned != h.assigned || shard != h.shard
	if h.assigned {
		m.assigned--
	}
	if assigned {
		m.assigned++
	}
	h.number, h.assigned, h.shard = number, assigned, shard
	if changed {
		m.change()
	}
	return changed
}

// change is called with m.mu held.
func (m *hostMap) change() {
	m.current.Store(nil)
	close(m.changed)
	m.changed = make(chan struct{})
}

// nextChange returns a channel that is closed with the next change.
func (m *hostMap) nextChange() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// count returns how many hosts there are, and how many of them have a shard.
func (m *hostMap) count() (hosts, assigned int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.hosts), m.assigned
}

// snapshot returns the map as it is now.
func (m *hostMap) snapshot() *snapshot {
	if s := m.current.Load(); s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.current.Load(); s != nil {
		return s
	}
	s := m.build()
	m.current.Store(s)
	return s
}

// maxReplicas is how many hosts of a sharding key are used: those that answered the newest requests. Each data centre
// has one.
const maxReplicas = 64

// snapshot is a hostMap at one time. It must not be changed.
type snapshot struct {
	starts []uint64  // ascending; the first is 0
	hosts  [][]*peer // of the sharding keys from each start to the next
}

// group is the part [from, to) of the keys of a Get, which the same hosts have.
type group struct {
	from, to int
	hosts    []*peer // none: no host has them
}

// split splits sorted sharding keys, at least one, into groups.
func (s *snapshot) split(keys []uint64) []group {
	var groups []group
	for from := 0; from < len(keys); {
		at, found := slices.BinarySearch(s.starts, keys[from])
		if !found {
			at--
		}
		to := len(keys)
		if at+1 < len(s.starts) {
			n, _ := slices.BinarySearch(keys[from:], s.starts[at+1])
			to = from + n
		}
		groups = append(groups, group{from: from, to: to, hosts: s.hosts[at]})
		from = to
	}
	return groups
}

// event is a sharding key from which on a host has keys, or has none any more.
type event struct {
	at   uint64
	host *peer
	ends bool
}

// build is called with m.mu held.
func (m *hostMap) build() *snapshot {
	var events []event
	for _, h := range m.hosts {
		if !h.assigned {
			continue
		}
		events = append(events, event{at: h.shard.First, host: h})
		if h.shard.Last < math.MaxUint64 {
			events = append(events, event{at: h.shard.Last + 1, host: h, ends: true})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	s := &snapshot{starts: []uint64{0}, hosts: [][]*peer{nil}}
	var have []*peer // the newest first
	for i, e := range events {
		at, _ := slices.BinarySearchFunc(have, e.host, newer)
		if e.ends {
			have = slices.Delete(have, at, at+1)
		} else {
			have = slices.Insert(have, at, e.host)
		}
		if i+1 < len(events) && events[i+1].at == e.at {
			continue
		}
		if e.at > 0 {
			s.starts, s.hosts = append(s.starts, e.at), append(s.hosts, nil)
		}
		s.hosts[len(s.hosts)-1] = slices.Clone(have[:min(len(have), maxReplicas)])
	}
	return s
}

// newer orders hosts by the requests that they have answered. No two have the same number.
func newer(a, b *peer) int { return cmp.Compare(b.number, a.number) }

func byAddress(a, b *peer) int { return strings.Compare(a.Address, b.Address) }
