package grpc

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server/web"
)

// healthCheck is grpc.health.v1.Health. For the server and for each of its services it reports what GET /readyz does, which
// is why it isn't grpc-go's own, whose statuses are set.
type healthCheck struct {
	grpc_health_v1.UnimplementedHealthServer
	router *web.Router
}

// healthPause is how long a watch waits between two checks of readiness.
const healthPause = 5 * time.Second

// checkedNames are the services that health checks know. The empty one is the whole server.
var checkedNames = []string{
	"", openmatch.FrontendService_ServiceDesc.ServiceName, openmatch.QueryService_ServiceDesc.ServiceName,
	grpc_health_v1.Health_ServiceDesc.ServiceName,
}

func (h *healthCheck) status(ctx context.Context, service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
	switch {
	case !slices.Contains(checkedNames, service):
		return grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
	case h.router.Ready(ctx) != nil:
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_SERVING
}

// Check reports whether a service can be called now.
func (h *healthCheck) Check(
	ctx context.Context, request *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	s := h.status(ctx, request.GetService())
	if s == grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: s}, nil
}

// List reports whether each service can be called now.
func (h *healthCheck) List(
	ctx context.Context, _ *grpc_health_v1.HealthListRequest,
) (*grpc_health_v1.HealthListResponse, error) {
	all := &grpc_health_v1.HealthListResponse{Statuses: map[string]*grpc_health_v1.HealthCheckResponse{}}
	now := &grpc_health_v1.HealthCheckResponse{Status: h.status(ctx, "")}
	for _, name := range checkedNames {
		all.Statuses[name] = now
	}
	return all, nil
}

// Watch reports whether a service can be called, and each change, until the server drains. An unknown service is
// SERVICE_UNKNOWN, as the protocol says.
func (h *healthCheck) Watch(
	request *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse],
) error {
	ctx := stream.Context()
	ticker := time.NewTicker(healthPause)
	defer ticker.Stop()
	sent := grpc_health_v1.HealthCheckResponse_UNKNOWN
	for {
		last := h.router.IsDraining() // before the status, so that the last status sent is that of draining
		s := h.status(ctx, request.GetService())
		if s != sent && ctx.Err() == nil {
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
		case <-h.router.Draining():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
