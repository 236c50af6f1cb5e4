package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/config"
	"github.com/tidemark-dev/tidemark/storage/managed"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// storeNeeds is what a store is made with besides the configuration.
type storeNeeds struct {
	log     *slog.Logger
	metrics prometheus.Registerer
	parts   *layers
}

// openStore connects to the configured Redis, or starts one, and gives how to reach it once more.
func openStore(ctx context.Context, c config.Config, needs storeNeeds) (*redis.Store, redis.Options, error) {
	o := redis.Options{
		URL: c.Redis.Address, Username: c.Redis.Username, Password: c.Redis.Password,
		SentinelMaster: c.Redis.SentinelMaster, SentinelUsername: c.Redis.SentinelUsername, SentinelPassword: c.Redis.SentinelPassword,
		KeyPrefix: c.Redis.KeyPrefix, Timeout: c.Redis.Timeout,
		Logger: needs.log, Metrics: prometheus.WrapRegistererWith(prometheus.Labels{redisLabel: "channels"}, needs.metrics),
	}
	var err error
	if o.TLS, err = c.Redis.TLS(); err != nil {
		return nil, o, &usageError{err}
	}
	if o.URL == "" {
		if o.URL, err = startManaged(ctx, c.Managed, needs); err != nil {
			return nil, o, err
		}
		o.Kind = "managed"
	}
	store, err := connect(ctx, "redis", o, c.Redis.ConnectTimeout)
	return store, o, err
}

// connect opens a store, and gives up after patience. key is the option that names its Redis.
func connect(ctx context.Context, key string, o redis.Options, patience time.Duration) (*redis.Store, error) {
	reach, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	store, err := redis.Open(reach, o)
	switch {
	case errors.Is(err, redis.ErrOptions):
		return nil, &usageError{fmt.Errorf("%s: %w", key, err)}
	case err != nil && reach.Err() != nil:
		return nil, fmt.Errorf("%s: gave up after %s (redisConnectTimeout): %w", key, patience, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return store, nil
}

// startManaged starts a Redis as a part of the service, and gives its address when it answers. Loading much data
// can take long, and isn't limited.
func startManaged(ctx context.Context, c config.Managed, needs storeNeeds) (address string, err error) {
	m, err := managed.Open(managed.Options{DataDir: c.DataDir, Binary: c.Binary, Logger: needs.log})
	if err != nil {
		return "", err
	}
	needs.parts.run(ctx, "managed redis", m.Run)
	if err := m.Ready(ctx); err != nil {
		return "", err
	}
	return m.Address(), nil
}
