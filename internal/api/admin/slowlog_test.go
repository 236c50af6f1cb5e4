package admin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestSlowLogs shows the latest calls, as many as are asked for.
func TestSlowLogs(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t).OnAdmin()
	calls := func(query string) int {
		logs := servertest.Decode[client.SlowLogs](h.Do("GET", "/v1/slowlog"+query, ""))
		require.Equal(t, "EVALSHA", logs.Redis[0].Logs[0].Calls[0].Command)
		return len(logs.Redis[0].Logs[0].Calls)
	}
	require.Equal(t, 20, calls(""))
	require.Equal(t, 100, calls("?limit=100"))
	for _, limit := range []string{"0", "101", "-1", "x", ""} {
		h.Do("GET", "/v1/slowlog?limit="+limit, "").Problem(400, fault.SlugInvalidQuery)
	}
}
