package main

import (
	"context"
	"regexp"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// TestReceiptsAfterLossOfTheKey restarts one of two processes after Redis has lost everything, before the other one has
// noticed. Soon each accepts the other's receipts again, those that it signed before too.
func TestReceiptsAfterLossOfTheKey(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	stays, restarted := startServer(t, "--redis", node.URL()), startServer(t, "--redis", node.URL())
	require.NoError(t, passReceipt(t, stays, restarted))
	require.NoError(t, passReceipt(t, restarted, stays))

	restarted.end(t)
	stays.pause(t)
	require.NoError(t, node.Do(t, "FLUSHALL").Error())
	restarted = startServer(t, "--redis", node.URL())
	name, handle := fetchOne(t, restarted)
	stays.resume(t)
	require.Eventually(t, func() bool {
		return passReceipt(t, stays, restarted) == nil && passReceipt(t, restarted, stays) == nil
	}, scriptLimit, scriptStep)
	require.NoError(t, stays.Ack(t.Context(), name, "s", handle))

	_, _, all := stays.output.find(regexp.MustCompile("$"))
	require.Len(t, regexp.MustCompile(`level=WARN msg="other receipt keys found in redis, adopted" another_signs=true`).FindAllString(all, -1), 1, all)
	require.Contains(t, stays.metricsText(t), `tidemark_redis_receipt_key_changes_total{change="adopted",redis="channels"} 1`)
}

// passReceipt fetches a message from one process, and acknowledges it at another one.
func passReceipt(t *testing.T, from, to *runningServer) error {
	t.Helper()
	name, handle := fetchOne(t, from)
	ctx, cancel := context.WithTimeout(t.Context(), scriptLimit)
	defer cancel()
	return to.Ack(ctx, name, "s", handle)
}

// fetchOne publishes a message on a channel of its own, and returns the channel and the handle that a fetch returned.
func fetchOne(t *testing.T, s *runningServer) (name, handle string) {
	t.Helper()
	name = ulid.Make().String()
	_, err := s.Subscribe(t.Context(), name, "s", client.Latest)
	require.NoError(t, err)
	_, err = s.Publish(t.Context(), name, client.Draft{Content: []byte("1")})
	require.NoError(t, err)
	d, err := s.Fetch(t.Context(), name, "s", client.FetchOptions{})
	require.NoError(t, err)
	require.Len(t, d.Messages, 1)
	return name, d.ReceiptHandle
}
