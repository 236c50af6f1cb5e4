package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/records"
)

// startNode starts the parts of a node of shards: what it reads from, and then package node. They are stopped in
// reverse order.
func startNode(ctx context.Context, c config.Config, needs partNeeds) error {
	on, err := newNodeListening(c, needs.log)
	if err != nil {
		return err
	}
	if err := on.check(ctx, needs.log); err != nil {
		return err // without connecting to Redis
	}
	if err := on.register(needs.metrics); err != nil {
		return err
	}
	setMemory(ctx, false, needs.log)
	n := nodeNeeds{Config: c.Shards, Kinds: c.Records.Site.Table, Parts: needs.parts, Log: needs.log,
		Metrics: needs.metrics}
	if err := openNodeStores(ctx, c, &n); err != nil {
		return err
	}
	if n.Listener, err = on.bind(ctx, optionListen); err != nil {
		return err
	}
	if on.certs != nil {
		n.TLS = on.certs.Config("h2")
	}
	if on.addresses[optionAdmin] != "" {
		if n.Admin, err = on.listen(ctx, optionAdmin, "http/1.1"); err != nil {
			return errors.Join(err, n.Listener.Close())
		}
	}
	member, err := startShardNode(ctx, n)
	if err != nil {
		return err
	}
	watch := watched(on, n.Listener, n.Admin)
	if n.Admin == nil {
		watch = watch.overHTTP2()
	}
	if err := startWatchdog(ctx, watch, needs); err != nil {
		return err
	}
	ready := []any{"shards", n.Listener.Addr().String(), "host", member.Host, "advertised", member.Address, "version",
		thisBuild().version}
	if n.Admin != nil {
		ready = append(ready, "admin", on.urlOf(n.Admin.Addr()))
	}
	needs.log.InfoContext(ctx, "tidemark is ready", ready...)
	return nil
}

// newNodeListening returns how a node listens. It reads the certificate.
func newNodeListening(c config.Config, log *slog.Logger) (listening, error) {
	n := c.Shards.Node
	on := listening{
		closed: c.Shards.Token != "" || c.TLS.ClientCA != "", insecure: n.Insecure,
		addresses: map[string]string{optionListen: n.Listen},
		named:     config.InNode,
		remedy: fmt.Sprintf("set %s or %s, or a loopback address such as 127.0.0.1; %s lets everybody read",
			config.InNode("shard-token-file"), config.InNode("tls-client-ca"), config.InNode("insecure")),
	}
	if n.AdminListen != "" {
		on.addresses[optionAdmin] = n.AdminListen
	}
	return on, on.readCertificate(c.TLS, log)
}

// openNodeStores connects a node to the Redis of the channels and to that of the caches, and starts a service of the
// channels. Without a URL Redis is the one that a service on this machine runs.
func openNodeStores(ctx context.Context, c config.Config, n *nodeNeeds) error {
	s := storeNeeds{log: n.Log, metrics: n.Metrics, parts: n.Parts}
	conn, o, err := connectRunning(ctx, c, s)
	if err != nil {
		return err
	}
	n.Parts.OnStop(conn.Close)
	if _, err := (another{key: ofChannels.key, of: ofShards}).require(ctx, c, conn, n.Log); err != nil {
		return err
	}
	n.Parts.Run(ctx, "failovers of Redis", conn.WatchFailovers)
	open := records.Instances{Records: conn, Sessions: conn, Cache: conn}
	if err := openCacheRedis(ctx, c, &open, s); err != nil {
		return err
	}
	n.Shards, n.Cache = conn, open.Cache
	store, err := channels.New(conn, channels.Options{Metrics: o.Metrics})
	if err != nil {
		return err
	}
	n.Parts.OnStop(store.Close)
	receipts, err := openReceipts(ctx, c, store, n.Parts)
	if err != nil {
		return err
	}
	policies, err := channel.NewPolicies(c.Channel, []channel.Rule{tier.ChannelRule})
	if err != nil {
		return err
	}
	service, err := channel.NewService(channel.Options{Store: store, Receipts: receipts.ring,
		LookUp: receipts.lookUp, Policies: policies, Limits: c.Limits, Logger: n.Log})
	if err != nil {
		return err
	}
	n.Parts.Run(ctx, "channel service", service.Run)
	n.Channels = service
	return nil
}
