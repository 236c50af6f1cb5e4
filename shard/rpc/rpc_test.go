package rpc_test

import (
	"cmp"
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
)

func TestMain(m *testing.M) {
	if which := os.Getenv(asServer); which != "" {
		if err := runServer(which); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// handler returns answers set by a test.
type handler func(ctx context.Context, r *shard.Request) (shard.Response, error)

func (h handler) Get(ctx context.Context, r *shard.Request) (shard.Response, error) { return h(ctx, r) }

// found answers with a payload.
func found(payload []byte) handler {
	return func(context.Context, *shard.Request) (shard.Response, error) {
		return shard.Response{Payload: payload, AllMatched: true, Assigned: true, Shard: shard.All, Incarnation: 1}, nil
	}
}

// patience is how long a test waits for an expected event, and step the pause between two checks.
const (
	patience = 20 * time.Second
	step     = 5 * time.Millisecond
)

// start serves until the test ends, and returns the server and its address.
func start(t testing.TB, h handler, changes ...func(*rpc.ServerOptions)) (*rpc.Server, string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return serve(t, l, h, changes...), l.Addr().String()
}

func serve(t testing.TB, l net.Listener, h handler, changes ...func(*rpc.ServerOptions)) *rpc.Server {
	t.Helper()
	o := rpc.ServerOptions{Handler: h}
	for _, change := range changes {
		change(&o)
	}
	s, ended := rpc.NewServer(o), make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		require.NoError(t, s.Drain(ctx))
		require.NoError(t, <-ended)
	})
	return s
}

func withLimits(l rpc.Limits) func(*rpc.ServerOptions) {
	return func(o *rpc.ServerOptions) { o.Limits = l }
}

// dial returns a client that is closed when the test ends.
func dial(t testing.TB, o rpc.ClientOptions) *rpc.Client {
	t.Helper()
	c := rpc.NewClient(o)
	t.Cleanup(c.Close)
	return c
}

// foreign returns a connection of another gRPC client.
func foreign(t testing.TB, address string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// call makes a call that must end soon.
func call(t testing.TB, c *rpc.Client, address string, r *shard.Request) (shard.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return c.Call(ctx, address, cmp.Or(r, &shard.Request{Cache: "authors"}))
}

// TestCalls: requests and answers arrive unchanged.
func TestCalls(t *testing.T) {
	t.Parallel()
	answers := map[string]shard.Response{
		"none":    {},
		"first":   {Assigned: true, Shard: shard.Interval{}, Incarnation: 1, AllMatched: true},
		"all":     {Assigned: true, Shard: shard.All, Incarnation: 1<<64 - 1, AllMatched: true, Payload: []byte("payload")},
		"another": {Assigned: true, Shard: shard.Interval{First: 5, Last: 6}, Incarnation: 7},
		"large":   {Assigned: true, Shard: shard.All, Incarnation: 1, AllMatched: true, Payload: make([]byte, 200<<10)},
	}
	var got *shard.Request
	c := dial(t, rpc.ClientOptions{})
	_, address := start(t, func(_ context.Context, r *shard.Request) (shard.Response, error) {
		got = r
		return answers[r.Cache], nil
	})
	keys := make([]uint64, shard.MaxKeys)
	keys[1], keys[2] = 1, 1<<64-1
	for cache, want := range answers {
		for _, r := range []shard.Request{{Cache: cache}, {Cache: cache, Payload: make([]byte, 200<<10), Keys: keys}} {
			answer, err := call(t, c, address, &r)
			require.NoError(t, err)
			require.Equal(t, want, answer)
			require.Equal(t, r, *got)
		}
	}
}
