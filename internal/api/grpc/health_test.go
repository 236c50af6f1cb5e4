package grpc_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/test/servertest"
)

const (
	serving    = grpc_health_v1.HealthCheckResponse_SERVING
	notServing = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	unknown    = grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
)

func (h *harness) health(p servertest.Protocol) grpc_health_v1.HealthClient {
	return grpc_health_v1.NewHealthClient(h.dial(p))
}

func TestHealth(t *testing.T) {
	t.Parallel()
	h := start(t)
	names := []string{"", "openmatch.FrontendService", "openmatch.BackendService", "openmatch.QueryService",
		"grpc.health.v1.Health"}
	check := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, p := range servertest.Protocols {
			client := h.health(p)
			for _, name := range names {
				got, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
				require.NoError(t, err)
				require.Equal(t, want, got.GetStatus())
			}
			all, err := client.List(t.Context(), &grpc_health_v1.HealthListRequest{})
			require.NoError(t, err)
			require.Len(t, all.GetStatuses(), len(names))
			require.Equal(t, want, all.GetStatuses()["openmatch.QueryService"].GetStatus())
		}
	}
	check(serving)
	_, err := h.health(servertest.Native).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "openmatch.Nothing"})
	isError(t, err, codes.NotFound, "unknown service")
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
	type watch = grpc_health_v1.Health_WatchClient
	receives := func(w watch, want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		got, err := w.Recv()
		require.NoError(t, err)
		require.Equal(t, want, got.GetStatus())
	}
	begin := func(p servertest.Protocol, service string, want grpc_health_v1.HealthCheckResponse_ServingStatus) watch {
		t.Helper()
		w, err := h.health(p).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		require.NoError(t, err)
		receives(w, want)
		return w
	}
	nothing, changing := begin(servertest.Native, "openmatch.Nothing", unknown), begin(servertest.Native, "", serving)
	down := errors.New("no Redis")
	h.ready.Store(&down)
	receives(changing, notServing)
	h.ready.Store(nil)
	var watches []watch
	for _, p := range servertest.Protocols {
		watches = append(watches, begin(p, "openmatch.FrontendService", serving))
	}
	h.drain()
	for _, w := range watches {
		receives(w, notServing)
	}
	for _, w := range append(watches, nothing) {
		_, err := w.Recv()
		isError(t, err, codes.Unavailable, "the server is shutting down")
	}
}

// TestReflection lists the services and describes them, in both versions, which have the same messages. An open stream
// ends with the drain.
func TestReflection(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, p := range []servertest.Protocol{servertest.Native, servertest.GRPCGo} {
		stream, err := reflectionv1.NewServerReflectionClient(h.dial(p)).ServerReflectionInfo(t.Context())
		require.NoError(t, err)
		ask := func(request *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
			require.NoError(t, stream.Send(request))
			answer, err := stream.Recv()
			require.NoError(t, err)
			return answer
		}
		list := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}
		services := ask(list).GetListServicesResponse().GetService()
		require.Len(t, services, 6)
		for _, service := range services {
			described := ask(&reflectionv1.ServerReflectionRequest{
				MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service.GetName()},
			})
			require.NotEmpty(t, described.GetFileDescriptorResponse().GetFileDescriptorProto(), service.GetName())
		}
		alpha, err := reflectionv1alpha.NewServerReflectionClient(h.dial(p)).ServerReflectionInfo(t.Context())
		require.NoError(t, err)
		old := new(reflectionv1alpha.ServerReflectionRequest) //nolint:staticcheck // grpcurl uses it
		data, err := proto.Marshal(list)
		require.NoError(t, err)
		require.NoError(t, proto.Unmarshal(data, old))
		require.NoError(t, alpha.Send(old))
		answer, err := alpha.Recv()
		require.NoError(t, err)
		require.Len(t, answer.GetListServicesResponse().GetService(), 6) //nolint:staticcheck // grpcurl uses it
		defer func() {
			_, err := stream.Recv()
			isError(t, err, codes.Unavailable, "the server is shutting down")
		}()
	}
	h.drain()
}
