package rpc_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // as programs have that serve other services, too
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

// TestBadCalls are refused, each for its reason.
func TestBadCalls(t *testing.T) {
	t.Parallel()
	var logs bytes.Buffer
	payload := make([]byte, 64<<10+1)
	_, address := start(t, func(_ context.Context, r *shard.Request) (shard.Response, error) {
		if r.Cache == "panic" {
			panic("the cause")
		}
		return shard.Response{Payload: payload[:len(payload)-len(r.Payload)]}, nil
	}, withLimits(rpc.Limits{MessageBytes: 64 << 10}), func(o *rpc.ServerOptions) { o.Logger = slog.New(slog.NewTextHandler(&logs, nil)) })
	conn := foreign(t, address)
	get := &shardpb.GetRequest{Payload: []byte{0}}
	for want, bad := range map[string]struct {
		method  string
		header  string
		request any
		options []grpc.CallOption
	}{
		"OK":                                {request: get},
		"ResourceExhausted: grpc: received": {request: &shardpb.GetRequest{Payload: payload}},
		"ResourceExhausted: the answer has 65537 bytes, at most 65536 are allowed":       {request: &shardpb.GetRequest{}},
		"ResourceExhausted: a request can have at most 10000 keys":                       {request: &shardpb.GetRequest{ShardingKeys: make([]uint64, shard.MaxKeys+1)}, method: "large"},
		"InvalidArgument: the message isn't valid protobuf":                              {request: wrapperspb.Bytes([]byte{0xff})},
		"Internal: grpc: failed to decompress the received message: compressed requests": {request: get, options: []grpc.CallOption{grpc.UseCompressor("gzip")}},
		"Unimplemented: unknown method Put":                                              {request: get, method: "/tidemark.shard.v1.ShardService/Put"},
		"Unimplemented: unknown service tidemark":                                        {request: get, method: "/tidemark/Get"},
		"Internal: header list size to send violates":                                    {request: get, header: strings.Repeat("x", 8<<10)},
		"Internal: the node failed to answer":                                            {request: &shardpb.GetRequest{Cache: "panic"}},
	} {
		to, method := conn, shardpb.ShardService_Get_FullMethodName
		if bad.method == "large" {
			_, address := start(t, found(nil))
			to = foreign(t, address)
		} else if bad.method != "" {
			method = bad.method
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x", bad.header)
		got := status.Convert(to.Invoke(ctx, method, bad.request, &shardpb.GetResponse{}, bad.options...))
		text := got.Code().String() + ": " + got.Message()
		require.Equal(t, want, text[:min(len(want), len(text))], text)
	}
	require.Contains(t, logs.String(), "the cause")
}

// TestStrangersGiveWay: clients without the token that keep all connections open shut out nobody who has it.
func TestStrangersGiveWay(t *testing.T) {
	t.Parallel()
	const limit = 4
	_, address := start(t, found(nil), withLimits(rpc.Limits{Connections: limit}),
		func(o *rpc.ServerOptions) { o.Token = "right" })
	for range 2 * limit {
		_, err := grpc_health_v1.NewHealthClient(foreign(t, address)).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		require.NoError(t, err)
	}
	allowed := dial(t, rpc.ClientOptions{Token: "right"})
	_, err := call(t, allowed, address, nil)
	require.NoError(t, err)
	other := make([]net.Conn, 2*limit)
	for i := range other {
		other[i], err = new(net.Dialer).DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		defer func() { require.NoError(t, other[i].Close()) }()
	}
	_, err = other[0].Read(make([]byte, 1<<10))
	for err == nil { // it was sent the settings
		_, err = other[0].Read(make([]byte, 1<<10))
	}
	_, err = call(t, allowed, address, nil)
	require.NoError(t, err)
}

// TestTooManyCalls are refused at once, and connections beyond their number are closed.
func TestTooManyCalls(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	_, address := start(t, func(context.Context, *shard.Request) (shard.Response, error) {
		select {
		case entered <- struct{}{}:
			<-release
		case <-release:
		}
		return shard.Response{}, nil
	}, withLimits(rpc.Limits{Calls: 2, Connections: 1}))
	c, ended := dial(t, rpc.ClientOptions{}), make(chan error)
	for range 2 {
		go func() {
			_, err := call(t, c, address, nil)
			ended <- err
		}()
		<-entered
	}
	_, err := call(t, c, address, nil)
	require.ErrorIs(t, err, shard.ErrUnavailable)
	require.ErrorContains(t, err, "too many calls in progress")
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	greeting, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Empty(t, greeting)
	require.NoError(t, conn.Close())
	close(release)
	for range 2 {
		require.NoError(t, <-ended)
	}
	c.Close()
	another := dial(t, rpc.ClientOptions{})
	require.Eventually(t, func() bool { // the connection was counted no longer than it was open
		_, err := call(t, another, address, nil)
		return err == nil
	}, patience, step)
}

// TestSlowRequests end when they take too long. Their number is limited by the memory for the largest requests; others
// are served.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	const size = 64 << 10
	_, address := start(t, found(nil), withLimits(rpc.Limits{MessageBytes: size, Memory: 1, CallTime: time.Second}))
	slow := dialRaw(t, address)
	for range 4 {
		slow.get(size, make([]byte, 1<<10), false)
	}
	require.Equal(t, []string{"4", "4"}, slow.ends(2), "two of four are waited for")
	_, err := call(t, dial(t, rpc.ClientOptions{}), address, &shard.Request{Payload: make([]byte, size-100)})
	require.NoError(t, err, "a large call that isn't slow")
	require.Equal(t, []string{"4", "4"}, slow.ends(2))
	_, err = call(t, dial(t, rpc.ClientOptions{}), address, &shard.Request{Payload: make([]byte, size-100)})
	require.NoError(t, err)
	for _, method := range []string{grpc_health_v1.Health_Check_FullMethodName, grpc_health_v1.Health_Watch_FullMethodName} {
		slow.call(method, size, make([]byte, 1<<10), false)
		require.Equal(t, []string{"4"}, slow.ends(1), method)
	}
}

