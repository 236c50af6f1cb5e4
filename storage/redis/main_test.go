package redis

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// openAt opens a store that is closed with the test.
func openAt(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// openStandalone opens a store on the shared standalone Redis, under a prefix of its own.
func openStandalone(t testing.TB) (*Store, *redistest.Node) {
	t.Helper()
	node := redistest.Standalone(t)
	return openAt(t, Options{URL: node.URL(), KeyPrefix: redistest.Prefix(t)}), node
}
