package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
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

	peers   *peers
	wake    chan struct{} // buffered (capacity 1): this server has changed
	own     atomic.Pointer[announced]
	failing bool // the last comparison failed; used by one goroutine

	mu    sync.Mutex
	found config.Differences
}

// announced is the announcement of a server.
type announced struct {
	config.Shared
	Server client.PeerServer `json:"server"`
}

func newAnnounced(c config.Config) (*announced, error) {
	shared, err := c.Shared()
	return &announced{Shared: shared}, err
}

// announce announces this server for a time, and returns the other servers.
func (c *comparison) announce(ctx context.Context, of *announced, life time.Duration) ([]channels.Announced, time.Time,
	error) {
	text, err := json.Marshal(announced{Shared: of.Shared, Server: c.peers.self()})
	if err != nil {
		return nil, time.Time{}, err
	}
	return c.store.Announce(ctx, channels.Announcement{Server: c.server, Configuration: string(text), Life: life})
}

// listening adds the addresses of this server, and announces them.
func (c *comparison) listening(urls ...string) {
	c.peers.change(func(own *client.PeerServer) { own.Listen = append(own.Listen, urls...) })
	pace.Signal(c.wake)
}

// startComparing compares once, and then starts a part of the service that repeats it.
func startComparing(ctx context.Context, c config.Config, store *channels.Store, needs partNeeds) (*comparison, error) {
	own, err := newAnnounced(c)
	if err != nil {
		return nil, err
	}
	compared := &comparison{store: store, log: needs.log, server: id.New(), wake: make(chan struct{}, 1)}
	compared.peers = newPeers(compared.server)
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
	for pace.SleepUntil(ctx, pace.Jitter(compareEvery), c.wake) {
		c.compare(ctx)
	}
	if c.failing {
		return nil
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawIn)
	defer cancel()
	if _, _, err := c.announce(limited, c.own.Load(), 0); err != nil {
		c.log.DebugContext(ctx, "cannot withdraw the announced configuration", "error", err)
	}
	return nil
}

// compare announces this server's configuration and compares it with the others'. It logs the first of successive
// failures.
func (c *comparison) compare(ctx context.Context) {
	own := c.own.Load()
	found, now, err := c.announce(ctx, own, announcementLife)
	if err != nil && !c.failing && ctx.Err() == nil {
		c.log.WarnContext(ctx, "cannot compare the configuration with those of other servers", "error", err)
	}
	if c.failing = err != nil; c.failing {
		return
	}
	var others []config.Shared
	servers := []client.PeerServer{}
	for _, running := range found {
		var other announced
		if err := json.Unmarshal([]byte(running.Configuration), &other); err != nil {
			continue // of another version
		}
		others = append(others, other.Shared)
		other.Server.SeenAt = running.Ends.Add(-announcementLife)
		servers = append(servers, other.Server)
	}
	c.peers.seen(servers, now)
	c.report(ctx, own.Differences(others))
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
func (c *comparison) shown() client.Differences {
	queues, channels, kinds := c.counts()
	return client.Differences{Queues: queues, Channels: channels, Kinds: kinds}
}
