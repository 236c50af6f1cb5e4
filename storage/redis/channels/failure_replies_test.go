package channels

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
)

// walk is a store behind a proxy, and all that is done on it.
type walk struct {
	*Store
	proxy *redistest.Proxy
	all   []rig.Call
	// replicated waits for replicas, which there are none of, on a connection that is given back afterwards.
	replicated channel.PublishRequest
}

func newWalk(t *testing.T) walk {
	t.Helper()
	n := redistest.Standalone(t)
	proxy := redistest.NewProxy(t, n)
	s := open(t, redis.Options{URL: proxy.Addr(), KeyPrefix: redistest.Prefix(t), Timeout: time.Second})
	lore{messages: 3}.make(t, s, n.Client(), "x")
	replicated := one("x", "r1")
	replicated.Policy.Replicas = 1
	all := append(calls(t, s, "x"), rig.Call{Name: "publish replicated", Do: func(ctx context.Context) error { return rig.ErrorOf(s.Publish(ctx, replicated)) }})
	return walk{Store: s, proxy: proxy, all: all, replicated: replicated}
}

// failing lets the proxy replace the replies to some commands, or to all where none is named.
func (w walk) failing(text string, commands ...string) {
	w.proxy.Fail(func(command []string) string {
		if len(commands) == 0 || slices.Contains(commands, command[0]) {
			return text
		}
		return ""
	})
}

// TestNoReplyIsFatal walks all errors that Redis answers with through all operations and subscriptions: none is taken
// for success, none ends the process or hangs a call past its deadline, and all goes on afterwards.
func TestNoReplyIsFatal(t *testing.T) {
	t.Parallel()
	for _, text := range redistest.ErrorReplies {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			w := newWalk(t)
			l := listen(t, w.Store, "x")
			require.NoError(t, w.conn.Ready(t.Context()))

			w.failing(text)
			w.requireRefused(t)
			w.proxy.Cut() // so that HELLO is answered with it too
			w.requireRefused(t)
			w.proxy.Fail(nil)
			w.requireListening(t, l, "a1")

			// What is left of subscriptions ends here, with errors in place of their confirmations and of PING.
			w.failing(text, "SSUBSCRIBE", "SUNSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "PING", "DISCARD")
			for range 3 {
				stop := w.Listen("y", func(channel.Event) {})
				<-time.After(20 * time.Millisecond)
				stop()
			}
			require.Error(t, w.conn.Ready(t.Context()))
			require.Error(t, rig.ErrorOf(w.Publish(t.Context(), w.replicated)), "there is no replica")
			l.requirePublished(t, w.Store, "x", "a2")
			w.proxy.Cut()
			require.Error(t, w.conn.Ready(t.Context()))
			w.proxy.Fail(nil)
			w.requireListening(t, l, "a3")
		})
	}
}

// requireRefused expects every call to fail, long before a deadline that none should need.
func (w walk) requireRefused(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rig.Patience)
	defer cancel()
	rig.RequireEach(ctx, t, w.all, func(t testing.TB, err error, about ...any) {
		t.Helper()
		require.Error(t, err, about...)
	})
	require.NoError(t, ctx.Err())
}

// requireListening expects a listener to hear again.
func (w walk) requireListening(t *testing.T, l *listener, id string) {
	t.Helper()
	rig.WaitFor(t, "Redis to be ready", func() bool { return w.conn.Ready(t.Context()) == nil })
	l.await(t, channel.EventConfirmed)
	l.requirePublished(t, w.Store, "x", id)
}
