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
	var leave []func()
	enter := func(client string, size int) error {
		release, err := f.enter(client, size)
		if err == nil {
			leave = append(leave, release)
		}
		return err
	}
	require.NoError(t, enter("large", maxFetchBytesClient))
	require.Equal(t, errFetches, enter("large", 1))
	require.NoError(t, enter("large", 0))
	for range maxFetchesClient {
		require.NoError(t, enter("many", 0))
	}
	require.Equal(t, errFetches, enter("many", 0))
	for i := range 3 {
		require.NoError(t, enter(fmt.Sprint(i), maxFetchBytesClient))
	}
	require.Equal(t, errFetches, enter("other", 1), "all bytes are taken")
	for len(leave) < maxFetches {
		require.NoError(t, enter(fmt.Sprint("client", len(leave)), 0))
	}
	require.Equal(t, errFetches, enter("another", 0), "all calls are taken")
	for _, release := range leave {
		release()
	}
	require.Empty(t, f.clients)
	require.Zero(t, f.all)
}
