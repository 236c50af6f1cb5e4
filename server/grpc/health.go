package grpc

import (
	"context"
	"errors"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/tidemark-dev/tidemark/openmatch/health"
	"github.com/tidemark-dev/tidemark/server/web"
)

// healthCheck is grpc.health.v1.Health. For the server and for each of its services it reports what GET /readyz does.
type healthCheck struct {
	router *web.Router
}

// healthPause is how long a watch waits between two checks of readiness.
const healthPause = 5 * time.Second

// Check reports whether a service can be called now.
func (h *healthCheck) Check(
	ctx context.Context, request *connect.Request[health.HealthCheckRequest],
) (*connect.Response[health.HealthCheckResponse], error) {
	status := h.status(ctx, request.Msg.GetService())
	if status == health.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("unknown service"))
	}
	return connect.NewResponse(&health.HealthCheckResponse{Status: status}), nil
}

// Watch reports whether a service can be called, and each change, until the server drains. An unknown service is
// SERVICE_UNKNOWN, as the protocol says.
func (h *healthCheck) Watch(
	ctx context.Context, request *connect.Request[health.HealthCheckRequest], stream *connect.ServerStream[health.HealthCheckResponse],
) error {
	ticker := time.NewTicker(healthPause)
	defer ticker.Stop()
	sent := health.HealthCheckResponse_UNKNOWN
	for {
		last := h.router.IsDraining() // before the status, so that the last status sent is that of draining
		status := h.status(ctx, request.Msg.GetService())
		if status != sent && ctx.Err() == nil {
			if err := stream.Send(&health.HealthCheckResponse{Status: status}); err != nil {
				return err
			}
			sent = status
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

func (h *healthCheck) status(ctx context.Context, service string) health.HealthCheckResponse_ServingStatus {
	switch {
	case !serves(service):
		return health.HealthCheckResponse_SERVICE_UNKNOWN
	case h.router.Ready(ctx) != nil:
		return health.HealthCheckResponse_NOT_SERVING
	}
	return health.HealthCheckResponse_SERVING
}

// serves reports whether there is a service with this name. The empty one is the whole server.
func serves(service string) bool { return service == "" || slices.Contains(servedNames, service) }
