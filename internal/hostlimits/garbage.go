package hostlimits

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How much garbage a busy service may have, however little of its heap is in use, and when it is busy: when collections
// follow each other faster than busyGap. Until the limit is reached the garbage doubles, once in growEvery at most, so that
// a short burst doesn't take memory. After quietGap without a collection the service has ordinary garbage again.
const (
	leastGarbage = 16 << 20
	mostGarbage  = 128 << 20
	busyGap      = 500 * time.Millisecond
	growEvery    = time.Second
	quietGap     = 30 * time.Second
)

// ordinaryPercent is Go's own GOGC: as much garbage as there is in use.
const ordinaryPercent = 100

// garbage decides how much garbage there may be, as GOGC: in percent of what is in use.
type garbage struct {
	allowed   int64 // bytes; 0: as much as is in use
	percent   int
	collected time.Time // when the last collection ended
	grown     time.Time // when allowed was increased
}

// next returns GOGC after a collection that left some bytes in use.
func (g *garbage) next(now time.Time, used int64) int {
	gap := now.Sub(g.collected)
	g.collected = now
	switch {
	case gap > quietGap:
		g.allowed = 0
	case gap < busyGap && now.Sub(g.grown) >= growEvery:
		g.allowed, g.grown = min(max(2*g.allowed, leastGarbage), mostGarbage), now
	}
	percent := max(ordinaryPercent, int(g.allowed*100/max(used, 1<<20)))
	if 10*percent > 11*g.percent || 10*percent < 9*g.percent { // a change stops the program for a moment
		g.percent = percent
	}
	return g.percent
}

// TuneGarbage makes the Go runtime collect garbage less often while the service is busy: a small heap with much traffic
// would be collected many times a second. It does nothing if GOGC is set. The memory limit has precedence: near it the
// runtime collects as often as it must. TuneGarbage returns when ctx ends.
func TuneGarbage(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		<-ctx.Done()
		return nil
	}
	defer debug.SetGCPercent(ordinaryPercent)
	collected := make(chan struct{}, 1)
	watchCollections(ctx, collected)
	g := garbage{percent: ordinaryPercent, collected: time.Now(), grown: time.Now()}
	for set := g.percent; ; {
		select {
		case <-collected:
		case <-ctx.Done():
			return nil
		}
		if percent := g.next(time.Now(), inUse()); percent != set {
			set = percent
			debug.SetGCPercent(percent)
		}
	}
}

// watchCollections signals after each collection until ctx ends.
func watchCollections(ctx context.Context, collected chan<- struct{}) {
	if ctx.Err() != nil {
		return
	}
	sentinel := new([16]byte) // not so small that it shares its block with others
	runtime.AddCleanup(sentinel, func(struct{}) {
		select {
		case collected <- struct{}{}:
		default:
		}
		watchCollections(ctx, collected)
	}, struct{}{})
}

// inUse returns the bytes of which GOGC is a percentage.
func inUse() int64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	var sum uint64
	for _, s := range samples {
		sum += s.Value.Uint64()
	}
	return int64(sum)
}
