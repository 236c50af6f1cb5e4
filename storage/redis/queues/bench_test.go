package queues

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/queuetest"
)

func newBenchHall(b *testing.B) (*hall, *redistest.Node) {
	b.Helper()
	node := redistest.Start(b, redistest.Options{})
	conn := storetest.Connect(b, redis.Options{URL: node.URL()})
	return newHall(b, conn, node.Client()), node
}

// BenchmarkQueueTicket moves tickets of 1,024 players through the queue: creation, read by the director, assignment in
// pairs under its lease, and delivery. It reports the cost of a ticket for Redis.
func BenchmarkQueueTicket(b *testing.B) {
	const players = 1024
	h, node := newBenchHall(b)
	h.Add(b, "first")
	require.NoError(b, h.Lead(b.Context(), "lease", queuetest.LongTTL))
	after := h.Whole(b).After
	done := make(map[string]chan struct{})
	for i := range b.N {
		done["t"+strconv.Itoa(i)] = make(chan struct{})
	}
	before := node.CPU(b)
	b.ResetTimer()
	ctx, stop := context.WithCancel(b.Context())
	var director errgroup.Group
	director.Go(func() error {
		var waiting []string
		for round := 0; ctx.Err() == nil; round++ {
			found := h.ChangesAfter(b, after, 1000)
			after = found.After
			waiting = append(waiting, queuetest.ShortForm(found.Changes)...)
			var matches []matchmaking.AssignMatch
			for ; len(waiting) > 1; waiting = waiting[2:] {
				matches = append(matches, h.Match(matchmaking.NewID(h.Name), waiting[:2]...))
			}
			var entries []string
			for _, o := range h.Assign(b.Context(), matchmaking.AssignRequest{
				Queue: h.Name, Token: "token" + strconv.Itoa(round), Fence: h.Fence, Keep: queuetest.LongKeep,
				Matches: matches,
			}) {
				entries = append(entries, o.Entries...)
			}
			if err := h.Delivered(b.Context(), h.Name, entries); err != nil || len(entries) != 2*len(matches) {
				return fmt.Errorf("assigned %d of %d matches: %w", len(entries)/2, len(matches), err)
			}
			for _, m := range matches {
				for _, a := range m.Assignments {
					close(done[a.ID])
				}
			}
		}
		return nil
	})
	var all errgroup.Group
	for p := range players {
		all.Go(func() error {
			for i := p; i < b.N-b.N%2; i += players {
				id := "t" + strconv.Itoa(i)
				if err := storagetest.ErrorOf2(h.Create(b.Context(), h.Request(id))); err != nil {
					return err
				}
				<-done[id]
			}
			return nil
		})
	}
	require.NoError(b, all.Wait())
	stop()
	require.NoError(b, director.Wait())
	b.StopTimer()
	b.ReportMetric(float64((node.CPU(b)-before).Microseconds())/float64(b.N), "redis-us/ticket")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tickets/s")
}

// BenchmarkQueueMemory reports the Redis memory of a waiting ticket.
func BenchmarkQueueMemory(b *testing.B) {
	const tickets = 50_000
	for b.Loop() {
		h, node := newBenchHall(b)
		h.Add(b, "first")
		before := node.Number(b, "memory", "used_memory")
		var g errgroup.Group
		g.SetLimit(256)
		for i := range tickets {
			g.Go(func() error {
				r := h.Request("01M8F2V4PCQ2Z6C7XQ8S5T" + strconv.Itoa(1000+i%9000) + "." + "duel" +
					strconv.Itoa(i/9000))
				return storagetest.ErrorOf2(h.Create(b.Context(), r))
			})
		}
		require.NoError(b, g.Wait())
		after := "0-0"
		for {
			found := h.ChangesAfter(b, after, 1000)
			if after = found.After; len(found.Changes) == 0 {
				break
			}
		}
		whole := node.Number(b, "memory", "used_memory")
		require.NoError(b, h.do(b, "XTRIM", h.k().changes(), "MINID", "~", after).Error())
		b.ReportMetric((whole-before)/tickets, "with-changes-B/ticket")
		b.ReportMetric((node.Number(b, "memory", "used_memory")-before)/tickets, "B/ticket")
	}
}

// BenchmarkQueueSnapshot reads 50,000 tickets.
func BenchmarkQueueSnapshot(b *testing.B) {
	const tickets = 50_000
	h, _ := newBenchHall(b)
	for i := range tickets {
		if err := storagetest.ErrorOf2(h.Create(b.Context(), h.Request("t"+strconv.Itoa(i)))); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if s := h.Whole(b); len(s.Tickets) != tickets {
			b.Fatal(len(s.Tickets))
		}
	}
}
