package shard

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is what a table should know: all that happened to each host, evaluated anew for each question.
type model struct {
	table *routeTable
	now   map[string]*known // by address
	sent  []request         // that may be answered yet, or again
}

// known is an address for as long as it stays in the list.
type known struct {
	host    *peer
	answers map[uint64]route // by number of the request
}

type request struct {
	to     *known
	number uint64
}

func (k *known) route() (newest route) {
	var number uint64
	for n, r := range k.answers {
		if n > number {
			number, newest = n, r
		}
	}
	if newest.Interval.First > newest.Interval.Last {
		return route{}
	}
	return newest
}

// have returns which hosts have a sharding key.
func (m *model) have(key uint64) (addresses []string) {
	for address, k := range m.now {
		if r := k.route(); r.Assigned && r.Interval.First <= key && key <= r.Interval.Last {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	return addresses
}

// text returns the whole map.
func (m *model) text() string {
	var lines []string
	for address, k := range m.now {
		if r := k.route(); r.Assigned {
			lines = append(lines, fmt.Sprint(address, k.host.DC, r.Interval))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (m *model) setHosts(t *rapid.T) {
	var places []place
	stay := map[string]string{}
	for _, at := range rapid.SliceOfN(rapid.IntRange(0, 7), 0, 10).Draw(t, "hosts") {
		p := place{Address: fmt.Sprint("host", at), DC: rapid.SampledFrom([]string{"a", "a", "a", "b"}).Draw(t, "dc")}
		places = append(places, p)
		if _, ok := stay[p.Address]; !ok {
			stay[p.Address] = p.DC
		}
	}
	changed := false
	for address, k := range m.now {
		if dc, ok := stay[address]; !ok || dc != k.host.DC {
			delete(m.now, address)
			changed = true
		}
	}
	added, said := m.table.SetHosts(places)
	for _, h := range added {
		require.Nil(t, m.now[h.Address])
		m.now[h.Address] = &known{host: h, answers: map[uint64]route{}}
	}
	require.Equal(t, changed || len(added) > 0, said)
	require.Len(t, m.now, len(stay))
}

func (m *model) send(t *rapid.T) {
	hosts := m.table.Hosts()
	if len(hosts) == 0 {
		t.Skip("no hosts")
	}
	h := rapid.SampledFrom(hosts).Draw(t, "host")
	m.sent = append(m.sent, request{to: m.now[h.Address], number: m.table.Number()})
}

// answer answers any request, also one that was answered, or whose host was removed. Others are never answered.
func (m *model) answer(t *rapid.T) {
	if len(m.sent) == 0 {
		t.Skip("no requests")
	}
	r := rapid.SampledFrom(m.sent).Draw(t, "request")
	edge := rapid.SampledFrom([]uint64{0, 1, 2, 10, 11, 12, math.MaxUint64 - 1, math.MaxUint64})
	route := route{Assigned: rapid.IntRange(0, 4).Draw(t, "assigned") > 0}
	if route.Assigned {
		route.Interval = routeInterval{First: edge.Draw(t, "first"), Last: edge.Draw(t, "last")}
	}
	before := m.text()
	if _, twice := r.to.answers[r.number]; !twice {
		r.to.answers[r.number] = route
	}
	require.Equal(t, before != m.text(), m.table.Learn(r.to.host, r.number, route))
}

// check compares what is found for keys at and around all ends.
func (m *model) check(t *rapid.T) {
	keys := []uint64{0, 0, 1, 2, 3, 9, 10, 11, 11, 12, 13, 1 << 63, math.MaxUint64 - 2, math.MaxUint64 - 1,
		math.MaxUint64, math.MaxUint64}
	keys = keys[rapid.IntRange(0, 5).Draw(t, "from"):rapid.IntRange(6, len(keys)).Draw(t, "to")]
	at := 0
	for i, g := range m.table.Snapshot().Split(keys) {
		require.Equal(t, at, g.From)
		require.Greater(t, g.To, g.From)
		for ; at < g.To; at++ {
			var found []string
			for _, h := range g.Hosts {
				require.Same(t, m.now[h.Address].host, h)
				found = append(found, h.Address)
			}
			slices.Sort(found)
			require.Equal(t, m.have(keys[at]), found, "key %d in group %d", keys[at], i)
		}
	}
	require.Equal(t, len(keys), at)
	hosts, assigned := m.table.Count()
	require.Len(t, m.now, hosts)
	require.Equal(t, strings.Count(m.text(), "host"), assigned)
}

// The map is what the newest requests were answered, whatever is late, lost, answered twice or reordered, and whoever
// comes and goes. Those who wait for a change learn of each one, and of none that isn't. What was looked up before it
// stays as it was.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{table: newRouteTable(), now: map[string]*known{}}
		step := func(do func(*rapid.T)) func(*rapid.T) {
			return func(t *rapid.T) {
				text, changed, snapshot := m.text(), m.table.Changed(), m.table.Snapshot()
				earlier := fmt.Sprint(snapshot)
				do(t)
				select {
				case <-changed:
					require.NotSame(t, snapshot, m.table.Snapshot())
				default:
					require.Equal(t, text, m.text())
					require.Same(t, snapshot, m.table.Snapshot())
				}
				require.Equal(t, earlier, fmt.Sprint(snapshot))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"hosts": step(m.setHosts), "send": step(m.send), "answer": step(m.answer), "answer again": step(m.answer),
			"": m.check,
		})
	})
}

// Of more hosts than MaxReplicas with a key, those count that answered the newest requests.
func TestTooManyReplicas(t *testing.T) {
	t.Parallel()
	table := newRouteTable()
	places := make([]place, 3*maxReplicas)
	for i := range places {
		places[i].Address = fmt.Sprintf("%03d", i)
	}
	added, _ := table.SetHosts(places)
	for i, h := range added {
		table.Learn(h, table.Number(), route{Assigned: true, Interval: routeInterval{First: uint64(i % 2), Last: 5}})
	}
	groups := table.Snapshot().Split([]uint64{0, 5})
	require.Len(t, groups[0].Hosts, maxReplicas)
	require.ElementsMatch(t, added[2*maxReplicas:], groups[1].Hosts)
}

// A Get of 100 keys looks them up among 1,000 shards with three replicas each.
func BenchmarkSplit(b *testing.B) {
	table := newRouteTable()
	places := make([]place, 3000)
	for i := range places {
		places[i].Address = fmt.Sprintf("%04d", i)
	}
	added, _ := table.SetHosts(places)
	size := uint64(math.MaxUint64 / 1000)
	for i, h := range added {
		first := uint64(i%1000) * size
		table.Learn(h, table.Number(),
			route{Assigned: true, Interval: routeInterval{First: first, Last: first + size - 1}})
	}
	keys := make([]uint64, 100)
	for i := range keys {
		keys[i] = uint64(i) * (math.MaxUint64 / 100)
	}
	for b.Loop() {
		table.Snapshot().Split(keys)
	}
}

// The worst that hosts can do: each change of the map is looked up, and all 4,096 overlap.
func BenchmarkOverlaps(b *testing.B) {
	table := newRouteTable()
	places := make([]place, 4096)
	for i := range places {
		places[i].Address = fmt.Sprintf("%04d", i)
	}
	added, _ := table.SetHosts(places)
	for i := 0; b.Loop(); i++ {
		if i == 0 {
			for j, h := range added {
				table.Learn(h, table.Number(),
					route{Assigned: true, Interval: routeInterval{First: uint64(j), Last: math.MaxUint64 - uint64(j)}})
			}
		}
		table.Learn(added[i%4096], table.Number(),
			route{Assigned: true, Interval: routeInterval{First: uint64(i) % 4096,
				Last: math.MaxUint64 - uint64(i) - 4096}})
		table.Snapshot()
	}
}
