package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/config"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/metrics"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/wire"
)

const (
	// compareEvery is the mean interval at which a server compares its configuration with those of the other servers.
	compareEvery = 10 * time.Second
	// announcementLife is how long a server that died is still compared with.
	announcementLife = 3 * compareEvery
	// withdrawIn limits the time to withdraw the announcement of a server that stops.
	withdrawIn = time.Second
)

// comparison compares the configuration of this server with those of the other servers on its Redis.
type comparison struct {
	store  *channels.Store
	log    *slog.Logger
	server string // this one's ID

	own     atomic.Pointer[announced]
	failing bool // the last comparison failed; used by one goroutine

	mu    sync.Mutex
	found config.Differences
}

// announced is the configuration of this server.
type announced struct {
	shared config.Shared
	text   string
}

func newAnnounced(c config.Config) (*announced, error) {
	shared, err := c.Shared()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(shared)
	return &announced{shared: shared, text: string(text)}, err
}

// announcement returns the announcement of a configuration.
func (c *comparison) announcement(of *announced, life time.Duration) channels.Announcement {
	return channels.Announcement{Server: c.server, Configuration: of.text, Life: life}
}

// startComparing compares once, and then starts a part of the service that repeats it.
func startComparing(ctx context.Context, c config.Config, store *channels.Store, needs partNeeds) (*comparison, error) {
	own, err := newAnnounced(c)
	if err != nil {
		return nil, err
	}
	compared := &comparison{store: store, log: needs.log, server: id.New()}
	compared.own.Store(own)
	if err := metrics.RegisterDifferences(needs.metrics, compared.counts); err != nil {
		return nil, err
	}
	compared.compare(ctx)
	needs.parts.Run(ctx, "comparison of configurations", compared.run)
	return compared, nil
}

// run compares periodically until ctx ends.
func (c *comparison) run(ctx context.Context) error {
	for pace.Sleep(ctx, pace.Jitter(compareEvery)) {
		c.compare(ctx)
	}
	if c.failing {
		return nil
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawIn)
	defer cancel()
	if _, err := c.store.Announce(limited, c.announcement(c.own.Load(), 0)); err != nil {
		c.log.DebugContext(ctx, "cannot withdraw the announced configuration", "error", err)
	}
	return nil
}

// compare announces this server's configuration and compares it with the others'. It logs the first of successive
// failures.
func (c *comparison) compare(ctx context.Context) {
	own := c.own.Load()
	texts, err := c.store.Announce(ctx, c.announcement(own, announcementLife))
	if err != nil && !c.failing && ctx.Err() == nil {
		c.log.WarnContext(ctx, "cannot compare the configuration with those of other servers", "error", err)
	}
	if c.failing = err != nil; c.failing {
		return
	}
	var others []config.Shared
	for _, text := range texts {
		var other config.Shared
		if err := json.Unmarshal([]byte(text), &other); err != nil {
			continue // of another version
		}
		others = append(others, other)
	}
	c.report(ctx, own.shared.Differences(others))
}

// report replaces the differences, and logs them if they are others than before.
func (c *comparison) report(ctx context.Context, now config.Differences) {
	c.mu.Lock()
	before := c.found
	c.found = now
	c.mu.Unlock()
	switch {
	case reflect.DeepEqual(before, now):
	case len(now.Queues)+len(now.Channels)+len(now.Kinds) > 0:
		c.log.WarnContext(ctx, "servers on this redis are configured differently", "queues", now.Queues, "channels",
			now.Channels, "kinds", now.Kinds)
	default:
		c.log.InfoContext(ctx, "servers on this redis are no longer configured differently")
	}
}

// counts returns the number of queues, of rules for channels, and of kinds, that servers define differently.
func (c *comparison) counts() (queues, channels, kinds int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.found.Queues), len(c.found.Channels), len(c.found.Kinds)
}

// shown returns the counts for GET /v1/info.
func (c *comparison) shown() wire.Differences {
	queues, channels, kinds := c.counts()
	return wire.Differences{Queues: queues, Channels: channels, Kinds: kinds}
}
