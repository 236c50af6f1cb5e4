package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/lifecycle"
	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	domain "github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/records"
	claims "github.com/tidemark-dev/tidemark/storage/redis/shards"
)

// grace is how long requests in flight may take to finish when a node stops.
const grace = 10 * time.Second

// nodeNeeds is the dependencies of a node.
type nodeNeeds struct {
	Config   config.ShardOptions
	Kinds    *domain.Table
	Shards   *redis.Conn   // the Redis with the claims of shards and the announcements
	Cache    *redis.Conn   // the Redis of the values
	Channels tier.Channels // on Shards, with tier.ChannelRule
	Listener net.Listener  // of clients, for TCP without TLS; Start closes it
	TLS      *tls.Config   // of clients; nil: without TLS
	Admin    net.Listener  // of administrators; nil: none; Start closes it
	Parts    *lifecycle.Stack
	Log      *slog.Logger
	Metrics  *prometheus.Registry
}

// startShardNode starts the parts of a node, the lowest first. They are stopped in this order: the server, which fails
// health checks first and answers the requests in flight; the node, which leaves its shard; the admin listener. It
// returns the node's member.
func startShardNode(ctx context.Context, n nodeNeeds) (shard.Member, error) {
	served, admin, member, err := n.build()
	if err != nil {
		return member, errors.Join(err, n.close())
	}
	if n.Admin != nil {
		n.Parts.Run(ctx, "admin listener", func(ctx context.Context) error { return admin.serve(ctx, n.Admin) })
	}
	n.Parts.Run(ctx, "node", served.Run)
	n.serve(ctx, rpc.NewServer(rpc.ServerOptions{
		Handler: served, Ready: served.Ready, TLS: n.TLS, Token: n.Config.Token,
		Limits: rpc.Limits{Connections: n.Config.Node.MaxConnections}, Logger: n.Log,
	}), admin.router.Stop)
	return member, nil
}

// close closes the listeners that no server has.
func (n nodeNeeds) close() error {
	err := n.Listener.Close()
	if n.Admin != nil {
		err = errors.Join(err, n.Admin.Close())
	}
	return err
}

// build returns the node and its administration.
func (n nodeNeeds) build() (served *shard.Node[string, string, []byte], admin *administration, member shard.Member,
	err error) {
	o := n.Config
	if member, err = memberOf(o, n.Listener.Addr()); err != nil {
		return nil, nil, member, err
	}
	kind, err := tier.Find(n.Kinds, o.Node.Cache)
	if err != nil {
		return nil, nil, member, err
	}
	d, err := tier.Describe(kind)
	if err != nil {
		return nil, nil, member, err
	}
	source := tier.NewSource(tier.SourceOptions{
		Kind: kind, Values: records.NewValues(n.Cache), Channels: n.Channels, Life: func(ctx context.Context) (string,
			error) {
			return records.Life(ctx, n.Shards)
		},
		Reload: o.Node.Reload, Rate: o.Node.LoadRate, MaxBytes: int64(o.Node.Memory), Logger: n.Log,
	})
	metrics := metrics.NewShardNode(member)
	served, err = shard.NewNode(d, source, shard.NodeOptions{
		Member: member, Claims: claims.New(n.Shards), PingPeriod: o.PingPeriod, TTL: o.Node.LeaseTTL,
		Margin:      o.Node.Margin(),
		KeepServing: o.Node.KeepServing, Logger: n.Log, Observer: metrics,
	})
	if err != nil {
		return nil, nil, member, err
	}
	if err := metrics.Register(n.Metrics, served.Ready, source.Stats); err != nil {
		return nil, nil, member, err
	}
	admin, err = newAdministration(served.Ready, n)
	return served, admin, member, err
}

// serve serves clients, as a part. When it is stopped it calls draining first.
func (n nodeNeeds) serve(ctx context.Context, server *rpc.Server, draining func()) {
	n.Parts.Run(ctx, "server of shards", func(ctx context.Context) error {
		failed := make(chan error, 1)
		go func() { failed <- server.Serve(n.Listener) }()
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
		}
		draining()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		return errors.Join(server.Drain(limited), <-failed)
	})
}

// memberOf returns the identity of a node that listens on an address.
func memberOf(o config.ShardOptions, at net.Addr) (shard.Member, error) {
	m := shard.Member{Cache: o.Node.Cache, DC: o.DC, Host: o.Node.Host, Address: cmp.Or(o.Node.Advertise, at.String())}
	if m.Host != "" {
		return m, nil
	}
	machine, err := os.Hostname()
	if err != nil {
		return m, fmt.Errorf("shardHostName: isn't set, and the machine's name isn't known: %w", err)
	}
	_, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return m, err
	}
	m.Host = machine + "-" + port
	if err := shard.CheckName("host", m.Host); err != nil {
		return m, &cli.UsageError{Err: fmt.Errorf("shardHostName: isn't set, and the machine's name can't be taken: %w",
			err)}
	}
	return m, nil
}
