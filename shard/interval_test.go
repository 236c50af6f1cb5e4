package shard_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/shard"
)

// Every sharding key is in exactly one shard, also at the ends.
func TestLayouts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		starts := shard.Even(rapid.IntRange(1, shard.MaxShards).Draw(t, "shards"))
		require.NoError(t, shard.CheckStarts(starts))
		l := shard.Layout{Generation: 1, Starts: starts}
		at := rapid.IntRange(0, len(starts)-1).Draw(t, "shard")
		in := l.Interval(at)
		for _, key := range []uint64{in.First, in.Last, rapid.Uint64Range(in.First, in.Last).Draw(t, "key")} {
			require.Equal(t, at, l.Find(key))
			require.True(t, in.Contains(key))
		}
		require.Equal(t, 0, l.Find(0))
		require.Equal(t, len(starts)-1, l.Find(math.MaxUint64))
		if at > 0 {
			require.Equal(t, in.First-1, l.Interval(at-1).Last)
		}
	})
}

func TestBadLayouts(t *testing.T) {
	t.Parallel()
	for name, starts := range map[string][]uint64{
		"has no shards": {}, "a gap": {1, 2}, "an overlap": {0, 5, 5}, "an overlap: shard 1 starts at 7": {0, 7, 3},
		"at most 1024": make([]uint64, shard.MaxShards+1),
	} {
		err := shard.CheckStarts(starts)
		require.ErrorIs(t, err, shard.ErrLayout)
		require.ErrorContains(t, err, name)
	}
}
