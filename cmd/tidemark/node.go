package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/cli"
	"github.com/tidemark-dev/tidemark/internal/config"
	"github.com/tidemark-dev/tidemark/internal/config/shards"
	"github.com/tidemark-dev/tidemark/internal/hostlimits"
	"github.com/tidemark-dev/tidemark/internal/shardmetrics"
	kinds "github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/records"
	stored "github.com/tidemark-dev/tidemark/storage/redis/records/tier"
	claims "github.com/tidemark-dev/tidemark/storage/redis/shards"
)

// nodeGrace is how long requests in flight may take to finish when a node stops.
const nodeGrace = 10 * time.Second

// startNode starts the parts of a node of shards, the lowest first. They are stopped in this order: the server, which fails health
// checks first and answers the requests in flight; the node, which leaves its shard; the admin listener; what the node reads from.
func startNode(ctx context.Context, c config.Config, needs partNeeds) error {
	on, err := newNodeListening(c, needs.log)
	if err != nil {
		return err
	}
	if err := on.check(ctx, needs.log); err != nil {
		return err // before Redis is connected to for nothing
	}
	hostlimits.SetMemory(ctx, false, needs.log)
	stores, err := openNodeStores(ctx, c, needs)
	if err != nil {
		return err
	}
	kind, err := tier.Find(c.Shards.Node.Cache)
	if err != nil {
		return err
	}
	source, err := openSource(ctx, c, kind, stores, needs)
	if err != nil {
		return err
	}
	l, err := on.bind(ctx, optionListen)
	if err != nil {
		return err
	}
	served := &node{kind: kind, on: on, listener: l, needs: needs}
	if err = served.start(ctx, c.Shards, source, claims.New(stores.Records)); err != nil {
		return errors.Join(err, served.close())
	}
	return nil
}

// node is a node that listens.
type node struct {
	kind     *kinds.Kind
	on       listening
	listener net.Listener // of clients; nil once the server has it
	needs    partNeeds
}

// close closes the listener, if no server does.
func (n *node) close() error {
	if n.listener == nil {
		return nil
	}
	return n.listener.Close()
}

// start starts the admin listener, the node, and its server.
func (n *node) start(ctx context.Context, o shards.Options, source *tier.Source, c shard.Claims) error {
	log := n.needs.log
	member, err := memberOf(o, n.listener.Addr())
	if err != nil {
		return err
	}
	d, err := tier.Describe(n.kind)
	if err != nil {
		return err
	}
	metrics := shardmetrics.NewNode(member)
	served, err := shard.NewNode(d, source, shard.NodeOptions{
		Member: member, Claims: c, PingPeriod: o.PingPeriod, TTL: o.Node.LeaseTTL, Margin: o.Node.Margin(),
		KeepServing: o.Node.KeepServing, Logger: log, Observer: metrics,
	})
	if err != nil {
		return err
	}
	if err := metrics.Register(n.needs.metrics, served.Ready, source.Stats); err != nil {
		return err
	}
	admin, err := newNodeAdmin(served.Ready, o.Token, n.needs)
	if err != nil {
		return err
	}
	ready := []any{"shards", n.listener.Addr().String(), "host", member.Host, "advertised", member.Address, "version", thisBuild().version}
	if n.on.addresses[optionAdmin] != "" {
		l, err := n.on.listen(ctx, optionAdmin, "http/1.1")
		if err != nil {
			return err
		}
		n.needs.parts.Run(ctx, "admin listener", func(ctx context.Context) error { return admin.serve(ctx, l) })
		ready = append(ready, "admin", n.on.urlOf(l.Addr()))
	}
	n.needs.parts.Run(ctx, "node", served.Run)
	n.serve(ctx, rpc.ServerOptions{Handler: served, Ready: served.Ready, Token: o.Token, Limits: rpc.Limits{Connections: o.Node.MaxConnections}, Logger: log}, admin.router.Drain)
	log.InfoContext(ctx, "tidemark is ready", ready...)
	return nil
}

