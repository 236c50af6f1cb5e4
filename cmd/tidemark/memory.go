package main

import (
	"context"
	"log/slog"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// The part of the memory of the machine or container that the service takes for itself. The rest is for a managed
// Redis, and for memory that the Go runtime doesn't count.
const (
	memoryRatio        = 0.9
	memoryRatioManaged = 0.5
)

// setMemory makes the Go runtime collect garbage, and return memory to the system, before the memory of the machine or
// container is used up. managed reports whether a Redis runs beside the service. The variable GOMEMLIMIT overrides it.
func setMemory(ctx context.Context, managed bool, log *slog.Logger) {
	ratio := memoryRatio
	if managed {
		ratio = memoryRatioManaged
	}
	source := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)
	limit, err := memlimit.Set(memlimit.WithRatio(ratio), memlimit.WithProvider(source))
	if err != nil {
		log.WarnContext(ctx, "cannot find out how much memory there is; set GOMEMLIMIT", "error", err)
		return
	}
	log.DebugContext(ctx, "memory limited", "bytes", limit)
}

// When memory is returned to the system: after an interval in which at most a 16th of the heap was allocated, if since
// the last time a quarter of it was.
const (
	quietInterval = 2 * time.Second
	quietPart     = 16
	spentPart     = 4
)

// returnMemory returns to the system what the heap doesn't need, whenever the service has become quiet, until ctx ends.
// Otherwise the Go runtime would keep what it needed at most, and twice what is in use, for as long as little is
// allocated: thousands of clients that have begun to wait would take the memory of their requests for hours.
func returnMemory(ctx context.Context) error {
	last, _ := heap()
	returned := last
	for pace.Sleep(ctx, quietInterval) {
		allocated, size := heap()
		if allocated-last <= size/quietPart && allocated-returned > size/spentPart {
			debug.FreeOSMemory()
			allocated, _ = heap()
			returned = allocated
		}
		last = allocated
	}
	return nil
}

// heap returns how many bytes were allocated since the start, and the size of the heap.
func heap() (allocated, size uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	for _, s := range samples[1:] {
		size += s.Value.Uint64()
	}
	return samples[0].Value.Uint64(), size
}
