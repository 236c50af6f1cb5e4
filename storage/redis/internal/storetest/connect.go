package storetest

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// Patience limits waits, so that a broken store fails a test instead of hanging it. A working store never reaches it.
const Patience = 30 * time.Second

// Connect connects to a Redis until the test ends. Calls may take Patience unless the options have a time limit: most
// tests are of what a store does, not of when, and on a busy machine a call can take long.
func Connect(t testing.TB, o redis.Options) *redis.Conn {
	t.Helper()
	o.Timeout = cmp.Or(o.Timeout, Patience)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	conn, err := redis.Connect(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// Standalone connects to the shared standalone Redis, under a prefix of its own.
func Standalone(t testing.TB) (*redis.Conn, *redistest.Node) {
	t.Helper()
	node := redistest.Standalone(t)
	return Connect(t, redis.Options{URL: node.URL(), KeyPrefix: redistest.Prefix(t)}), node
}

// Durable makes a private server keep everything over a restart.
var Durable = redistest.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}}

// Set changes a server's configuration.
func Set(t *testing.T, n *redistest.Node, parameter, value string) {
	t.Helper()
	require.NoError(t, n.Do(t, "CONFIG", "SET", parameter, value).Error())
}

// FillUp fills a server's memory with a key named ballast.
func FillUp(t *testing.T, n *redistest.Node) {
	t.Helper()
	require.NoError(t, n.Do(t, "SETRANGE", "ballast", strconv.Itoa(16<<20), "x").Error())
	used := int(n.Number(t, "memory", "used_memory"))
	Set(t, n, "maxmemory-policy", "noeviction")
	Set(t, n, "maxmemory", strconv.Itoa(used-8<<20))
	require.ErrorContains(t, n.Do(t, "SET", "one", "more").Error(), "OOM")
}

// Shortly returns a context with a short deadline, for calls that can't succeed.
func Shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// WaitFor polls until a condition holds. It gives up only if the test would hang otherwise.
func WaitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for began := time.Now(); !holds(); {
		select {
		case <-time.After(pace.Look(began)):
		case <-limit:
			require.FailNow(t, "timed out waiting for "+what)
		}
	}
}

// Counted returns the sum of a counter, or of a gauge, over its labels.
func Counted(t testing.TB, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}
