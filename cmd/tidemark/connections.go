package main

import (
	"context"
	"log/slog"

	"github.com/tidemark-dev/tidemark/internal/config"
)

// otherFiles is how many files the service opens at most that aren't connections of clients: its connections to Redis and
// to what it calls out, and those that the server takes beyond its limit.
const otherFiles = 256

// connectionLimit returns how many connections the server may serve; 0: any number.
func connectionLimit(ctx context.Context, c config.Config, log *slog.Logger) int {
	files := fileLimit()
	if files == 0 {
		return c.MaxConnections
	}
	most := max(files-otherFiles, files/2)
	if c.MaxConnections > most {
		log.WarnContext(ctx, "maxConnections is more than the limit on open files allows", "maxConnections", c.MaxConnections, "used", most, "openFiles", files)
	}
	if c.MaxConnections == 0 || c.MaxConnections > most {
		return most
	}
	return c.MaxConnections
}
