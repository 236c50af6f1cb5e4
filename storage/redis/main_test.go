package redis

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// connectTo connects to a Redis until the test ends.
func connectTo(t testing.TB, o Options) *Conn {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	c, err := Connect(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}
