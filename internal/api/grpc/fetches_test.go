package grpc

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFetchesAreShared: a client has a quarter of the calls and of the bytes, and nothing remains of those that have
// ended.
func TestFetchesAreShared(t *testing.T) {
	t.Parallel()
	f := &fetches{clients: map[string]fetching{}}
	var releases []func()
	acquire := func(client string, size int) error {
		release, err := f.acquire(client, size)
		if err == nil {
			releases = append(releases, release)
		}
		return err
	}
	require.NoError(t, acquire("large", maxFetchBytesClient))
	require.Equal(t, errFetches, acquire("large", 1))
	require.NoError(t, acquire("large", 0))
	for range maxFetchesClient {
		require.NoError(t, acquire("many", 0))
	}
	require.Equal(t, errFetches, acquire("many", 0))
	for i := range 3 {
		require.NoError(t, acquire(fmt.Sprint(i), maxFetchBytesClient))
	}
	require.Equal(t, errFetches, acquire("other", 1), "all bytes are taken")
	for len(releases) < maxFetches {
		require.NoError(t, acquire(fmt.Sprint("client", len(releases)), 0))
	}
	require.Equal(t, errFetches, acquire("another", 0), "all calls are taken")
	for _, release := range releases {
		release()
	}
	require.Empty(t, f.clients)
	require.Zero(t, f.all)
}
