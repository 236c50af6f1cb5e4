package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
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

// Prepare implements entries.
func (g *get[K, ID, V]) Prepare(from, to int) (hostCall, error) {
	c, n := g.c, int64(to-from)
	payload, err := c.d.Keys.Append(make([]byte, 0, (n+1)*c.bytesPerKey.Load()), g.keys[from:to:to])
	if err != nil {
		return nil, &encodeError{err}
	}
	c.bytesPerKey.Store(int64(len(payload))/n + 1)
	r := &Request{Cache: c.d.Cache, Payload: payload, Keys: g.sharding[from:to:to]}
	return func(ctx context.Context, h *peer) ([]byte, error) { // it may outlive the Get, and so doesn't keep g
		answer, err := c.fleet.ask(ctx, h, r)
		return answer.Payload, err
	}, nil
}

// Accept implements entries.
func (g *get[K, ID, V]) Accept(from, to int, payload []byte) error {
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

// UnansweredError is the error of a Get that has no answer for some keys.
type UnansweredError[K any] struct {
	Keys  []K         // without an answer
	Hosts []HostError // of each host that was asked for some of them; one for each set of keys that it was asked for
	Asked int         // how many keys the Get had
	Lost  int         // how many of Keys no host has
	Err   error       // why the Get ended: that of its context, or ErrNotRunning; nil: all hosts had answered or failed
}

// HostError is the failure of a host to answer a Get.
type HostError struct {
	Host Host
	Keys int // that it was asked for
	Err  error
}

// errSilent is the error of a host that hadn't answered when the Get ended.
var errSilent = errors.New("no answer yet")

func (g *get[K, ID, V]) unanswered(parts []unanswered, err error) *UnansweredError[K] {
	if errors.Is(err, errEnded) {
		err = ErrNotRunning
	}
	e := &UnansweredError[K]{Err: err, Asked: len(g.keys)}
	for _, p := range parts {
		e.Keys = append(e.Keys, g.keys[p.From:p.To]...)
		if p.NoHost {
			e.Lost += p.To - p.From
		}
		asked := len(e.Hosts)
		for i, said := range p.Said {
			e.Hosts = append(e.Hosts, HostError{Host: hostOf(p.Hosts[i]), Keys: p.To - p.From,
				Err: cmp.Or(said, errSilent)})
		}
		slices.SortFunc(e.Hosts[asked:],
			func(a, b HostError) int { return cmp.Compare(a.Host.Address, b.Host.Address) })
	}
	return e
}

// Bounds of an error's text.
const (
	maxNamed     = 24
	maxNameBytes = 64
	maxSaidBytes = 256
)

// Error names the first keys, and the errors of the first hosts.
func (e *UnansweredError[K]) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "shard: no answer for %d of %d keys", len(e.Keys), e.Asked)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	b.WriteString(": keys ")
	list(&b, e.Keys, ", ", func(k K) string { return shorten(fmt.Sprintf("%v", k), maxNameBytes) })
	if e.Lost > 0 {
		fmt.Fprintf(&b, "; no host has the shard of %d of them", e.Lost)
	}
	if len(e.Hosts) > 0 {
		b.WriteString("; ")
		list(&b, e.Hosts, "; ", func(h HostError) string {
			return fmt.Sprintf("%s: %s", h.Host, shorten(h.Err.Error(), maxSaidBytes))
		})
	}
	return b.String()
}

// Unwrap returns Err.
func (e *UnansweredError[K]) Unwrap() error { return e.Err }

func list[T any](b *strings.Builder, all []T, separator string, text func(T) string) {
	for i, one := range all {
		if i > 0 {
			b.WriteString(separator)
		}
		if i == maxNamed {
			fmt.Fprintf(b, "and %d more", len(all)-i)
			return
		}
		b.WriteString(text(one))
	}
}

func shorten(text string, to int) string {
	if len(text) <= to {
		return text
	}
	for to > 0 && !utf8.RuneStart(text[to]) {
		to--
	}
	return text[:to] + "..."
}
