package rpc_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
)

// TestHealth: a node serves once it is ready, until it drains.
func TestHealth(t *testing.T) {
	t.Parallel()
	const service = "tidemark.shard.v1.ShardService"
	var ready atomic.Bool
	s, address := start(t, found(nil), func(o *rpc.ServerOptions) {
		o.Ready = func() error {
			if ready.Load() {
				return nil
			}
			return errors.New("it loads")
		}
	})
	conn := foreign(t, address)
	client := grpc_health_v1.NewHealthClient(conn)
	is := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, name := range []string{"", service} {
			answer, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
			require.NoError(t, err)
			require.Equal(t, want, answer.GetStatus())
		}
		all, err := client.List(t.Context(), &grpc_health_v1.HealthListRequest{})
		require.NoError(t, err)
		require.Equal(t, want, all.GetStatuses()[service].GetStatus())
	}
	watch := func(name string) (next func() grpc_health_v1.HealthCheckResponse_ServingStatus, end func() error) {
		stream, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
		require.NoError(t, err)
		return func() grpc_health_v1.HealthCheckResponse_ServingStatus {
				answer, err := stream.Recv()
				require.NoError(t, err)
				return answer.GetStatus()
			}, func() error {
				_, err := stream.Recv()
				return err
			}
	}
	is(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	next, end := watch(service)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_NOT_SERVING, next())
	ready.Store(true)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, next())
	is(grpc_health_v1.HealthCheckResponse_SERVING)

	_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "another"})
	require.Equal(t, codes.NotFound, status.Code(err))
	unknown, _ := watch("another")
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN, unknown())

	_, err = fileOf(t.Context(), conn)
	require.NoError(t, err)
	require.NoError(t, s.Drain(t.Context()), "neither watches nor reflection hold it up")
	require.Equal(t, grpc_health_v1.HealthCheckResponse_NOT_SERVING, next())
	require.Equal(t, codes.Unavailable, status.Code(end()))
}

// TestTooManyWatches are refused, and other checks aren't.
func TestTooManyWatches(t *testing.T) {
	t.Parallel()
	const limit = 128
	_, address := start(t, found(nil))
	client := grpc_health_v1.NewHealthClient(foreign(t, address))
	for i := range limit + 1 {
		stream, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Equal(t, i == limit, status.Code(err) == codes.Unavailable)
	}
	_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
}

// TestDrain: calls in progress end, and those that don't are cut off.
func TestDrain(t *testing.T) {
	t.Parallel()
	for _, patient := range []bool{true, false} {
		entered, release := make(chan struct{}), make(chan struct{})
		s, address := start(t, func(ctx context.Context, _ *shard.Request) (shard.Response, error) {
			close(entered)
			select {
			case <-release:
				return shard.Response{AllMatched: true}, nil
			case <-ctx.Done():
				return shard.Response{}, ctx.Err()
			}
		})
		c, ended, drained := dial(t, rpc.ClientOptions{}), make(chan error), make(chan error)
		go func() {
			_, err := call(t, c, address, nil)
			ended <- err
		}()
		<-entered
		ctx, cut := context.WithCancel(t.Context())
		go func() { drained <- s.Drain(ctx) }()
		require.Eventually(t, func() bool { // nobody else is served meanwhile
			_, err := call(t, dial(t, rpc.ClientOptions{}), address, nil)
			return errors.Is(err, shard.ErrUnavailable)
		}, patience, step)
		if patient {
			close(release)
			require.NoError(t, <-ended)
			require.NoError(t, <-drained)
		} else {
			cut()
			require.ErrorIs(t, <-drained, rpc.ErrCutOff)
			require.ErrorIs(t, <-ended, shard.ErrUnavailable)
		}
		cut()
	}
}
