package shard

import (
	"cmp"
	"fmt"
	"slices"
)

// get is the keys and values of a Get.
type get[K any, ID comparable, V any] struct {
	c        *Client[K, ID, V]
	keys     []K // in the order of their sharding keys
	sharding []uint64
	values   map[ID]V
}

func newGet[K any, ID comparable, V any](c *Client[K, ID, V], keys []K) *get[K, ID, V] {
	type place struct {
		sharding uint64
		at       int
	}
	order := make([]place, len(keys))
	for i, k := range keys {
		order[i] = place{c.d.ShardingKey(k), i}
	}
	slices.SortFunc(order, func(a, b place) int {
		if a.sharding == b.sharding {
			return a.at - b.at
		}
		return cmp.Compare(a.sharding, b.sharding)
	})
	g := &get[K, ID, V]{c: c, keys: make([]K, len(keys)), sharding: make([]uint64, len(keys)),
		values: make(map[ID]V, len(keys))}
	for i, p := range order {
		g.keys[i], g.sharding[i] = keys[p.at], p.sharding
	}
	return g
}

// encodeError is the error of a codec of keys.
type encodeError struct{ err error }

func (e *encodeError) Error() string { return fmt.Sprintf("shard: encode keys: %v", e.err) }
func (e *encodeError) Unwrap() error { return e.err }

// request implements entries.
func (g *get[K, ID, V]) request(from, to int) (*Request, error) {
	c, n := g.c, int64(to-from)
	payload, err := c.d.Keys.Append(make([]byte, 0, (n+1)*c.bytesPerKey.Load()), g.keys[from:to:to])
	if err != nil {
		return nil, &encodeError{err}
	}
	c.bytesPerKey.Store(int64(len(payload))/n + 1)
	return &Request{Cache: c.d.Cache, Payload: payload, Keys: g.sharding[from:to:to]}, nil
}

// accept implements entries.
func (g *get[K, ID, V]) accept(from, to int, payload []byte) error {
	found, err := g.c.d.Values.Decode(payload)
	if err != nil {
		return fmt.Errorf("%w: its values can't be decoded: %w", ErrBadAnswer, err)
	}
	if len(found) > to-from {
		return fmt.Errorf("%w: it has %d values for %d keys", ErrBadAnswer, len(found), to-from)
	}
	if !g.c.asked(g.keys[from:to], found) {
		return fmt.Errorf("%w: it has values that weren't asked for", ErrBadAnswer)
	}
	for _, e := range found {
		g.values[e.ID] = e.Value
	}
	return nil
}

// asked reports whether all entries are of keys that were asked for.
func (c *Client[K, ID, V]) asked(keys []K, found []Entry[ID, V]) bool {
	at := 0 // most nodes answer in the order of the keys
	for i, e := range found {
		for at < len(keys) && c.d.EntryID(keys[at]) != e.ID {
			at++
		}
		if at == len(keys) {
			return c.askedInAnyOrder(keys, found[i:])
		}
	}
	return true
}

func (c *Client[K, ID, V]) askedInAnyOrder(keys []K, found []Entry[ID, V]) bool {
	ids := make(map[ID]struct{}, len(keys))
	for _, k := range keys {
		ids[c.d.EntryID(k)] = struct{}{}
	}
	return !slices.ContainsFunc(found, func(e Entry[ID, V]) bool {
		_, ok := ids[e.ID]
		return !ok
	})
}
