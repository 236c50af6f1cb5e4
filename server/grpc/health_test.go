package grpc_test

import (
	"errors"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tidemark-dev/tidemark/openmatch/health"
	"github.com/tidemark-dev/tidemark/openmatch/health/healthconnect"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
)

const (
	serving    = health.HealthCheckResponse_SERVING
	notServing = health.HealthCheckResponse_NOT_SERVING
	unknown    = health.HealthCheckResponse_SERVICE_UNKNOWN
)

func (h *harness) health(p servertest.Protocol) healthconnect.HealthClient {
	return healthconnect.NewHealthClient(servertest.Client(h.t, p.HTTP2), h.url, p.Options...)
}

func TestHealth(t *testing.T) {
	t.Parallel()
	h := start(t)
	names := []string{"", "openmatch.FrontendService", "openmatch.QueryService", "grpc.health.v1.Health"}
	check := func(want health.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, p := range servertest.Protocols {
			for _, name := range names {
				got, err := h.health(p).Check(t.Context(), connect.NewRequest(&health.HealthCheckRequest{Service: name}))
				require.NoError(t, err)
				require.Equal(t, want, got.Msg.GetStatus())
			}
		}
	}
	check(serving)
	_, err := h.health(servertest.GRPC).Check(t.Context(), connect.NewRequest(&health.HealthCheckRequest{Service: "openmatch.Nothing"}))
	isError(t, err, connect.CodeNotFound, "unknown service")
	down := errors.New("no Redis")
	h.ready.Store(&down)
	check(notServing)
	h.ready.Store(nil)
	check(serving)
	h.drain()
	check(notServing)
}

func TestHealthWatch(t *testing.T) {
	t.Parallel()
	h := start(t)
	type watch = *connect.ServerStreamForClient[health.HealthCheckResponse]
	receives := func(w watch, want health.HealthCheckResponse_ServingStatus) {
		t.Helper()
		require.True(t, w.Receive(), "%v", w.Err())
		require.Equal(t, want, w.Msg().GetStatus())
	}
	begin := func(p servertest.Protocol, service string, want health.HealthCheckResponse_ServingStatus) watch {
		t.Helper()
		w, err := h.health(p).Watch(t.Context(), connect.NewRequest(&health.HealthCheckRequest{Service: service}))
		require.NoError(t, err)
		receives(w, want)
		return w
	}
	nothing, changing := begin(servertest.GRPC, "openmatch.Nothing", unknown), begin(servertest.GRPC, "", serving)
	down := errors.New("no Redis")
	h.ready.Store(&down)
	receives(changing, notServing)
	h.ready.Store(nil)
	var known []watch
	for _, p := range servertest.Protocols {
		known = append(known, begin(p, "openmatch.FrontendService", serving))
	}
	h.drain()
	for _, w := range known {
		receives(w, notServing)
	}
	for _, w := range append(known, nothing) {
		require.False(t, w.Receive())
		isError(t, w.Err(), connect.CodeUnavailable, "the server is shutting down")
	}
}

// TestReflection lists the services, and describes them.
func TestReflection(t *testing.T) {
	t.Parallel()
	stream := grpcreflect.NewClient(servertest.Client(t, true), start(t).url, connect.WithGRPC()).NewStream(t.Context())
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
