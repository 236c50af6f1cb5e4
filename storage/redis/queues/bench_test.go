package queues

import (
	"strconv"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
	"github.com/tidemark-dev/tidemark/storage/storagetest/queuetest"
)

func newBenchHall(b *testing.B) *hall {
	b.Helper()
	node := redistest.Start(b, redistest.Options{})
	conn := rig.Connect(b, redis.Options{URL: node.URL()})
	return newHall(b, conn, node.Client())
}

// BenchmarkQueueCreate makes tickets from many goroutines.
func BenchmarkQueueCreate(b *testing.B) {
	h := newBenchHall(b)
	b.SetParallelism(32)
	next := make(chan int)
	go func() {
		defer close(next)
		for i := range b.N {
			next <- i
		}
	}()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := errorOf2(h.Create(b.Context(), h.Request("t"+strconv.Itoa(<-next)))); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkQueueMatch claims and assigns tickets in pairs, 32 matches a round.
func BenchmarkQueueMatch(b *testing.B) {
	const matches = 32
	h := newBenchHall(b)
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		ids := queuetest.Numbered("r"+strconv.Itoa(round)+"-", 2*matches)
		h.Add(b, ids...)
		b.StartTimer()
		token := "token" + strconv.Itoa(round)
		h.Hold(b, token, ids...)
		var all []matchmaking.AssignMatch
		for i := range matches {
			all = append(all, h.Match(token+"-"+strconv.Itoa(i), ids[2*i], ids[2*i+1]))
		}
		for _, o := range h.AssignMatches(b.Context(), token, all...) {
			if o.Err != nil || len(o.Conflicts) > 0 {
				b.Fatal(o)
			}
		}
	}
	b.ReportMetric(float64(2*matches*b.N)/b.Elapsed().Seconds(), "tickets/s")
}

// BenchmarkQueueSnapshot reads 50,000 tickets.
func BenchmarkQueueSnapshot(b *testing.B) {
	const tickets = 50_000
	h := newBenchHall(b)
	for i := range tickets {
		if err := errorOf2(h.Create(b.Context(), h.Request("t"+strconv.Itoa(i)))); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if s := h.Whole(b); len(s.Tickets) != tickets {
			b.Fatal(len(s.Tickets))
		}
	}
}
