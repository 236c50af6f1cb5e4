package redis_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// A write is stored even if Redis can't wait for replicas: a WAIT that it refuses permanently returns the error for a
// write that may not be on replicas. A temporary refusal is retried instead.
func TestConfirmRefused(t *testing.T) {
	t.Parallel()
	n := redistest.Standalone(t)
	for _, c := range []struct{ command, text string }{
		{"WAIT", "ERR not here"},
		{"WAIT", "NOPERM this user has no permissions to run the 'wait' command"},
		{"SET", "WRONGTYPE Operation against a key holding the wrong kind of value"},
	} {
		t.Run(c.command+" "+c.text, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, n)
			conn := storetest.Connect(t, redis.Options{URL: proxy.Addr(), KeyPrefix: redistest.Prefix(t),
				Timeout: time.Minute})
			confirm := func(ctx context.Context) error {
				return conn.Retry(ctx, "confirm", func(ctx context.Context) error {
					return conn.Session(ctx, conn.Prefix()+"key", func(own *redis.Session) error {
						return own.Confirm(ctx, 0, own.B().Set().Key(conn.Prefix()+"key").Value("1").Build())
					})
				})
			}
			require.NoError(t, confirm(t.Context()))
			answer := func(text string) {
				proxy.Fail(func(command []string) string {
					if command[0] == c.command {
						return text
					}
					return ""
				})
			}
			answer(c.text)
			var clientErr *fault.Error
			require.ErrorAs(t, confirm(t.Context()), &clientErr)
			require.Equal(t, fault.SlugNotReplicated, clientErr.Slug)
			require.Equal(t, fault.Unavailable, clientErr.Kind)
			require.NotZero(t, clientErr.RetryAfter)
			require.Contains(t, clientErr.Detail, strings.TrimPrefix(c.text, "ERR "), "the detail names the cause")

			answer("LOADING Redis is loading the dataset in memory")
			err := confirm(storetest.Shortly(t))
			require.ErrorAs(t, err, &clientErr)
			require.Equal(t, fault.SlugUnavailable, clientErr.Slug, "it was tried again: %v", err)
		})
	}
}
