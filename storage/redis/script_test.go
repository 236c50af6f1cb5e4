package redis_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// Every way to call a script counts its calls.
func TestScriptsAreCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	conn := storetest.Connect(t, redis.Options{
		URL: redistest.Standalone(t).URL(), KeyPrefix: redistest.Prefix(t), Metrics: registry,
	})
	release := lua.Must("leases/release")
	call := redis.Call{Keys: []string{conn.Prefix() + "lease"}, Args: []string{"nobody", "1"}}
	for calls, run := range map[int]func() error{
		1: func() error { _, err := conn.Run(t.Context(), release, call.Keys, call.Args); return err },
		3: func() error { return conn.RunMany(t.Context(), release, []redis.Call{call, call, call})[2].Err },
		2: func() error {
			return conn.Session(t.Context(), call.Keys[0], func(own *redis.Session) error {
				return own.RunMany(t.Context(), release, []redis.Call{call, call})[1].Err
			})
		},
	} {
		before := storetest.Counted(t, registry, "tidemark_redis_scripts_total")
		require.NoError(t, run())
		require.InDelta(t, calls, storetest.Counted(t, registry, "tidemark_redis_scripts_total")-before, 0)
	}
}
