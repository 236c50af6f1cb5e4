package server_test

import (
	"errors"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tidemark-dev/tidemark/openmatch/health"
	"github.com/tidemark-dev/tidemark/openmatch/health/healthconnect"
)

var (
	serving    = health.HealthCheckResponse_SERVING
	notServing = health.HealthCheckResponse_NOT_SERVING
)

func (r *rpcHarness) health(p protocol) healthconnect.HealthClient {
	return healthconnect.NewHealthClient(rpcClient(r.t, p.http2), r.url, p.options...)
}

func (r *rpcHarness) isHealth(service string, want health.HealthCheckResponse_ServingStatus) {
	r.t.Helper()
	for _, p := range protocols {
		got, err := r.health(p).Check(r.t.Context(), connect.NewRequest(&health.HealthCheckRequest{Service: service}))
		require.NoError(r.t, err)
		require.Equal(r.t, want, got.Msg.GetStatus())
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	names := []string{"", "openmatch.FrontendService", "openmatch.QueryService", "grpc.health.v1.Health"}
	for _, name := range names {
		r.isHealth(name, serving)
	}
	_, err := r.health(protocols[0]).Check(t.Context(), connect.NewRequest(&health.HealthCheckRequest{Service: "openmatch.Nothing"}))
	isRPC(t, err, connect.CodeNotFound, "unknown service")
	down := errors.New("no Redis")
	r.ready.Store(&down)
	r.isHealth("", notServing)
	r.ready.Store(nil)
	r.isHealth("", serving)
	r.drain()
	for _, name := range names {
		r.isHealth(name, notServing)
	}
}

func TestHealthWatch(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	watch := func(p protocol, service string) *connect.ServerStreamForClient[health.HealthCheckResponse] {
		stream, err := r.health(p).Watch(t.Context(), connect.NewRequest(&health.HealthCheckRequest{Service: service}))
		require.NoError(t, err)
		require.True(t, stream.Receive(), "%v", stream.Err())
		return stream
	}
	unknown := watch(protocols[0], "openmatch.Nothing")
	require.Equal(t, health.HealthCheckResponse_SERVICE_UNKNOWN, unknown.Msg().GetStatus())
	changing := watch(protocols[0], "")
	require.Equal(t, serving, changing.Msg().GetStatus())
	down := errors.New("no Redis")
	r.ready.Store(&down)
	require.True(t, changing.Receive(), "%v", changing.Err())
	require.Equal(t, notServing, changing.Msg().GetStatus())
	r.ready.Store(nil)
	var known []*connect.ServerStreamForClient[health.HealthCheckResponse]
	for _, p := range protocols {
		known = append(known, watch(p, "openmatch.FrontendService"))
	}
	r.drain()
	require.False(t, unknown.Receive())
	isRPC(t, unknown.Err(), connect.CodeUnavailable, "the server is shutting down")
	for _, stream := range known {
		require.True(t, stream.Receive(), "%v", stream.Err())
		require.Equal(t, notServing, stream.Msg().GetStatus())
		require.False(t, stream.Receive())
		isRPC(t, stream.Err(), connect.CodeUnavailable, "the server is shutting down")
	}
}

// TestReflection lists the services, and describes them.
func TestReflection(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	stream := grpcreflect.NewClient(rpcClient(t, true), r.url, connect.WithGRPC()).NewStream(t.Context())
	names, err := stream.ListServices()
	require.NoError(t, err)
	require.ElementsMatch(t, []protoreflect.FullName{"openmatch.FrontendService", "openmatch.QueryService", "grpc.health.v1.Health"}, names)
	for _, name := range names {
		files, err := stream.FileContainingSymbol(name)
		require.NoError(t, err)
		require.NotEmpty(t, files)
	}
	_, err = stream.Close()
	require.NoError(t, err)
}
