package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// Faulty is a connection through a proxy that answers with errors.
type Faulty struct {
	Conn  *redis.Conn
	Node  *redistest.Node
	Proxy *redistest.Proxy
}

// EachErrorReply runs a test for each error that Redis answers with, at the same time. Its connection is to the shared
// standalone Redis, under a prefix of its own, and has time enough for a busy machine.
func EachErrorReply(t *testing.T, test func(t *testing.T, f Faulty, text string)) {
	t.Helper()
	for _, text := range redistest.ErrorReplies {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			n := redistest.Standalone(t)
			proxy := redistest.NewProxy(t, n)
			o := redis.Options{URL: proxy.Addr(), KeyPrefix: redistest.Prefix(t), Timeout: time.Minute}
			test(t, Faulty{Conn: Connect(t, o), Node: n, Proxy: proxy}, text)
		})
	}
}

// Fail makes the proxy replace the replies to some commands, or to all if none is named.
func (f Faulty) Fail(text string, commands ...string) {
	f.Proxy.Fail(func(command []string) string {
		if len(commands) == 0 || slices.Contains(commands, command[0]) {
			return text
		}
		return ""
	})
}

// RequireRefused makes the proxy answer everything with an error, also on new connections, and expects every call to
// fail soon after its deadline, if not before. Then the proxy is transparent again, and Redis is ready.
func (f Faulty) RequireRefused(t *testing.T, text string, all []Call) {
	t.Helper()
	f.Fail(text)
	for range 2 {
		ctx, answered := Shortly(t), make(chan []error, 1)
		go func() { answered <- AtOnce(all, func(c Call) error { return c.Do(ctx) }) }()
		select {
		case errs := <-answered:
			for i, c := range all {
				require.Error(t, errs[i], c.Name)
			}
		case <-time.After(Patience):
			require.FailNow(t, "a call hangs past its deadline")
		}
		f.Proxy.Cut() // so that HELLO is answered with the error, too
	}
	f.Recover(t)
}

// Recover makes the proxy transparent again and waits until Redis is ready.
func (f Faulty) Recover(t *testing.T) {
	t.Helper()
	f.Proxy.Fail(nil)
	WaitFor(t, "Redis to be ready", func() bool { return f.Conn.Ready(t.Context()) == nil })
}

// NotReady expects a readiness check to fail.
func (f Faulty) NotReady(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, f.Conn.Ready(ctx))
}
