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

// hosts lists the nodes of a cache. It remembers the data centres, to read them and their holders in one round trip,
// and the holders, which it reads again only if they have changed.
type hosts struct {
	store *Store
	cache string

	mu   sync.Mutex
	dcs  []*dcHosts // sorted; they aren't changed
	kept kept
}

// dcHosts is the last state read of a data centre.
type dcHosts struct {
	name      string
	version   string // "": nothing was read
	read      time.Time
	addresses []string
}

// fresh is how long the holders of an unchanged version are used: a claim that expires doesn't change the version.
const fresh = 10 * time.Second

// known returns the version to be skipped by a read.
func (d *dcHosts) known() string {
	if time.Since(d.read) > fresh {
		return ""
	}
	return d.version
}

// Hosts returns the nodes of a cache that hold shards, for a client. After a failure, during which claims may have
// ended, it also returns the previous holders for 30 s: they claim their shards again, and some answer meanwhile.
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

// list returns the nodes that hold shards.
func (h *hosts) list(ctx context.Context) (found []shard.Host, err error) {
	h.mu.Lock()
	dcs := h.dcs
	h.mu.Unlock()
	for {
		read, listed, err := h.read(ctx, dcs)
		if err != nil {
			return nil, err
		}
		if slices.EqualFunc(read, listed, func(d *dcHosts, name string) bool { return d.name == name }) {
			dcs = read
			break
		}
		dcs = nil
		for _, name := range listed {
			dcs = append(dcs, &dcHosts{name: name})
		}
	}
	h.mu.Lock()
	h.dcs = dcs
	h.mu.Unlock()
	for _, d := range dcs {
		for _, address := range d.addresses {
			found = append(found, shard.Host{Address: address, DC: d.name})
		}
	}
	return found, nil
}

// recovery is the time within which nodes claim their shards again after a failure: after a fail-over, one and a half
// times their TTL.
const recovery = 30 * time.Second

// kept is the hosts of earlier lists.
type kept struct {
	hosts  []shard.Host
	failed bool      // the last read failed
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
func (h *hosts) read(ctx context.Context, dcs []*dcHosts) (read []*dcHosts, listed []string, err error) {
	conn, k, calls := h.store.conn, h.store.keys(h.cache), make([]redis.Call, len(dcs))
	for i, d := range dcs {
		calls[i] = redis.Call{Keys: []string{k.layout(d.name), k.shards(d.name)}, Args: []string{d.known()}}
	}
	results, answers := conn.TryMany(ctx, hostsScript, calls,
		rueidis.Commands{conn.Client().B().Smembers().Key(k.dcs()).Build()})
	for i, r := range results {
		now, err := dcs[i].next(r)
		if err != nil {
			return nil, nil, err
		}
		read = append(read, now)
	}
	if listed, err = answers[0].AsStrSlice(); err != nil {
		return nil, nil, err
	}
	slices.Sort(listed)
	return read, listed, nil
}

// next returns the state of a data centre after an answer.
func (d *dcHosts) next(r redis.Result) (*dcHosts, error) {
	switch {
	case r.Err != nil:
		return nil, r.Err
	case r.Reply.Status == statusSame:
		return d, nil
	case r.Reply.Status != redis.OK:
		return nil, refusals.Error(r.Reply)
	}
	reply := r.Reply.Decoder()
	next := &dcHosts{name: d.name, version: reply.Text(), read: time.Now()}
	now := reply.Int64()
	for _, value := range reply.Texts() {
		if h, ok := holder(value, now); ok && h.Left > 0 {
			next.addresses = append(next.addresses, h.Address)
		}
	}
	return next, reply.End()
}
