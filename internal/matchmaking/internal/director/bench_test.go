package director

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/round"
)

// BenchmarkWaiting adds tickets that never match, as read from the storage, to a pool with a criteria function, and
// then pairs that match. It reports the memory that each waiting ticket takes.
func BenchmarkWaiting(b *testing.B) {
	for _, waiting := range []int{50_000, 200_000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			before := liveHeap()
			matcher := function.Criteria(function.CriteriaOptions{Teams: 2, TeamSize: 1,
				Weights: map[string]float64{"skill": 1}})
			p := round.NewPool(matcher)
			began := time.Now()
			for n := range waiting {
				p.Add(decoded(b, n, float64(n)+0.5, float64(n)), time.Time{})
			}
			for again := true; again; again = !matcher.Next().IsZero() {
				found, err := matcher.Match(b.Context(), began)
				require.NoError(b, err)
				require.Empty(b, found)
			}
			settled := time.Since(began)
			each := float64(liveHeap()-before) / float64(waiting)
			next := waiting
			for b.Loop() {
				for range 2 {
					p.Add(decoded(b, next, -1, -1), time.Time{})
					next++
				}
				found, err := matcher.Match(b.Context(), began)
				require.NoError(b, err)
				require.Len(b, found, 1)
				for _, ticket := range found[0].Tickets() {
					p.StartMatch(ticket.ID)
					p.Finish(ticket)
				}
			}
			b.ReportMetric(each, "B/waiting")
			b.ReportMetric(float64(settled.Nanoseconds())/float64(waiting), "ns/added")
			runtime.KeepAlive(p)
		})
	}
}

// decoded returns a ticket that was read from the storage.
func decoded(b *testing.B, n int, sought, skill float64) *matchmaking.Ticket {
	b.Helper()
	text := fmt.Sprintf(
		`{"criteria":[{"name":"skill","minValue":%g,"maxValue":%g}],"statistics":[{"name":"skill","value":%g}]}`,
		sought, sought, skill)
	ticket := &matchmaking.Ticket{
		ID: fmt.Sprintf("01M8%022d.crowd", n), Queue: "crowd", Status: matchmaking.Searching,
		CreateTime: time.Unix(1_000_000, int64(n)*1000), Expires: time.Unix(1_000_600, 0), TTL: 10 * time.Minute,
		Life: 10 * time.Minute,
	}
	require.NoError(b, json.Unmarshal([]byte(text), &ticket.Spec))
	return ticket
}

// liveHeap returns the bytes of the heap that are in use.
func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkTicket matches a stream of tickets. The storage is a map, whose calls take only the time of a switch of
// goroutines. It reports the cost of the director per ticket.
func BenchmarkTicket(b *testing.B) {
	const batch = 50 // tickets that are created together: 10,000 a second, in batches 5 ms apart
	m, ctx := newMemory(), b.Context()
	d := m.direct(ctx, b, &fakePlayers{}, &fakeLeases{outcomes: []error{nil}})
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = d.run(ctx, func() {}) })
	assigned := make(chan int, 1000)
	m.fails = func(int) error {
		select {
		case assigned <- 1:
		default:
		}
		return nil
	}
	tickets := make([]*matchmaking.Ticket, 0, b.N+batch)
	for n := range b.N + batch {
		tickets = append(tickets, decoded(b, n, 0.5, float64(n)))
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += batch {
		m.add(tickets[n : n+batch]...)
		for m.remaining() > 0 {
			<-assigned
		}
	}
	b.StopTimer()
	cancel()
	running.Wait()
	b.ReportMetric(float64(m.calls)*1000/float64(b.N), "assigns/1000tickets")
}
