package channels

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// open returns the channels of a Redis, whose connection is closed with the test.
func open(t testing.TB, o redis.Options) *Store {
	t.Helper()
	return of(t, storetest.Connect(t, o), Options{Metrics: o.Metrics})
}

// of returns the channels of a connection.
func of(t testing.TB, conn *redis.Conn, o Options) *Store {
	t.Helper()
	s, err := New(conn, o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// openOn returns the channels of a cluster whose slots move.
func openOn(t *testing.T, c storetest.TwoNodes, o redis.Options) *Store {
	t.Helper()
	return of(t, c.Connect(t, o), Options{Metrics: o.Metrics})
}

// openStandalone returns channels in the shared standalone Redis, under a prefix of their own.
func openStandalone(t testing.TB) (*Store, *redistest.Node) {
	t.Helper()
	node := redistest.Standalone(t)
	return open(t, redis.Options{URL: node.URL(), KeyPrefix: redistest.Prefix(t)}), node
}
