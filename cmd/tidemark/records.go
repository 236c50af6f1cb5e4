package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/cmd/tidemark/compose"
	"github.com/tidemark-dev/tidemark/internal/config"
	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/records"
)

// openRecordsRedis connects to the Redis of sessions and to that of caches, unless they are that of the channels. It refuses
// one that evicts what must stay.
func openRecordsRedis(
	ctx context.Context, c config.Config, channels *redis.Conn, found storage.Description, needs storeNeeds,
) (records.Instances, error) {
	if !c.Records.On {
		return records.Instances{}, nil
	}
	open := records.Instances{Records: channels, Sessions: channels, Cache: channels}
	if err := mustKeep(ctx, "redis", "locks, settings and views", found, needs.log); err != nil {
		return open, err
	}
	if url := c.Records.Sessions.Redis; url != "" {
		conn, found, err := openAnother(ctx, c, another{key: "sessionsRedis", url: url, of: "sessions"}, needs)
		if err != nil {
			return open, err
		}
		logStorage(ctx, needs.log.With("of", "sessions"), found)
		if err := mustKeep(ctx, "sessionsRedis", "sessions", found, needs.log); err != nil {
			return open, err
		}
		open.Sessions = conn
	}
	if url := c.Records.Cache.Redis; url != "" {
		conn, found, err := openAnother(ctx, c, another{key: "cacheRedis", url: url, of: "cache"}, needs)
		if err != nil {
			return open, err
		}
		d := found.Durability
		needs.log.InfoContext(ctx, "storage found", "of", "cache", "kind", found.Kind, "product", found.Product, "version", found.Version,
			"eviction", d.EvictionPolicy, "maxMemory", d.MaxMemoryBytes, "meaning", "the cache may evict, and may be lost")
		open.Cache = conn
	}
	return open, nil
}

func openAnother(ctx context.Context, c config.Config, a another, needs storeNeeds) (*redis.Conn, storage.Description, error) {
	o, err := a.options(c, needs)
	if err != nil {
		return nil, storage.Description{}, err
	}
	return a.connect(ctx, c, o, needs)
}

// mustKeep returns an error if a Redis evicts, and logs that it isn't known.
func mustKeep(ctx context.Context, key, what string, found storage.Description, log *slog.Logger) error {
	evicts, known := found.Durability.Evicts()
	if evicts {
		return fmt.Errorf("%s: evicts (maxmemory-policy %s): when its memory runs out, %s are deleted; set maxmemory-policy to noeviction, or records to off",
			key, found.Durability.EvictionPolicy, what)
	}
	if !known {
		log.WarnContext(ctx, "the Redis doesn't tell whether it evicts: see that its maxmemory-policy is noeviction", "option", key, "records", what)
	}
	return nil
}

// startRecords starts the services of records. It returns nil if records are off.
func startRecords(ctx context.Context, c config.Config, s stores, channels *channel.Service, needs partNeeds) (*compose.Records, error) {
	if !c.Records.On {
		return nil, nil
	}
	return compose.Open(ctx, compose.Needs{
		Config: c.Records, Redis: s.records, Channels: channels, Parts: needs.parts, Log: needs.log, Metrics: needs.metrics,
	})
}
