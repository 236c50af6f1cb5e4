package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/program/compose"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
	"github.com/tidemark-dev/tidemark/storage/redis/records"
)

// openRecordsRedis connects to the Redis of sessions and to that of caches, unless they are that of the channels. It
// refuses one that may evict sessions.
func openRecordsRedis(ctx context.Context, c config.Config, channels *redis.Conn, needs storeNeeds) (records.Instances,
	error) {
	if !c.Records.On {
		return records.Instances{}, nil
	}
	open := records.Instances{Records: channels, Sessions: channels, Cache: channels}
	if sessions := ofSessions(c); sessions.url != "" {
		conn, _, err := openAnother(ctx, c, sessions, needs)
		if err != nil {
			return open, err
		}
		open.Sessions = conn
	}
	return open, openCacheRedis(ctx, c, &open, needs)
}

// openCacheRedis connects to the Redis of caches, unless it is that of the channels.
func openCacheRedis(ctx context.Context, c config.Config, open *records.Instances, needs storeNeeds) error {
	cache := ofCache(c)
	if cache.url == "" {
		return nil
	}
	conn, found, err := openAnother(ctx, c, cache, needs)
	if err != nil {
		return err
	}
	d := found.Durability
	needs.log.InfoContext(ctx, "storage found", "of", "cache", "kind", found.Kind, "product", found.Product, "version",
		found.Version,
		"eviction", d.EvictionPolicy, "maxMemory", d.MaxMemoryBytes, "meaning", "the cache may evict, and may be lost")
	open.Cache = conn
	return nil
}

func openAnother(ctx context.Context, c config.Config, a another, needs storeNeeds) (*redis.Conn, storage.Description,
	error) {
	o, err := a.options(c, needs)
	if err != nil {
		return nil, storage.Description{}, err
	}
	return a.connect(ctx, c, o, needs)
}

// startKeyMetrics starts the count of the keys of all Redis servers, if any kinds are configured.
func startKeyMetrics(ctx context.Context, c config.RecordOptions, s stores, needs partNeeds) error {
	m := c.Metrics
	if len(m.Kinds) == 0 {
		return nil
	}
	metrics, err := metrics.NewKeys(needs.metrics, redisLabel)
	if err != nil {
		return fmt.Errorf("key metrics: %w", err)
	}
	leases, err := lease.NewManager(leases.New(s.conn), lease.Options{TTL: 30 * time.Second, Logger: needs.log})
	if err != nil {
		return err
	}
	w := &keyspace.Watch{
		Leases: leases, Table: c.Site.Table, Sources: keySources(s), Kinds: m.Kinds,
		Rate: m.Rate, Every: m.Every, Metrics: metrics, Log: needs.log,
	}
	needs.parts.Run(ctx, "key metrics", func(ctx context.Context) error {
		if err := w.Run(ctx); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	return nil
}

// keySources returns the keys of all Redis servers.
func keySources(s stores) map[string]keyspace.Source {
	sources := map[string]keyspace.Source{}
	for _, server := range s.each() {
		sources[server.of] = records.NewKeySource(server.conn)
	}
	return sources
}

// startRecords starts the services of records, and the metrics of keys. It returns nil if records are off.
func startRecords(
	ctx context.Context, c config.Config, s stores, channels *channel.Service, known *credentials, needs partNeeds,
) (*compose.Records, error) {
	if err := startKeyMetrics(ctx, c.Records, s, needs); err != nil || !c.Records.On {
		return nil, err
	}
	n := compose.Needs{
		Config: c.Records, Shards: c.Shards, Redis: s.records, Channels: channels, Copies: c.Copies(),
		Parts: needs.parts,
		Log:   needs.log, Metrics: needs.metrics,
	}
	if known == nil {
		return compose.Open(ctx, n)
	}
	n.Revoked = known.keys
	open, err := compose.Open(ctx, n)
	if err == nil {
		known.sessions, err = open.SessionCredentials(ctx)
	}
	return open, err
}
