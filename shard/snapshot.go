package shard

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

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
