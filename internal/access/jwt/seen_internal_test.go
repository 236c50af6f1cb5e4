package jwt

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/access"
)

// TestMemory: remembered tokens are bounded in number and in size.
func TestMemory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ bytes, limit int }{{300, 10_000}, {8 << 10, 16 << 20 / (8 << 10)}} {
		s, k := newSeen(), &key{}
		for i := range 12_000 {
			d := sha256.Sum256(fmt.Append(nil, i))
			for range 2 { // of two requests at once
				s.add(d, verified{principal: access.Anonymous(), by: k, bytes: tt.bytes})
			}
			require.NotNil(t, s.get(d))
			s.get(sha256.Sum256([]byte("0")))
		}
		require.Equal(t, tt.limit, s.lru.Len())
		require.Equal(t, tt.limit*tt.bytes, s.bytes)
		require.NotNil(t, s.get(sha256.Sum256([]byte("0"))), "the first one is in use")
		require.Nil(t, s.get(sha256.Sum256([]byte("1"))))
		k.removed.Store(true)
		require.Nil(t, s.get(sha256.Sum256([]byte("0"))))
		s.forget()
		require.Zero(t, s.lru.Len())
		require.Zero(t, s.bytes)
	}
}
