package shard_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
)

// packed is a compact codec for strings and entries.
type packed struct{}

func (packed) Append(dst []byte, keys []string) ([]byte, error) {
	for _, k := range keys {
		dst = append(binary.AppendUvarint(dst, uint64(len(k))), k...)
	}
	return dst, nil
}

func (packed) Decode(data []byte) (all []string, _ error) {
	for len(data) > 0 {
		n, head := binary.Uvarint(data)
		if head <= 0 || n > uint64(len(data)-head) {
			return nil, errors.New("cut off")
		}
		end := head + int(n)
		all = append(all, string(data[head:end]))
		data = data[end:]
	}
	return all, nil
}

type packedEntries struct{}

func (packedEntries) Append(dst []byte, entries []shard.Entry[string, string]) ([]byte, error) {
	for _, e := range entries {
		dst, _ = packed{}.Append(dst, []string{e.ID, e.Value})
	}
	return dst, nil
}

func (packedEntries) Decode(data []byte) ([]shard.Entry[string, string], error) {
	all, err := packed{}.Decode(data)
	entries := make([]shard.Entry[string, string], len(all)/2)
	for i := range entries {
		entries[i] = shard.Entry[string, string]{ID: all[2*i], Value: all[2*i+1]}
	}
	return entries, err
}

// echo simulates nodes that know all answers.
type echo struct {
	shards  map[string]shard.Interval // by address
	mu      sync.RWMutex
	answers map[string][]byte // by encoded keys
}

func (e *echo) Retain([]string) {}

func (e *echo) Call(_ context.Context, address string, r *shard.Request) (shard.Response, error) {
	e.mu.RLock()
	answer, ok := e.answers[string(r.Payload)]
	e.mu.RUnlock()
	if !ok { // for the first time
		keys, _ := packed{}.Decode(r.Payload)
		for _, k := range keys {
			answer, _ = packed{}.Append(answer, []string{k, fmt.Sprintf("%0100d", len(k))})
		}
		e.mu.Lock()
		e.answers[string(r.Payload)] = answer
		e.mu.Unlock()
	}
	return shard.Response{Assigned: true, Shard: e.shards[address], Incarnation: 1, AllMatched: true, Payload: answer},
		nil
}

// The cost of the client itself: a Get of 100 keys over 4 shards in 3 data centres, whose nodes answer at once.
func BenchmarkGet(b *testing.B) {
	d := shard.Description[string, string, string]{
		Cache: "bench", ShardingKey: shard.HashString, EntryID: func(k string) string { return k }, Keys: packed{},
		Values: packedEntries{},
	}
	layout := shard.Layout{Generation: 1, Starts: shard.Even(4)}
	e := &echo{shards: map[string]shard.Interval{}, answers: map[string][]byte{}}
	var hosts shard.StaticHosts
	for i := range 12 {
		address := fmt.Sprint("host", i)
		hosts = append(hosts, shard.Host{Address: address, DC: fmt.Sprint("dc", i/4)})
		e.shards[address] = layout.Interval(i % 4)
	}
	c, err := shard.NewClient(d, shard.ClientOptions{Hosts: hosts, Transport: e})
	require.NoError(b, err)
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprintf("author-%08d", i)
	}
	_, err = c.Get(ctx, keys)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		values, err := c.Get(ctx, keys)
		if err != nil || len(values) != len(keys) {
			b.Fatal(err)
		}
	}
	stop()
	require.NoError(b, <-done)
}
