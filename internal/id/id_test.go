package id_test

import (
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/id"
)

func TestIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 10_000 {
		text := id.New()
		u, err := ulid.ParseStrict(text)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), ulid.Time(u.Time()), time.Minute)
		require.False(t, seen[text[10:]], "the random part differs")
		seen[text[10:]] = true
	}
	at := time.UnixMilli(1_700_000_000_123)
	require.Equal(t, at, ulid.Time(id.At(at).Time()))
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		id.New()
	}
}
