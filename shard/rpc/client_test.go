package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
)

// TestErrors: a client's caller can distinguish errors, and a node can't put much into their texts.
func TestErrors(t *testing.T) {
	t.Parallel()
	wrapped := func(err error) error { return errors.Join(errors.New("the cause"), err) }
	other := errors.New("others")
	for _, tt := range []struct {
		returned, heard error
	}{
		{wrapped(shard.ErrOtherCache), shard.ErrOtherCache},
		{wrapped(shard.ErrUndecodable), shard.ErrUndecodable},
		{wrapped(context.DeadlineExceeded), shard.ErrUnavailable},
		{wrapped(context.Canceled), shard.ErrUnavailable},
		{wrapped(io.ErrUnexpectedEOF), shard.ErrUnavailable},
		{status.Error(codes.ResourceExhausted, "the cause"), other},
		{status.Error(codes.PermissionDenied, "the cause"), other},
		{status.Error(codes.Aborted, "the cause"), shard.ErrUnavailable},
	} {
		_, address := start(t, func(context.Context, *shard.Request) (shard.Response, error) { return shard.Response{}, tt.returned })
		_, err := call(t, dial(t, rpc.ClientOptions{}), address, nil)
		require.ErrorContains(t, err, "the cause")
		for _, kind := range []error{shard.ErrOtherCache, shard.ErrUndecodable, shard.ErrUnavailable} {
			require.Equal(t, errors.Is(tt.heard, kind), errors.Is(err, kind), "%s: %s", tt.returned, err)
		}
	}
	_, address := start(t, func(context.Context, *shard.Request) (shard.Response, error) {
		return shard.Response{}, fmt.Errorf("\x1b[31m\n%s %w", strings.Repeat("ü", 64<<10), shard.ErrOtherCache)
	})
	_, err := call(t, dial(t, rpc.ClientOptions{}), address, nil)
	require.ErrorIs(t, err, shard.ErrOtherCache)
	require.Contains(t, err.Error(), `\x1b[31m\nüüü`)
	require.Less(t, len(err.Error()), 600)
}

// TestHostileNodes: the answers of a node are bounded, too, and calls go to TCP ports only.
func TestHostileNodes(t *testing.T) {
	t.Parallel()
	listen := func(network, address string) net.Listener {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
		require.NoError(t, err)
		return l
	}
	hostile := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.NotFound, strings.Repeat("x", 64<<10))
	}))
	t.Cleanup(hostile.Stop)
	l := listen("tcp", "127.0.0.1:0")
	go func() { _ = hostile.Serve(l) }()
	_, err := call(t, dial(t, rpc.ClientOptions{}), l.Addr().String(), nil)
	require.ErrorIs(t, err, shard.ErrUnavailable, "the text isn't read")
	require.Less(t, len(err.Error()), 600)

	socket := filepath.Join(t.TempDir(), "s")
	serve(t, listen("unix", socket), found(nil))
	_, err = call(t, dial(t, rpc.ClientOptions{}), "unix:"+socket, nil)
	require.ErrorIs(t, err, shard.ErrUnavailable)
}

// TestLargeAnswers of a node are refused.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	_, address := start(t, found(make([]byte, 10<<10)))
	_, err := call(t, dial(t, rpc.ClientOptions{MaxBytes: 5 << 10}), address, nil)
	require.ErrorContains(t, err, "ResourceExhausted")
	require.NotErrorIs(t, err, shard.ErrUnavailable)
}

// swallow returns an address that accepts connections, and never answers.
func swallow(t *testing.T) (address string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	conns, done := make(chan net.Conn, 100), make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns <- conn
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		close(conns)
		for conn := range conns {
			_ = conn.Close()
		}
	})
	return l.Addr().String()
}

// TestBlackHole: calls of an unresponsive node end with their contexts, too many fail at once, and those of other nodes
// aren't affected.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	const limit = 2
	hole := swallow(t)
	_, address := start(t, found(nil))
	c, ended := dial(t, rpc.ClientOptions{MaxCalls: limit}), make(chan error)
	cause := errors.New("the cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	for range limit + 1 {
		go func() {
			_, err := c.Call(ctx, hole, &shard.Request{})
			ended <- err
		}()
	}
	refused := <-ended
	require.ErrorIs(t, refused, shard.ErrUnavailable)
	require.ErrorContains(t, refused, "too many calls")
	_, err := call(t, c, address, nil)
	require.NoError(t, err)
	cancel(cause)
	for range limit {
		require.ErrorIs(t, <-ended, cause)
	}
	short, cancelShort := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancelShort()
	_, err = c.Call(short, hole, &shard.Request{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestDeadline: a node learns that a call has ended when it has, and doesn't watch its time.
func TestDeadline(t *testing.T) {
	t.Parallel()
	dated, ended := make(chan bool, 1), make(chan struct{})
	_, address := start(t, func(ctx context.Context, _ *shard.Request) (shard.Response, error) {
		_, is := ctx.Deadline()
		dated <- is
		<-ctx.Done()
		close(ended)
		return shard.Response{}, ctx.Err()
	})
	cause := errors.New("the cause")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, cause)
	defer cancel()
	_, err := dial(t, rpc.ClientOptions{}).Call(ctx, address, &shard.Request{})
	require.ErrorIs(t, err, cause)
	require.False(t, <-dated)
	<-ended
}

// TestRestart: calls fail at once while a node is down, and succeed when it is back.
func TestRestart(t *testing.T) {
	t.Parallel()
	first, address := start(t, found(nil))
	c := dial(t, rpc.ClientOptions{})
	_, err := call(t, c, address, nil)
	require.NoError(t, err)
	require.NoError(t, first.Drain(t.Context()))
	require.Eventually(t, func() bool {
		_, err = call(t, c, address, nil)
		return err != nil
	}, patience, step)
	require.ErrorIs(t, err, shard.ErrUnavailable)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	serve(t, l, found(nil))
	require.Eventually(t, func() bool {
		_, err := call(t, c, address, nil)
		return err == nil
	}, patience, step)
}

// TestRetain closes connections to addresses that aren't retained. They are opened again if needed, until Close.
func TestRetain(t *testing.T) {
	t.Parallel()
	c, entered := dial(t, rpc.ClientOptions{}), make(chan struct{})
	_, kept := start(t, found(nil))
	_, address := start(t, func(ctx context.Context, _ *shard.Request) (shard.Response, error) {
		entered <- struct{}{}
		<-ctx.Done()
		entered <- struct{}{}
		return shard.Response{}, ctx.Err()
	})
	for _, leave := range []func(){
		func() { c.Retain([]string{kept, "127.0.0.1:1"}) }, func() { c.Retain([]string{kept}) }, c.Close,
	} {
		_, err := call(t, c, kept, nil)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() {
			_, err := call(t, c, address, nil)
			ended <- err
		}()
		<-entered
		leave()
		require.ErrorContains(t, <-ended, "connection is closing")
		<-entered
	}
	_, err := call(t, c, kept, nil)
	require.ErrorIs(t, err, shard.ErrUnavailable)
}
