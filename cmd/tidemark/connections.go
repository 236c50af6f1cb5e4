package main

import (
	"context"
	"log/slog"
)

// otherFiles bounds the open files besides connections of clients: connections to Redis and to other services, and
// those that the server accepts beyond its limit.
const otherFiles = 384

// connections returns how many connections the server may serve when configured ones are asked for; 0 means no limit,
// in what it takes and in what it returns. It logs a warning if the limit on open files allows fewer.
func connections(ctx context.Context, configured int, log *slog.Logger) int {
	files := fileLimit()
	if files == 0 {
		return configured
	}
	limit := max(files-otherFiles, files/2)
	if configured > limit {
		log.WarnContext(ctx, "maxConnections is more than the limit on open files allows", "maxConnections", configured,
			"used", limit, "openFiles", files)
	}
	if configured == 0 || configured > limit {
		return limit
	}
	return configured
}