// TestUnreadAnswers: an answer occupies a stream of its connection until it is read, so a client that reads none can't
// make more calls on the connection. Others aren't affected.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	const refusedStream = "REFUSED_STREAM"
	_, address := start(t, found(make([]byte, 100<<10)), withLimits(rpc.Limits{Streams: 2}))
	unread := dialRaw(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	unread.get(0, nil, true)
	unread.get(0, nil, true)
	unread.answered(2)
	unread.get(0, nil, true)
	require.Equal(t, []string{refusedStream}, unread.ends(1))
	_, err := call(t, dial(t, rpc.ClientOptions{}), address, nil)
	require.NoError(t, err)
}

// TestUnreadAnswersOfAnAddress: the answers that the clients at an address don't read have a bounded size, over all
// connections.
func TestUnreadAnswersOfAnAddress(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	_, address := start(t, found(make([]byte, size)), withLimits(rpc.Limits{Answers: 16 * size}))
	unread := dialRaw(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for range 3 {
		unread.get(0, nil, true)
	}
	unread.answered(3)
	c := dial(t, rpc.ClientOptions{})
	_, err := call(t, c, address, nil)
	require.ErrorIs(t, err, shard.ErrUnavailable)
	require.ErrorContains(t, err, "too many answers were not read")
	require.NoError(t, unread.conn.Close())
	require.Eventually(t, func() bool {
		_, err := call(t, c, address, nil)
		return err == nil
	}, patience, step)
}

// TestLargeRequests in progress are limited together. Small ones go on.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	const size = 64 << 10
	entered, release := make(chan struct{}), make(chan struct{})
	_, address := start(t, func(_ context.Context, r *shard.Request) (shard.Response, error) {
		if len(r.Payload) > 0 {
			entered <- struct{}{}
			<-release
		}
		return shard.Response{}, nil
	}, withLimits(rpc.Limits{MessageBytes: size, Memory: 1}))
	c, ended, large := dial(t, rpc.ClientOptions{}), make(chan error), &shard.Request{Payload: make([]byte, size-100)}
	for range 2 {
		go func() {
			_, err := call(t, c, address, large)
			ended <- err
		}()
		<-entered
	}
	_, err := call(t, c, address, large)
	require.ErrorIs(t, err, shard.ErrUnavailable)
	require.ErrorContains(t, err, "too many large requests")
	_, err = call(t, c, address, nil)
	require.NoError(t, err)
	close(release)
	for range 2 {
		require.NoError(t, <-ended)
	}
}

// TestTurns: calls with keys wait for their turn, so that they don't all build their answers before the first one
// counts as memory in use.
func TestTurns(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}, 2), make(chan struct{})
	_, address := start(t, func(ctx context.Context, r *shard.Request) (shard.Response, error) {
		if len(r.Keys) > 0 {
			entered <- struct{}{}
			<-ctx.Done()
			<-release
		}
		return shard.Response{}, ctx.Err()
	}, withLimits(rpc.Limits{Handlers: 1, CallTime: time.Second}))
	c, ended := dial(t, rpc.ClientOptions{}), make(chan error, 2)
	for range 2 {
		go func() {
			_, err := call(t, c, address, &shard.Request{Keys: []uint64{1}})
			ended <- err
		}()
	}
	<-entered
	_, err := call(t, c, address, nil)
	require.NoError(t, err, "a ping doesn't wait")
	require.ErrorContains(t, <-ended, "the answer took too long", "the one that waits for its turn")
	require.Empty(t, entered, "one is handled at a time")
	close(release)
	require.ErrorContains(t, <-ended, "the answer took too long")
	require.Empty(t, entered)
}

// TestLateHandlers: their calls end, and their contexts.
func TestLateHandlers(t *testing.T) {
	t.Parallel()
	_, address := start(t, func(ctx context.Context, _ *shard.Request) (shard.Response, error) {
		<-ctx.Done()
		return shard.Response{}, ctx.Err()
	}, withLimits(rpc.Limits{CallTime: 50 * time.Millisecond}))
	_, err := call(t, dial(t, rpc.ClientOptions{}), address, nil)
	require.ErrorIs(t, err, shard.ErrUnavailable)
	require.ErrorContains(t, err, "DeadlineExceeded: the answer took too long")
}

// TestMalformedFrames end their connections, and no others.
func TestMalformedFrames(t *testing.T) {
	t.Parallel()
	_, address := start(t, found(nil))
	c := dial(t, rpc.ClientOptions{})
	for name, sent := range map[string]func(*raw) error{
		"settings of half a size": func(r *raw) error { return r.framer.WriteRawFrame(http2.FrameSettings, 0, 0, []byte{1}) },
		"too large a frame":       func(r *raw) error { return r.framer.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 1<<20)) },
		"headers that aren't HPACK": func(r *raw) error {
			return r.framer.WriteRawFrame(http2.FrameHeaders, 4, 1, bytes.Repeat([]byte{0xff}, 99))
		},
		"HTTP/1": func(r *raw) error {
			_, err := r.conn.Write([]byte("GET / HTTP/1.1\r\n\r\n" + string(make([]byte, 1<<16))))
			return err
		},
	} {
		r := dialRaw(t, address)
		_ = sent(r) // the server may be quicker
		require.NotEmpty(t, r.ends(1), name)
		_, err := call(t, c, address, nil)
		require.NoError(t, err, name)
	}
}
