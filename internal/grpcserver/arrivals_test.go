package grpcserver_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/internal/grpcserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errSlow = errors.New("slow")

// ann returns the name of a client.
func ann() string { return "ann" }

// begin begins a call.
func begin(t *testing.T) context.Context {
	t.Helper()
	ctx, err := grpcserver.Endable(t.Context(), nil)
	require.NoError(t, err)
	return ctx
}

// stalled reads a message that never arrives, as grpc-go does, and returns the error of Receive.
func stalled(ctx context.Context, a *grpcserver.Arrivals) error {
	return stalledOf(ctx, a, "ann")
}

// stalledOf is stalled for a client.
func stalledOf(ctx context.Context, a *grpcserver.Arrivals, client string) error {
	return a.Receive(ctx, func() string { return client }, func() error {
		<-ctx.Done()
		return ctx.Err()
	})
}

// TestArrivals: a message that takes too long is refused, and the oldest of too many slow ones.
func TestArrivals(t *testing.T) {
	t.Parallel()
	a := &grpcserver.Arrivals{Limit: 20 * time.Millisecond, Slow: time.Millisecond, MaxSlow: 5, Err: errSlow}
	ctx := begin(t)
	require.Equal(t, errSlow, stalled(ctx, a))
	require.Equal(t, context.DeadlineExceeded, ctx.Err())
	require.Equal(t, errSlow, grpcserver.Ended(ctx))

	a = &grpcserver.Arrivals{Limit: time.Hour, Slow: 5 * time.Millisecond, MaxSlow: 1, Err: errSlow}
	earlier, other := begin(t), begin(t)
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- stalled(earlier, a) }()
	go func() { second <- stalled(other, a) }()
	select { // the one whose Receive was called first
	case err := <-first:
		require.Equal(t, errSlow, err)
		grpcserver.End(other, errSlow)
		require.Error(t, <-second)
	case err := <-second:
		require.Equal(t, errSlow, err)
		grpcserver.End(earlier, errSlow)
		require.Error(t, <-first)
	}
}

// TestArrivalsOfManyClients: of too many slow messages those of the client with the most are refused.
func TestArrivalsOfManyClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &grpcserver.Arrivals{Limit: time.Hour, Slow: time.Second, MaxSlow: 4, Err: errSlow}
		light := begin(t)
		var waiting sync.WaitGroup
		waiting.Go(func() { require.Error(t, stalledOf(light, a, "light")) })
		synctest.Wait()
		var greedy []context.Context
		for range 10 {
			ctx := begin(t)
			greedy = append(greedy, ctx)
			waiting.Go(func() { require.Equal(t, errSlow, stalledOf(ctx, a, "greedy")) })
			time.Sleep(time.Millisecond) //nolint:forbidigo // the time of synctest
		}
		time.Sleep(3 * time.Second) //nolint:forbidigo // the time of synctest
		require.NoError(t, light.Err())
		for i, ctx := range greedy {
			require.Equal(t, i < 7, ctx.Err() != nil, "%d: the oldest are refused", i)
			grpcserver.End(ctx, errSlow)
		}
		grpcserver.End(light, errSlow)
		waiting.Wait()
		time.Sleep(time.Second) //nolint:forbidigo // the timer ends
	})
}

// TestReceive: messages that arrive in time are returned, and so are their errors.
func TestReceive(t *testing.T) {
	t.Parallel()
	a := &grpcserver.Arrivals{Limit: time.Hour, Slow: time.Hour, MaxSlow: 1, Err: errSlow}
	failure := errors.New("malformed")
	for _, want := range []error{nil, failure} {
		require.Equal(t, want, a.Receive(begin(t), ann, func() error { return want }))
		require.Equal(t, want, a.Receive(t.Context(), ann, func() error { return want }), "a call that can't be ended")
	}
}

// TestEnd: if the client ends a call, its context is canceled; if End ends it, it has exceeded its deadline.
func TestEnd(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancel(t.Context())
	ctx, err := grpcserver.Endable(parent, nil)
	require.NoError(t, err)
	require.NoError(t, ctx.Err())
	cancel()
	require.Equal(t, context.Canceled, ctx.Err())
	grpcserver.End(ctx, errSlow)
	require.Equal(t, context.Canceled, ctx.Err())
	require.NoError(t, grpcserver.Ended(ctx))
}