// serve serves clients, as a part. When it is stopped it calls draining first.
func (n *node) serve(ctx context.Context, o rpc.ServerOptions, draining func()) {
	if n.on.certs != nil {
		o.TLS = n.on.certs.Config("h2")
	}
	server, l := rpc.NewServer(o), n.listener
	n.listener = nil
	n.needs.parts.Run(ctx, "server of shards", func(ctx context.Context) error {
		failed := make(chan error, 1)
		go func() { failed <- server.Serve(l) }()
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
		}
		draining()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), nodeGrace)
		defer cancel()
		return errors.Join(server.Drain(limited), <-failed)
	})
}

// newNodeListening returns how a node listens. It reads the certificate.
func newNodeListening(c config.Config, log *slog.Logger) (listening, error) {
	n := c.Shards.Node
	on := listening{
		closed: c.Shards.Token != "" || c.TLS.ClientCA != "", insecure: n.Insecure, addresses: map[string]string{optionListen: n.Listen},
		remedy: "set --shard-token-file or --tls-client-ca, or a loopback address such as 127.0.0.1; --insecure lets everybody read",
	}
	if n.AdminListen != "" {
		on.addresses[optionAdmin] = n.AdminListen
	}
	return on, on.readCertificate(c.TLS, log)
}

// nodeStores are the Redis that a node uses: that of the channels, which also has who holds which shard, and that of the caches.
type nodeStores struct {
	records.Instances
	metrics prometheus.Registerer // for the store of channels
}

// openNodeStores connects to Redis. Without a URL it is the one that a service on this machine runs.
func openNodeStores(ctx context.Context, c config.Config, needs partNeeds) (open nodeStores, err error) {
	s := storeNeeds{log: needs.log, metrics: needs.metrics, parts: needs.parts}
	conn, o, err := connectRunning(ctx, c, s)
	if err != nil {
		return open, err
	}
	needs.parts.OnStop(conn.Close)
	found, err := conn.Inspect(ctx)
	if err != nil {
		return open, fmt.Errorf("look at the storage: %w", err)
	}
	logStorage(ctx, needs.log, found)
	open = nodeStores{records.Instances{Records: conn, Sessions: conn, Cache: conn}, o.Metrics}
	return open, openCacheRedis(ctx, c, &open.Instances, s)
}

// openSource returns what a node loads, and follows by a durable channel.
func openSource(ctx context.Context, c config.Config, kind *kinds.Kind, s nodeStores, needs partNeeds) (*tier.Source, error) {
	store, err := channels.New(s.Records, channels.Options{Metrics: s.metrics})
	if err != nil {
		return nil, err
	}
	receipts, err := openReceipts(ctx, c, store, needs.parts)
	if err != nil {
		return nil, err
	}
	policies, err := channel.NewPolicies(c.Channel, []channel.Rule{tier.ChannelRule})
	if err != nil {
		return nil, err
	}
	service, err := channel.NewService(channel.Options{Store: store, Receipts: receipts, Policies: policies, Limits: c.Limits, Logger: needs.log})
	if err != nil {
		return nil, err
	}
	needs.parts.Run(ctx, "channel service", service.Run)
	return tier.NewSource(tier.SourceOptions{
		Kind: kind, Values: stored.NewValues(s.Cache), Channels: service, Life: func(ctx context.Context) (string, error) { return stored.Life(ctx, s.Records) },
		Reload: c.Shards.Node.Reload, Rate: c.Shards.Node.LoadRate, MaxBytes: int64(c.Shards.Node.Memory), Logger: needs.log,
	}), nil
}

// memberOf returns who a node is that listens on an address.
func memberOf(o shards.Options, at net.Addr) (shard.Member, error) {
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
		return m, &cli.UsageError{Err: fmt.Errorf("shardHostName: isn't set, and the machine's name can't be taken: %w", err)}
	}
	return m, nil
}
