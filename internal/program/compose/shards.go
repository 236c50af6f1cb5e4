package compose

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/hosts"
	"github.com/tidemark-dev/tidemark/shard/rpc"
	tierstore "github.com/tidemark-dev/tidemark/storage/redis/records"
	claims "github.com/tidemark-dev/tidemark/storage/redis/shards"
)

const (
	// nodeTimeout is how long a node may take to answer. Reads fall back to Redis long before, so there are no retries.
	nodeTimeout = time.Second
	// maxLate is the number of a client's calls that continue after they aren't needed any more, to learn from their
	// answers.
	maxLate = 1000
)

// throughShards returns a store that reads the configured kinds through nodes of shards, and enables announcements of
// its changes to these.
func throughShards(ctx context.Context, n Needs, store *tierstore.Caches) (records.CacheStore, error) {
	if len(n.Shards.Reads.Caches) == 0 {
		return store, nil
	}
	metrics, err := metrics.NewShardClients(n.Metrics)
	if err != nil {
		return nil, fmt.Errorf("metrics of shards: %w", err)
	}
	var kinds []*records.Kind
	clients := make(map[*records.Kind]tier.Client)
	for _, name := range n.Shards.Reads.Caches {
		kind, err := tier.Find(n.Config.Site.Table, name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(kinds, kind) {
			continue
		}
		kinds = append(kinds, kind)
		if clients[kind], err = openClient(ctx, n, kind, metrics.Of(kind.Name)); err != nil {
			return nil, fmt.Errorf("read %s through shards: %w", kind.Name, err)
		}
	}
	announcer := tierstore.NewAnnouncer(n.Channels, kinds, n.Redis.Records.Timeout())
	n.Parts.OnStop(announcer.Close)
	store.Announce(announcer)
	through := tier.NewThrough(tier.ThroughOptions{Store: store, Clients: clients, Timeout: n.Shards.Reads.Timeout,
		Metrics: metrics})
	n.Parts.Run(ctx, "reads through shards", through.Run)
	return through, nil
}

// openClient starts a client of the nodes of a kind. It has connections of its own.
func openClient(ctx context.Context, n Needs, kind *records.Kind, observer shard.Observer) (tier.Client, error) {
	o := n.Shards
	d, err := tier.Describe(kind)
	if err != nil {
		return nil, err
	}
	at, err := hostsOf(o.Reads, kind, n)
	if err != nil {
		return nil, err
	}
	encrypted, err := o.Reads.TLSConfig()
	if err != nil {
		return nil, err
	}
	transport := rpc.NewClient(rpc.ClientOptions{TLS: encrypted, Token: o.Token})
	n.Parts.OnStop(transport.Close)
	client, err := shard.NewClient(d, shard.ClientOptions{
		Hosts: at, Transport: transport, PingPeriod: o.PingPeriod, Timeout: nodeTimeout, Retries: -1, LocalDC: o.DC,
		MaxLate: maxLate, SkipPings: true, Observer: observer, Logger: n.Log,
	})
	if err != nil {
		return nil, err
	}
	n.Parts.Run(ctx, "client of shards", client.Run)
	return client, nil
}

// hostsOf returns the addresses of the nodes of a kind.
func hostsOf(r config.ShardReads, kind *records.Kind, n Needs) (shard.Hosts, error) {
	if slices.Equal(r.Hosts, []string{config.HostsOfRedis}) {
		return claims.New(n.Redis.Records).Hosts(kind.Name), nil
	}
	return hosts.Parse(r.Hosts, net.DefaultResolver)
}
