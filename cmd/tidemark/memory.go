package main

import (
	"context"
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"
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
