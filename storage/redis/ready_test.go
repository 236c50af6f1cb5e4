package redis_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
)

// Many probes at once cost as much as few, and leave one key.
func TestReadyIsShared(t *testing.T) {
	t.Parallel()
	m := storetest.NewMeter(t, redistest.Options{})
	before := m.Tap.Count()
	begun := time.Now()
	var g errgroup.Group
	for range 1000 {
		g.Go(func() error { return m.Conn.Ready(t.Context()) })
	}
	require.NoError(t, g.Wait())
	most := 1 + int(time.Since(begun)/(100*time.Millisecond))
	sent := m.Tap.Sent(before)
	for _, command := range []string{"SSUBSCRIBE", "SET", "SPUBLISH"} {
		require.LessOrEqual(t, len(storetest.WithName(sent, command)), most, command)
	}

	var documented []string
	for _, row := range storetest.KeyRows(t, "## Keys") {
		if strings.HasPrefix(row.Key, "tidemark.ready.") {
			documented = append(documented, "^"+strings.Replace(regexp.QuoteMeta(row.Key), "<server>", "[0-9A-Z]{26}",
				1)+"$")
		}
	}
	require.Len(t, documented, 2)
	for i, command := range [][]string{{"PUBSUB", "SHARDCHANNELS"}, {"KEYS", "*"}} {
		left, err := m.Node.Do(t, command...).AsStrSlice()
		require.NoError(t, err)
		require.Len(t, left, 1)
		require.Regexp(t, documented[i], left[0])
		if command[0] == "KEYS" {
			ends, err := m.Node.Do(t, "PTTL", left[0]).AsInt64()
			require.NoError(t, err)
			require.Positive(t, ends)
			require.LessOrEqual(t, ends, time.Minute.Milliseconds())
		}
	}
}
