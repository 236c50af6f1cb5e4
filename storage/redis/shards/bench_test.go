package shards_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// BenchmarkScripts reports the total cost of each script in Redis, for a data centre with the maximum number of shards.
func BenchmarkScripts(b *testing.B) {
	node := redistest.Start(b, redistest.Options{})
	h := open(b, node.URL())
	_, err := h.store.SetLayout(b.Context(), "c", "a", 0, shard.Even(shard.MaxShards))
	require.NoError(b, err)
	member := func(i int) shard.Member {
		return shard.Member{Cache: "c", DC: "a", Host: fmt.Sprintf("node-%04d.shards.example", i),
			Address: fmt.Sprintf("node-%04d.shards.example:7100", i)}
	}
	for i := range shard.MaxShards {
		_, err := h.store.Claim(b.Context(), member(i), "0123456789ABCDEFGHIJKLMNOP", time.Hour, shard.Claimed{})
		require.NoError(b, err)
	}
	hosts := h.store.Hosts("c")
	for name, do := range map[string]func(i int) error{
		"ping": func(i int) error {
			return h.store.Ping(b.Context(), member(i%shard.MaxShards), "0123456789ABCDEFGHIJKLMNOP", time.Hour, true)
		},
		"claim while all are held": func(int) error {
			_, err := h.store.Claim(b.Context(), member(shard.MaxShards), "spare", time.Hour, shard.Claimed{})
			require.ErrorIs(b, err, lease.ErrHeld)
			return nil
		},
		"status":      func(int) error { _, err := h.store.Status(b.Context(), "c"); return err },
		"hosts":       func(int) error { _, err := h.store.Hosts("c").Hosts(b.Context()); return err },
		"hosts again": func(int) error { _, err := hosts.Hosts(b.Context()); return err },
		"set refused": func(int) error {
			_, err := h.store.SetLayout(b.Context(), "c", "a", 2, shard.Even(shard.MaxShards))
			require.ErrorIs(b, err, shard.ErrChanged)
			return nil
		},
	} {
		b.Run(name, func(b *testing.B) {
			n, before := 0, node.CPU(b).Seconds()
			for b.Loop() {
				require.NoError(b, do(n))
				n++
			}
			b.ReportMetric((node.CPU(b).Seconds()-before)*1e6/float64(n), "redis-cpu-us/op")
		})
	}
}
