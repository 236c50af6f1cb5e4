package routes

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// MaxReplicas is how many hosts of a sharding key are used: those that answered the newest requests. Each data centre has one.
const MaxReplicas = 64

// Snapshot is the map at one time. It must not be changed.
type Snapshot struct {
	starts []uint64  // ascending; the first is 0
	hosts  [][]*Host // of the sharding keys from each start to the next
}

// Group is the part [From, To) of the keys of a Get, which the same hosts have.
type Group struct {
	From, To int
	Hosts    []*Host // none: no host has them
}

// Split splits sorted sharding keys, of which there is at least one, into groups.
func (s *Snapshot) Split(keys []uint64) []Group {
	var groups []Group
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
		groups = append(groups, Group{From: from, To: to, Hosts: s.hosts[at]})
		from = to
	}
	return groups
}

// event is a sharding key from which on a host has keys, or has none any more.
type event struct {
	at   uint64
	host *Host
	ends bool
}

// build is called with t.mu held.
func (t *Table) build() *Snapshot {
	var events []event
	for _, h := range t.hosts {
		if !h.route.Assigned {
			continue
		}
		events = append(events, event{at: h.route.Interval.First, host: h})
		if h.route.Interval.Last < math.MaxUint64 {
			events = append(events, event{at: h.route.Interval.Last + 1, host: h, ends: true})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	s := &Snapshot{starts: []uint64{0}, hosts: [][]*Host{nil}}
	var have []*Host // the newest first
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
		s.hosts[len(s.hosts)-1] = slices.Clone(have[:min(len(have), MaxReplicas)])
	}
	return s
}

// newer orders hosts by the requests that they have answered. No two have the same number.
func newer(a, b *Host) int { return cmp.Compare(b.number, a.number) }

func byAddress(a, b *Host) int { return strings.Compare(a.Address, b.Address) }
