package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/wire"
)

// inForce returns the options in force by their keys.
func inForce(all []wire.ConfiguredOption) map[string]wire.ConfiguredOption {
	found := map[string]wire.ConfiguredOption{}
	for _, o := range all {
		found[o.Option] = o
	}
	return found
}

// TestInForce: each option has its value and where it comes from, without secrets.
func TestInForce(t *testing.T) {
	t.Parallel()
	const file = `logLevel: debug
redisSentinelPassword: hunter2
sessionsRedis: "redis://user:hunter2@sessions:6379"
queues:
  duel:
    assigner: {kind: webhook, url: "https://user:hunter2@games.example/?key=hunter2", secret: hunter2-hunter2-hunter2}
channels:
  - {pattern: "orders.*", ttl: 1h}
`
	c, err := load(t, file, []string{"TIDEMARK_REDIS_PASSWORD=hunter2", "TIDEMARK_REDIS=redis:6379,redis:6380",
		"TIDEMARK_REDIS_SENTINEL_MASTER=primary",
		"TIDEMARK_TICKETS_REDIS=redis://a,b:hunter2@tickets:6379"},
		[]string{"--max-batch", "7", "--receipt-keys", "hunter2" + strings.Repeat("A", 36)})
	require.NoError(t, err)
	all := c.InForce()
	for _, o := range all {
		require.NotContains(t, o.Value, "hunter2", o.Option)
		require.NotEmpty(t, o.Group, o.Option)
	}
	found := inForce(all)
	require.Equal(t, wire.ConfiguredOption{Option: "maxBatch", Group: found["maxBatch"].Group, Value: "7",
		Source: "--max-batch", Reloadable: true}, found["maxBatch"])
	require.Equal(t, "debug", found["logLevel"].Value)
	require.Regexp(t, `\.yaml:1$`, found["logLevel"].Source)
	require.Equal(t, "TIDEMARK_REDIS_PASSWORD", found["redisPassword"].Source)
	require.Equal(t, "xxxxx", found["redisPassword"].Value)
	require.Contains(t, found["ticketsRedis"].Value, "@tickets:6379")
	require.Contains(t, found["sessionsRedis"].Value, "@sessions:6379")
	require.Contains(t, found["queues"].Value, "duel")
	require.Contains(t, found["channels"].Value, "orders.*")
	require.Equal(t, "30s", found["grace"].Value)
	require.Empty(t, found["grace"].Source)
}

// TestInForceAfterReload: what a reload has changed is in force, with its source; what needs a restart is not.
func TestInForceAfterReload(t *testing.T) {
	t.Parallel()
	running, err := load(t, "logLevel: warn\ngrace: 10s\nmaxBatch: 5\n", nil, nil)
	require.NoError(t, err)
	next, err := load(t, "grace: 20s\nlogLevel: debug\n", nil, nil)
	require.NoError(t, err)
	reloaded, err := running.Reload(next)
	require.NoError(t, err)
	found := inForce(reloaded.InForce())
	require.Equal(t, "debug", found["logLevel"].Value)
	require.Regexp(t, `\.yaml:2$`, found["logLevel"].Source)
	require.Equal(t, "250", found["maxBatch"].Value)
	require.Empty(t, found["maxBatch"].Source)
	require.Equal(t, "10s", found["grace"].Value)
}

// TestShownURLs: the password of a URL is hidden whatever its form.
func TestShownURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://u:hunter2@h:1/0", "redis://u:hunter2@h1:1,h2:2", "redis://u:hun,ter2@h:1",
		"rediss://hunter2@h:1", "redis://u:hunter2%@h:1", "redis://h:1?password=hunter2"} {
		c := Config{values: map[string]any{"redis": url}}
		require.NotRegexp(t, "hunter2|ter2", c.InForce(), url)
	}
}
