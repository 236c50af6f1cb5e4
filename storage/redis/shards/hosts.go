package shards

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// hosts lists the nodes of a cache. It remembers the data centres, and so reads them and their holders in one round trip.
type hosts struct {
	store *Store
	cache string

	mu  sync.Mutex
	dcs []string // sorted
}

// Hosts returns the nodes of a cache that hold shards, for a client.
func (s *Store) Hosts(cache string) shard.Hosts { return &hosts{store: s, cache: cache} }

// Hosts implements shard.Hosts.
func (h *hosts) Hosts(ctx context.Context) ([]shard.Host, error) {
	if err := shard.CheckName("cache", h.cache); err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	for {
		h.mu.Lock()
		dcs := h.dcs
		h.mu.Unlock()
		var found []shard.Host
		var listed []string
		err := h.store.conn.Retry(ctx, hostsScript.Name(), func(ctx context.Context) (err error) {
			found, listed, err = h.read(ctx, dcs)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("hosts: %w", err)
		}
		if slices.Equal(dcs, listed) {
			return found, nil
		}
		h.mu.Lock()
		h.dcs = listed
		h.mu.Unlock()
	}
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
