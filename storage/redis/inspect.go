package redis

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
)

// newEnough reports whether a server can run the scripts: Redis 7.0 or newer, Valkey, which was forked from 7.2, or
// another one that claims to be such a Redis.
func newEnough(i topology.Info) bool {
	major, _, _ := strings.Cut(cmp.Or(i["valkey_version"], i["redis_version"]), ".")
	number, err := strconv.Atoi(major)
	return err == nil && number >= 7
}

// product returns the name and version of a server. Others also claim to be a version of Redis.
func product(i topology.Info) (name, version string) {
	for _, name := range []string{"valkey", "dragonfly", "garnet", "kvrocks"} {
		if v := i[name+"_version"]; v != "" {
			return name, v
		}
	}
	return "redis", i["redis_version"]
}

// unfit returns why scripts can't run on a server, or nil. Clocks are converted to text through a C long, which must
// have 64 bits.
func unfit(i topology.Info) error {
	switch product, version := product(i); {
	case i["redis_mode"] == "sentinel":
		return refusal.Explained(ErrSentinel, "set --redis-sentinel-master to the name of the primary that it watches")
	case !newEnough(i):
		return fmt.Errorf("%w: it is %s %s", ErrTooOld, product, cmp.Or(version, "of no version"))
	case i["arch_bits"] == "32":
		return Err32Bit
	}
	return nil
}

// primaries returns the primaries that answer. The limit of one leaves time for the others.
func (c *Conn) primaries(ctx context.Context) ([]topology.Node, error) {
	return topology.Reachable(ctx, c.client, c.timeout/2)
}

func (c *Conn) checkFit(ctx context.Context) error {
	if c.plainKeys && c.client.Mode() == rueidis.ClientModeCluster {
		return refusal.Explained(ErrCluster, fmt.Sprintf("set --%s to a standalone Redis, or leave out --records-keys plain",
			c.adviser.Option))
	}
	nodes, err := c.primaries(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := unfit(n.Info); err != nil {
			return fmt.Errorf("%s: %w", n.Address, err)
		}
		if n.Info.IsReplica() && !c.replica {
			return refusal.Explained(
				fmt.Errorf("%s: %w of %s:%s", n.Address, ErrReplica, n.Info["master_host"], n.Info["master_port"]),
				fmt.Sprintf("set --%s to the primary, or promote this server", c.adviser.Option))
		}
	}
	return nil
}

// Inspect describes the storage and its durability. For a cluster that is the weakest primary's durability.
// Errors: ErrUnavailable.
func (c *Conn) Inspect(ctx context.Context) (storage.Description, error) {
	var found storage.Description
	err := c.Retry(ctx, "inspect", func(ctx context.Context) error {
		nodes, err := c.primaries(ctx)
		if err != nil {
			return err
		}
		for i, n := range nodes {
			if description := describe(ctx, n, c.kind); i == 0 {
				found = description
			} else {
				found = storage.Weaker(found, description)
			}
		}
		return nil
	})
	if err != nil {
		return storage.Description{}, err
	}
	return found, nil
}

func describe(ctx context.Context, n topology.Node, kind string) storage.Description {
	product, version := product(n.Info)
	d := storage.Durability{
		AppendOnly:     n.Info.Number("aof_enabled") == 1,
		Fsync:          readConfig(ctx, n.Client, "appendfsync"),
		Replicas:       int(n.Info.Number("connected_slaves")),
		MostReplicas:   int(n.Info.Number("connected_slaves")),
		EvictionPolicy: cmp.Or(n.Info["maxmemory_policy"], "unknown"),
		MaxMemoryBytes: n.Info.Number("maxmemory"),
	}
	d.Level = level(d, readConfig(ctx, n.Client, "save"))
	return storage.Description{Kind: kind, Product: product, Version: version, Durability: d}
}

const unreadable = "unknown"

// readConfig reads one setting of a server. Hosted Redis often refuses that.
func readConfig(ctx context.Context, node rueidis.Client, name string) string {
	values, err := node.Do(ctx, node.B().ConfigGet().Parameter(name).Build()).AsStrMap()
	if value, ok := values[name]; ok && err == nil {
		return value
	}
	return unreadable
}

func level(d storage.Durability, save string) storage.DurabilityLevel {
	switch {
	case d.AppendOnly && d.Fsync == "always":
		return storage.DurableAlways
	case d.AppendOnly && d.Fsync == "everysec":
		return storage.DurableEverysec
	case d.AppendOnly && d.Fsync == "no":
		return storage.DurableSnapshot // the operating system decides when it is written to disk
	case d.AppendOnly, save == unreadable:
		return storage.DurableUnknown
	case save != "":
		return storage.DurableSnapshot
	default:
		return storage.DurableMemory
	}
}
