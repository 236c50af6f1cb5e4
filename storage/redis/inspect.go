package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage"
)

// info is the fields of a node's INFO.
type info map[string]string

func (c *Conn) nodeInfo(ctx context.Context, node rueidis.Client) (info, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout/2) // leaves time for the other nodes
	defer cancel()
	text, err := node.Do(ctx, node.B().Info().Build()).ToString()
	if err != nil {
		return nil, err
	}
	return parseInfo(text), nil
}

// parseInfo parses the reply to INFO.
func parseInfo(text string) info {
	fields := info{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// product returns the name and version. Valkey also claims to be Redis 7.2.4.
func (i info) product() (name, version string) {
	if v := i["valkey_version"]; v != "" {
		return "valkey", v
	}
	return "redis", i["redis_version"]
}

// newEnough reports whether the server can run the scripts: Redis 7.0 or newer, or Valkey, which was forked from 7.2.
func (i info) newEnough() bool {
	_, version := i.product()
	major, _, _ := strings.Cut(version, ".")
	number, err := strconv.Atoi(major)
	return err == nil && number >= 7
}

// unfit returns why scripts can't run on the server, or nil. Clocks are converted to text through a C long, which must
// have 64 bits.
func (i info) unfit() error {
	switch product, version := i.product(); {
	case i["redis_mode"] == "sentinel":
		return ErrSentinel
	case !i.newEnough():
		return fmt.Errorf("%w: it is %s %s", ErrTooOld, product, cmp.Or(version, "of no version"))
	case i["arch_bits"] == "32":
		return Err32Bit
	}
	return nil
}

func (i info) number(field string) int64 {
	n, _ := strconv.ParseInt(i[field], 10, 64) // a missing field counts as 0
	return n
}

// primaries returns the primaries that can be reached: a part of a cluster may be down.
func (c *Conn) primaries(ctx context.Context) ([]node, error) {
	var found []node
	var failed error
	for address, client := range c.client.Nodes() {
		fields, err := c.nodeInfo(ctx, client)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("INFO of %s: %w", address, err))
			continue
		}
		if fields["role"] != "slave" || c.client.Mode() == rueidis.ClientModeStandalone {
			found = append(found, node{address: address, client: client, info: fields})
		}
	}
	if len(found) == 0 {
		return nil, cmp.Or(failed, errors.New("no primary was found"))
	}
	slices.SortFunc(found, func(a, b node) int { return cmp.Compare(a.address, b.address) })
	return found, nil
}

type node struct {
	address string
	client  rueidis.Client
	info    info
}

func (c *Conn) checkFit(ctx context.Context) error {
	if c.plainKeys && c.client.Mode() == rueidis.ClientModeCluster {
		return ErrCluster
	}
	nodes, err := c.primaries(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := n.info.unfit(); err != nil {
			return fmt.Errorf("%s: %w", n.address, err)
		}
		if n.info["role"] == "slave" && !c.replica {
			return fmt.Errorf("%s: %w of %s:%s", n.address, ErrReplica, n.info["master_host"], n.info["master_port"])
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
			if description := n.storage(ctx, c.kind); i == 0 {
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
	found.Durability.Warnings = found.Warnings()
	return found, nil
}

func (n node) storage(ctx context.Context, kind string) storage.Description {
	product, version := n.info.product()
	d := storage.Durability{
		AppendOnly:     n.info.number("aof_enabled") == 1,
		Fsync:          n.config(ctx, "appendfsync"),
		Replicas:       int(n.info.number("connected_slaves")),
		MostReplicas:   int(n.info.number("connected_slaves")),
		EvictionPolicy: cmp.Or(n.info["maxmemory_policy"], "unknown"),
		MaxMemoryBytes: n.info.number("maxmemory"),
	}
	d.Level = level(d, n.config(ctx, "save"))
	return storage.Description{Kind: kind, Product: product, Version: version, Durability: d}
}

const unreadable = "unknown"

// config reads one setting. Hosted Redis often refuses that.
func (n node) config(ctx context.Context, name string) string {
	values, err := n.client.Do(ctx, n.client.B().ConfigGet().Parameter(name).Build()).AsStrMap()
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
