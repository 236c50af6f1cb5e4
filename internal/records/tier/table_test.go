package tier

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// value is the entry of an ID in a model of a table.
type value struct {
	bytes string
	ends  time.Duration // 0: never
	round uint8
}

func (v value) ended(now time.Duration) bool { return v.ends > 0 && now >= v.ends }

// A table behaves like a map under all operations, also if IDs have the same hash.
func TestTable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var now time.Duration
		tab, model := newAt(func() time.Duration { return now }), map[string]value{}
		// Of the first four, two and two have the same low 38 bits of the hash.
		ids := []string{"103474", "581343", "233710", "862481", "", "1",
			fmt.Sprintf("%0100d: its length takes more than a byte", 1)}
		id := rapid.SampledFrom(ids)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				v := value{bytes: rapid.SampledFrom([]string{"", "x", "yy"}).Draw(t, "value"),
					round: rapid.Uint8Range(1, 2).Draw(t, "round")}
				name, ttl := id.Draw(t, "id"), time.Duration(rapid.IntRange(0, 3).Draw(t, "left"))
				if ttl > 0 {
					v.ends = now + ttl
				}
				tab.Put(name, []byte(v.bytes), ttl, v.round)
				model[name] = v
			},
			"delete": func(t *rapid.T) {
				name := id.Draw(t, "id")
				tab.Delete(name)
				delete(model, name)
			},
			"time passes": func(*rapid.T) { now++ },
			"sweep": func(t *rapid.T) {
				only, bytes := rapid.Bool().Draw(t, "only"), 0
				for part := range parts {
					tab.Sweep(part, only, 2)
				}
				for name, v := range model {
					if only && v.round != 2 || v.ended(now) {
						delete(model, name)
					} else {
						bytes += len(name) + len(v.bytes)
					}
				}
				require.EqualValues(t, len(model), tab.Len())
				require.EqualValues(t, bytes, tab.Bytes())
			},
			"": func(t *rapid.T) {
				for _, name := range ids {
					v, there := model[name]
					got, ok := tab.Get(name)
					require.Equal(t, there && !v.ended(now), ok, name)
					if ok {
						require.Equal(t, v.bytes, got)
					}
				}
			},
		})
	})
}

// Readers see whole values while others write.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	tab, done := newTable(), make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for i := range 500 {
					name := strconv.Itoa(i)
					if got, ok := tab.Get(name); ok && got != name+name {
						t.Errorf("%s has %q", name, got)
					}
				}
			}
		})
		writers.Go(func() {
			for round := range uint8(20) {
				for i := range 500 {
					name := strconv.Itoa(i)
					tab.Put(name, []byte(name+name), time.Duration(i%2)*time.Hour, round)
					if i%3 == 0 {
						tab.Delete(name)
					}
				}
				tab.Sweep(int(round), true, round)
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}

// An entry takes at most 64 bytes above its ID and its value. 1,000,000 entries are the worst case: the maps have just
// grown.
func TestMemory(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	require.Less(t, overhead(1_000_000, 50), 64.0)
}

// BenchmarkMemory measures the memory of an entry above its ID and its value. For large values the allocator rounds up
// by an eighth at most.
func BenchmarkMemory(b *testing.B) {
	for _, size := range []int{50, 200, 1000} {
		for _, n := range []int{900_000, 920_000, 1_000_000, 1_100_000} {
			b.Run(fmt.Sprintf("value=%d/entries=%d", size, n), func(b *testing.B) {
				for b.Loop() {
					b.ReportMetric(overhead(n, size), "B/entry-above")
				}
			})
		}
	}
}

func overhead(n, size int) float64 {
	before := heap()
	tab, v := newTable(), make([]byte, size)
	for i := range n {
		tab.Put(strconv.Itoa(i), v, 0, 1)
	}
	after := heap()
	own := tab.Bytes()
	runtime.KeepAlive(tab)
	return (float64(after) - float64(before) - float64(own)) / float64(n)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
