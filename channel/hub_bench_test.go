package channel

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/clock"
)

// fanOut is a hub with a channel on which many waiters poll, again after each message.
type fanOut struct {
	hub   *hub
	sink  func(Event)
	group sync.WaitGroup // of the waiters
	got   sync.WaitGroup // of the waiters that have yet to receive the current message
}

func newFanOut(b *testing.B, waiters int) *fanOut {
	b.Helper()
	store := newFakeNotifier()
	f := &fanOut{hub: newHub(store, testLimits(), slog.New(slog.DiscardHandler))}
	ctx, cancel := context.WithCancel(b.Context())
	f.group.Go(func() { _ = f.hub.run(ctx) })
	b.Cleanup(func() {
		cancel()
		f.group.Wait()
	})
	for range waiters {
		f.group.Go(func() { f.wait(ctx) })
	}
	f.settle(waiters)
	store.mu.Lock()
	defer store.mu.Unlock()
	f.sink = store.sinks["ch"]
	return f
}

// wait polls until ctx ends.
func (f *fanOut) wait(ctx context.Context) {
	for at := clock.Clock(0); ; at = at.Next() {
		w := f.hub.join([]target{{"ch", "s"}})
		w.prepare(only)
		woken := w.sleep(ctx, nil, []Position{in1(at)})
		w.leave()
		if len(woken) == 0 {
			return
		}
		if m := woken[0].message; m == nil || m.Clock != at.Next() {
			panic("not the next message")
		}
		f.got.Done()
	}
}

// settle lets all waiters fall asleep.
func (f *fanOut) settle(waiters int) {
	for asleep := 0; asleep < waiters; runtime.Gosched() {
		f.hub.mu.Lock()
		t := f.hub.topics["ch"]
		f.hub.mu.Unlock()
		if t == nil {
			continue
		}
		asleep = 0
		t.mu.Lock()
		for _, w := range t.members {
			if w.asleep {
				asleep++
			}
		}
		t.mu.Unlock()
	}
}

// BenchmarkFanOut measures the time from the arrival of a notification until the last of 5,000 sleepers has its
// message.
func BenchmarkFanOut(b *testing.B) {
	const waiters = 5000
	f := newFanOut(b, waiters)
	var last time.Duration
	b.ReportAllocs()
	at := clock.Clock(0)
	for b.Loop() {
		at = at.Next()
		e := published(in1(at))
		f.got.Add(waiters)
		start := time.Now()
		f.sink(e)
		f.got.Wait()
		last += time.Since(start)
		f.settle(waiters)
	}
	b.ReportMetric(float64(last.Microseconds())/1000/float64(b.N), "ms/last")
	b.ReportMetric(0, "ns/op") // it counts how they fall asleep again too
}
