package rpc_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
)

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		if err := runServer(); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// handler answers what a test says.
type handler func(ctx context.Context, r *shard.Request) (shard.Response, error)

func (h handler) Get(ctx context.Context, r *shard.Request) (shard.Response, error) { return h(ctx, r) }

// patience is how long a test waits for what should happen at once.
const patience = 20 * time.Second

// serve serves until the test ends, and returns the address.
func serve(t testing.TB, s *rpc.Server) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		require.NoError(t, s.Drain(ctx))
		require.NoError(t, <-ended)
	})
	return l.Addr().String()
}

// dial returns a client that is closed when the test ends.
func dial(t testing.TB, o rpc.ClientOptions) *rpc.Client {
	t.Helper()
	c := rpc.NewClient(o)
	t.Cleanup(c.Close)
	return c
}

// TestCalls: requests and answers arrive as they were.
func TestCalls(t *testing.T) {
	t.Parallel()
	answers := map[string]shard.Response{
		"none":    {},
		"first":   {Assigned: true, Shard: shard.Interval{}, Incarnation: 1, AllMatched: true},
		"all":     {Assigned: true, Shard: shard.All, Incarnation: 1<<64 - 1, AllMatched: true, Payload: []byte("payload")},
		"another": {Assigned: true, Shard: shard.Interval{First: 5, Last: 6}, Incarnation: 7},
	}
	var got *shard.Request
	c := dial(t, rpc.ClientOptions{})
	address := serve(t, rpc.NewServer(rpc.ServerOptions{Logger: slog.New(slog.DiscardHandler), Handler: handler(func(_ context.Context, r *shard.Request) (shard.Response, error) {
		got = r
		return answers[r.Cache], nil
	})}))
	for cache, want := range answers {
		for _, r := range []shard.Request{{Cache: cache}, {Cache: cache, Payload: []byte{0, 255}, Keys: []uint64{0, 1, 1<<64 - 1}}} {
			answer, err := c.Call(t.Context(), address, &r)
			require.NoError(t, err)
			require.Equal(t, want, answer)
			require.Equal(t, r, *got)
		}
	}
}
