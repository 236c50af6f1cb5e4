package main

import (
	"context"
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/tidemark-dev/tidemark/internal/config"
)

// What part of the memory of the machine or container is the service's own. The rest is for the managed Redis, and for
// what the Go runtime doesn't count.
const (
	memoryRatio        = 0.9
	memoryRatioManaged = 0.5
)

// limitMemory has the Go runtime collect garbage, and return memory to the system, before the memory of the machine or
// container is used up. The variable GOMEMLIMIT overrides it.
func limitMemory(ctx context.Context, c config.Config, log *slog.Logger) {
	ratio := memoryRatio
	if c.Redis.Address == "" {
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
