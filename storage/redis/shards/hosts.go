package shards

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// hosts lists the nodes of a cache. It remembers the data centres, and so reads them and their holders in one round trip.
type hosts struct {
	store *Store
	cache string

	mu   sync.Mutex
	dcs  []string // sorted
	kept kept
}

// Hosts returns the nodes of a cache that hold shards, for a client. After a failure, which may have been so long that their claims have
// ended, it also returns those that held shards before, for 30 s: they claim their shards again, and some answer meanwhile.
func (s *Store) Hosts(cache string) shard.Hosts { return &hosts{store: s, cache: cache} }

// Hosts implements shard.Hosts.
func (h *hosts) Hosts(ctx context.Context) ([]shard.Host, error) {
	if err := shard.CheckName("cache", h.cache); err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	var found []shard.Host
	err := h.store.conn.Retry(ctx, hostsScript.Name(), func(ctx context.Context) (err error) {
		found, err = h.list(ctx)
		return err
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.kept.fail()
		return nil, fmt.Errorf("hosts: %w", err)
	}
	return h.kept.add(found), nil
}

// list lists the nodes that hold shards.
func (h *hosts) list(ctx context.Context) ([]shard.Host, error) {
	for {
		h.mu.Lock()
		dcs := h.dcs
		h.mu.Unlock()
		found, listed, err := h.read(ctx, dcs)
		if err != nil {
			return nil, err
		}
		if slices.Equal(dcs, listed) {
			return found, nil
		}
		h.mu.Lock()
		h.dcs = listed
		h.mu.Unlock()
	}
}

// recovery is how long nodes may take to claim their shards again after a failure: after a fail-over, one and a half times their TTL.
const recovery = 30 * time.Second

// kept is the hosts that were listed last.
type kept struct {
	hosts  []shard.Host
	failed bool      // the last read did
	until  time.Time // from before the last failure, they stay
}

func (k *kept) fail() { k.failed = true }

// add returns hosts that were read, and those that are kept.
func (k *kept) add(found []shard.Host) []shard.Host {
	now := time.Now()
	if k.failed {
		k.failed, k.until = false, now.Add(recovery)
	}
	if now.Before(k.until) {
		for _, host := range k.hosts {
			if !slices.Contains(found, host) {
				found = append(found, host)
			}
		}
	}
	k.hosts = slices.Clone(found)
	return found
}

// read reads the holders of some data centres, and which data centres there are.
func (h *hosts) read(ctx context.Context, dcs []string) (found []shard.Host, listed []string, err error) {
	conn, k, calls := h.store.conn, h.store.keys(h.cache), make([]redis.Call, len(dcs))
	for i, dc := range dcs {
		calls[i].Keys = []string{k.shards(dc)}
	}
	results, answers := conn.TryMany(ctx, hostsScript, calls, rueidis.Commands{conn.Client().B().Smembers().Key(k.dcs()).Build()})
	for i, r := range results {
		addresses, err := addresses(r)
		if err != nil {
			return nil, nil, err
		}
		for _, address := range addresses {
			found = append(found, shard.Host{Address: address, DC: dcs[i]})
		}
	}
	if listed, err = answers[0].AsStrSlice(); err != nil {
		return nil, nil, err
	}
	slices.Sort(listed)
	return found, listed, nil
}

func addresses(r redis.Result) (found []string, err error) {
	switch {
	case r.Err != nil:
		return nil, r.Err
	case r.Reply.Status != redis.OK:
		return nil, refusals.Error(r.Reply)
	}
	d := r.Reply.Decoder()
	now := d.Int64()
	for _, value := range d.Texts() {
		if h, ok := holder(value, now); ok && h.Left > 0 {
			found = append(found, h.Address)
		}
	}
	return found, d.End()
}
