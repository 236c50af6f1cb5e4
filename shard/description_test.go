package shard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
)

// The sharding keys of strings and bytes are those of XXH64 with seed 0, so that clients in other languages can make
// them.
func TestHashes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{"": 0xef46db3751d8e999, "a": 0xd24ec4f1a98c6e5b,
		"abc": 0x44bc2cf5ad770999} {
		require.Equal(t, want, shard.HashString(text))
		require.Equal(t, want, shard.HashBytes([]byte(text)))
	}
}
