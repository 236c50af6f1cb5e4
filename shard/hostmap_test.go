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

// model is a model of a table: it records all events of each host, and evaluates them for each lookup.
type model struct {
	table *hostMap
	now   map[string]*known // by address
	sent  []request         // that may be answered yet, or again
}

// known is an address, from its addition to the list until its removal.
type known struct {
	host    *peer
	answers map[uint64]Response // by number of the request
}

type request struct {
	to     *known
	number uint64
}

func (k *known) route() (newest Response) {
	var number uint64
	for n, r := range k.answers {
		if n > number {
			number, newest = n, r
		}
	}
	if newest.Shard.First > newest.Shard.Last {
		return Response{}
	}
	return newest
}

// have returns which hosts have a sharding key.
func (m *model) have(key uint64) (addresses []string) {
	for address, k := range m.now {
		if r := k.route(); r.Assigned && r.Shard.First <= key && key <= r.Shard.Last {
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
			lines = append(lines, fmt.Sprint(address, k.host.DC, r.Shard))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (m *model) setHosts(t *rapid.T) {
	var list []Host
	stay := map[string]string{}
	for _, at := range rapid.SliceOfN(rapid.IntRange(0, 7), 0, 10).Draw(t, "hosts") {
		h := Host{Address: fmt.Sprint("host", at), DC: rapid.SampledFrom([]string{"a", "a", "a", "b"}).Draw(t, "dc")}
		list = append(list, h)
		if _, ok := stay[h.Address]; !ok {
			stay[h.Address] = h.DC
		}
	}
	changed := false
	for address, k := range m.now {
		if dc, ok := stay[address]; !ok || dc != k.host.DC {
			delete(m.now, address)
			changed = true
		}
	}
	added, said := m.table.setHosts(list)
	for _, h := range added {
		require.Nil(t, m.now[h.Address])
		m.now[h.Address] = &known{host: h, answers: map[uint64]Response{}}
	}
	require.Equal(t, changed || len(added) > 0, said)
	require.Len(t, m.now, len(stay))
}

func (m *model) send(t *rapid.T) {
	hosts := m.table.list()
	if len(hosts) == 0 {
		t.Skip("no hosts")
	}
	h := rapid.SampledFrom(hosts).Draw(t, "host")
	m.sent = append(m.sent, request{to: m.now[h.Address], number: m.table.number()})
}

// answer answers any request, even one that was answered before or whose host was removed. Some requests are never
// answered.
func (m *model) answer(t *rapid.T) {
	if len(m.sent) == 0 {
		t.Skip("no requests")
	}
	r := rapid.SampledFrom(m.sent).Draw(t, "request")
	edge := rapid.SampledFrom([]uint64{0, 1, 2, 10, 11, 12, math.MaxUint64 - 1, math.MaxUint64})
	answer := Response{Assigned: rapid.IntRange(0, 4).Draw(t, "assigned") > 0}
	if answer.Assigned {
		answer.Shard = Interval{First: edge.Draw(t, "first"), Last: edge.Draw(t, "last")}
	}
	before := m.text()
	if _, twice := r.to.answers[r.number]; !twice {
		r.to.answers[r.number] = answer
	}
	require.Equal(t, before != m.text(), m.table.learn(r.to.host, r.number, answer))
}

// check compares the lookups of keys at and near all interval ends.
func (m *model) check(t *rapid.T) {
	keys := []uint64{0, 0, 1, 2, 3, 9, 10, 11, 11, 12, 13, 1 << 63, math.MaxUint64 - 2, math.MaxUint64 - 1,
		math.MaxUint64, math.MaxUint64}
	keys = keys[rapid.IntRange(0, 5).Draw(t, "from"):rapid.IntRange(6, len(keys)).Draw(t, "to")]
	at := 0
	for i, g := range m.table.snapshot().split(keys) {
		require.Equal(t, at, g.from)
		require.Greater(t, g.to, g.from)
		for ; at < g.to; at++ {
			var found []string
			for _, h := range g.hosts {
				require.Same(t, m.now[h.Address].host, h)
				found = append(found, h.Address)
			}
			slices.Sort(found)
			require.Equal(t, m.have(keys[at]), found, "key %d in group %d", keys[at], i)
		}
	}
	require.Equal(t, len(keys), at)
	hosts, assigned := m.table.count()
	require.Len(t, m.now, hosts)
	require.Equal(t, strings.Count(m.text(), "host"), assigned)
}

// The map reflects the answers to the newest requests, even if answers are late, lost, duplicated or reordered, and
// hosts are added and removed. Waiters are notified of each change, and only of changes. Earlier snapshots don't
// change.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{table: newHostMap(), now: map[string]*known{}}
		step := func(do func(*rapid.T)) func(*rapid.T) {
			return func(t *rapid.T) {
				text, changed, snapshot := m.text(), m.table.nextChange(), m.table.snapshot()
				earlier := fmt.Sprint(snapshot)
				do(t)
				select {
				case <-changed:
					require.NotSame(t, snapshot, m.table.snapshot())
				default:
					require.Equal(t, text, m.text())
					require.Same(t, snapshot, m.table.snapshot())
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

// Of more hosts than maxReplicas with a key, those count that answered the newest requests.
func TestTooManyReplicas(t *testing.T) {
	t.Parallel()
	table := newHostMap()
	list := make([]Host, 3*maxReplicas)
	for i := range list {
		list[i].Address = fmt.Sprintf("%03d", i)
	}
	added, _ := table.setHosts(list)
	for i, h := range added {
		table.learn(h, table.number(), Response{Assigned: true, Shard: Interval{First: uint64(i % 2), Last: 5}})
	}
	groups := table.snapshot().split([]uint64{0, 5})
	require.Len(t, groups[0].hosts, maxReplicas)
	require.ElementsMatch(t, added[2*maxReplicas:], groups[1].hosts)
}

// A Get of 100 keys looks them up among 1,000 shards with three replicas each.
func BenchmarkSplit(b *testing.B) {
	table := newHostMap()
	list := make([]Host, 3000)
	for i := range list {
		list[i].Address = fmt.Sprintf("%04d", i)
	}
	added, _ := table.setHosts(list)
	size := uint64(math.MaxUint64 / 1000)
	for i, h := range added {
		first := uint64(i%1000) * size
		table.learn(h, table.number(),
			Response{Assigned: true, Shard: Interval{First: first, Last: first + size - 1}})
	}
	keys := make([]uint64, 100)
	for i := range keys {
		keys[i] = uint64(i) * (math.MaxUint64 / 100)
	}
	for b.Loop() {
		table.snapshot().split(keys)
	}
}

// The worst that hosts can do: each change of the map is looked up, and all 4,096 overlap.
func BenchmarkOverlaps(b *testing.B) {
	table := newHostMap()
	list := make([]Host, 4096)
	for i := range list {
		list[i].Address = fmt.Sprintf("%04d", i)
	}
	added, _ := table.setHosts(list)
	for i := 0; b.Loop(); i++ {
		if i == 0 {
			for j, h := range added {
				table.learn(h, table.number(),
					Response{Assigned: true, Shard: Interval{First: uint64(j), Last: math.MaxUint64 - uint64(j)}})
			}
		}
		table.learn(added[i%4096], table.number(),
			Response{Assigned: true, Shard: Interval{First: uint64(i) % 4096,
				Last: math.MaxUint64 - uint64(i) - 4096}})
		table.snapshot()
	}
}
