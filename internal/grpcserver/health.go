package grpcserver

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Health is grpc.health.v1.Health. grpc-go's own has statuses that are set; this one calls Ready. All fields are
// required.
type Health struct {
	grpc_health_v1.UnimplementedHealthServer

	Names    []string                        // of the services; the empty one is the whole server
	Ready    func(ctx context.Context) error // reports whether they can be called
	Draining func() <-chan struct{}          // returns a channel that is closed when the server drains
	Stopping error                           // ends watches then
	Period   time.Duration                   // between two checks of a watch
}

func (h *Health) status(ctx context.Context, service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
	switch {
	case !slices.Contains(h.Names, service):
		return grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
	case h.isDraining() || h.Ready(ctx) != nil:
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_SERVING
}

func (h *Health) isDraining() bool {
	select {
	case <-h.Draining():
		return true
	default:
		return false
	}
}

// Check reports whether a service can be called now.
func (h *Health) Check(
	ctx context.Context, request *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	s := h.status(ctx, request.GetService())
	if s == grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: s}, nil
}

// List reports whether each service can be called now.
func (h *Health) List(
	ctx context.Context, _ *grpc_health_v1.HealthListRequest,
) (*grpc_health_v1.HealthListResponse, error) {
	all := &grpc_health_v1.HealthListResponse{Statuses: map[string]*grpc_health_v1.HealthCheckResponse{}}
	now := &grpc_health_v1.HealthCheckResponse{Status: h.status(ctx, h.Names[0])}
	for _, name := range h.Names {
		all.Statuses[name] = now
	}
	return all, nil
}

// Watch reports whether a service can be called, and each change, until the server drains. An unknown service is
// SERVICE_UNKNOWN, as in the protocol.
func (h *Health) Watch(
	request *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse],
) error {
	ctx := stream.Context()
	ticker := time.NewTicker(h.Period)
	defer ticker.Stop()
	sent := grpc_health_v1.HealthCheckResponse_UNKNOWN
	for {
		last := h.isDraining() // before the status, so that the last status sent is that of draining
		s := h.status(ctx, request.GetService())
		if s != sent && ctx.Err() == nil {
			if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: s}); err != nil {
				return err
			}
			sent = s
		}
		if last {
			return h.Stopping
		}
		select {
		case <-ticker.C:
		case <-h.Draining():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
