package shard

import (
	"context"
	"fmt"
	"time"
)

// serving is a shard that a node answers for.
type serving[K any, ID comparable, V any] struct {
	Claimed
	load  *load[K, ID, V]
	err   func() error     // of the claim, by the monotonic clock: nil while it is held
	until func() time.Time // it is held at least
	keep  bool             // answer until a claim is refused
}

// check returns an error when the node must not answer any longer.
func (s *serving[K, ID, V]) check() error {
	if s.keep {
		return nil // the node removes s
	}
	return s.err()
}

// Get implements Handler. Errors are also those of the source's Reader.
func (n *Node[K, ID, V]) Get(ctx context.Context, r *Request) (Response, error) {
	began := time.Now()
	resp, err := n.get(ctx, r)
	n.o.Observer.Answered(len(r.Keys), resp.AllMatched, time.Since(began), err)
	return resp, err
}

// get checks the claim before and after it reads values: a process can be paused in between.
func (n *Node[K, ID, V]) get(ctx context.Context, r *Request) (Response, error) {
	if r.Cache != n.d.Cache {
		return Response{}, ErrOtherCache
	}
	if len(r.Keys) > MaxKeys {
		return Response{}, fmt.Errorf("%w: there are %d, and at most %d are allowed", ErrUndecodable, len(r.Keys),
			MaxKeys)
	}
	s := n.serving.Load()
	if s == nil || s.check() != nil {
		return Response{}, nil
	}
	resp := Response{Assigned: true, Shard: s.Interval, Incarnation: s.Incarnation, AllMatched: s.contains(r.Keys)}
	if resp.AllMatched && len(r.Keys)+len(r.Payload) > 0 {
		payload, err := n.values(ctx, s, r)
		if err != nil {
			return Response{}, err
		}
		resp.Payload = payload
	}
	if n.serving.Load() != s || s.check() != nil {
		return Response{}, nil
	}
	return resp, nil
}

func (s *serving[K, ID, V]) contains(keys []uint64) bool {
	for _, key := range keys {
		if !s.Interval.Contains(key) {
			return false
		}
	}
	return true
}

// values reads the values of a request, and encodes them.
func (n *Node[K, ID, V]) values(ctx context.Context, s *serving[K, ID, V], r *Request) ([]byte, error) {
	keys, err := n.d.Keys.Decode(r.Payload)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrUndecodable, err) //nolint:errorlint // clients get the text only
	}
	if len(keys) != len(r.Keys) {
		return nil, fmt.Errorf("%w: there are %d keys and %d sharding keys", ErrUndecodable, len(keys), len(r.Keys))
	}
	for i, key := range keys {
		if n.d.ShardingKey(key) != r.Keys[i] {
			return nil, fmt.Errorf("%w: sharding key %d isn't that of its key", ErrUndecodable, i)
		}
	}
	entries, err := (*s.load.reader.Load())(ctx, keys)
	if err != nil {
		return nil, err
	}
	return n.d.Values.Append(nil, entries)
}
