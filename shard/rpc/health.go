package rpc

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

// health is grpc.health.v1.Health. It is not grpc-go's own, whose statuses are set: this one asks when somebody wants to know.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	ready   func() error
	drained <-chan struct{}
}

// healthPause is how long a watch waits between two looks.
const healthPause = time.Second

// checkedNames are the services that health checks know. The empty one is the whole server.
var checkedNames = []string{"", shardpb.ShardService_ServiceDesc.ServiceName}

var errDraining = status.Error(codes.Unavailable, "the node stops")

func (h *health) status(service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
	switch {
	case !slices.Contains(checkedNames, service):
		return grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
	case h.isDraining() || h.ready() != nil:
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_SERVING
}

func (h *health) isDraining() bool {
	select {
	case <-h.drained:
		return true
	default:
		return false
	}
}

// Check reports whether a service can be called now.
func (h *health) Check(_ context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	s := h.status(r.GetService())
	if s == grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: s}, nil
}

// List reports whether each service can be called now.
func (h *health) List(context.Context, *grpc_health_v1.HealthListRequest) (*grpc_health_v1.HealthListResponse, error) {
	all := &grpc_health_v1.HealthListResponse{Statuses: map[string]*grpc_health_v1.HealthCheckResponse{}}
	for _, name := range checkedNames {
		all.Statuses[name] = &grpc_health_v1.HealthCheckResponse{Status: h.status(name)}
	}
	return all, nil
}

// Watch reports whether a service can be called, and each change, until the server drains. An unknown service is SERVICE_UNKNOWN,
// as the protocol says.
func (h *health) Watch(
	r *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse],
) error {
	ticker := time.NewTicker(healthPause)
	defer ticker.Stop()
	sent := grpc_health_v1.HealthCheckResponse_UNKNOWN
	for {
		last := h.isDraining() // before the status, so that the last status sent is that of draining
		if s := h.status(r.GetService()); s != sent {
			if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: s}); err != nil {
				return err
			}
			sent = s
		}
		if last {
			return errDraining
		}
		select {
		case <-ticker.C:
		case <-h.drained:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}
