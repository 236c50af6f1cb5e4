package main

import (
	"context"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/cmd/tidemark/compose"
	records "github.com/tidemark-dev/tidemark/storage/redis/records"
)

// startRecords starts the services of records.
func startRecords(ctx context.Context, s stores, channels *channel.Service, needs partNeeds) (*compose.Records, error) {
	return compose.Open(ctx, compose.Needs{
		Redis:    records.Instances{Records: s.conn, Sessions: s.conn, Cache: s.conn},
		Channels: channels, Parts: needs.parts, Log: needs.log, Metrics: needs.metrics,
	})
}
