package watch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// BenchmarkWait measures the cost of a wait without its caller's goroutine and ID, and the memory of a waiting one.
func BenchmarkWait(b *testing.B) {
	st := &store{tickets: map[string]matchmaking.TicketState{}, listeners: map[string]matchmaking.AssignedListener{}}
	w := New(st, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	ids := make([]string, b.N)
	for i := range ids {
		ids[i] = fmt.Sprintf("01M8F2V4PCQ2Z6C7XQ8S5T%04d.duel%d", i%10000, i)
		st.tickets[ids[i]] = matchmaking.TicketState{Created: time.UnixMicro(int64(i + 1)), Remaining: time.Hour}
	}
	before := inUse()
	b.ReportAllocs()
	b.ResetTimer()
	for _, id := range ids {
		w.join("q", id)
	}
	for w.unread() > 0 {
		<-time.After(time.Millisecond)
	}
	b.StopTimer()
	b.ReportMetric(float64(inUse()-before)/float64(b.N), "B/wait")
	runtime.KeepAlive(ids)
}

// unread returns the number of unread waits of the queue.
func (w *Watches) unread() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.feeds["q"]
	return f.users - f.agenda.Len()
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
