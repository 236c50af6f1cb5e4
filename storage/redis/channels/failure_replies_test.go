package channels

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// TestNoReplyIsFatal runs all operations and subscriptions with all error replies of Redis: none is treated as success,
// none ends the process or blocks a call past its deadline, and all operations work afterwards.
func TestNoReplyIsFatal(t *testing.T) {
	t.Parallel()
	storetest.EachErrorReply(t, func(t *testing.T, f storetest.Faulty, text string) {
		s := of(t, f.Conn, Options{})
		lore{messages: 3}.make(t, s, f.Node.Client(), "x")
		replicated := publishOf("x", "r1") // there is no replica
		replicated.Policy.Replicas = 1
		waits := storetest.Call{Name: "publish replicated",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf(s.Publish(ctx, replicated)) }}
		all := append(calls(t, s, "x"), waits)
		l := listen(t, s, "x")
		require.NoError(t, f.Conn.Ready(t.Context()))

		f.RequireRefused(t, text, all)
		l.requireResumed(t, s, "a1")

		// The remaining subscriptions end here, with errors in place of their confirmations and of PING.
		f.Fail(text, "SSUBSCRIBE", "SUNSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "PING", "DISCARD")
		for range 3 {
			stop := s.Listen("y", func(channel.Event) {})
			before := f.Proxy.Count()
			f.Proxy.AwaitSent(t, before,
				func(sent [][]string) bool { return len(storetest.WithName(sent, "SSUBSCRIBE")) > 0 })
			stop()
		}
		f.NotReady(t)
		require.Error(t, waits.Do(storetest.Shortly(t)))
		require.NoError(t, storagetest.ErrorOf(s.Publish(t.Context(), publishOf("x", "a2")))) // l may have no subscription
		f.Proxy.Cut()
		f.NotReady(t)
		f.Recover(t)
		l.requireResumed(t, s, "a3")
	})
}

// requireResumed expects a listener to be confirmed again and to receive the messages published to x.
func (l *listener) requireResumed(t *testing.T, s *Store, id string) {
	t.Helper()
	l.await(t, channel.EventConfirmed)
	l.requirePublished(t, s, "x", id)
}
