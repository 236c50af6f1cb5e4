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
	if !serves(request.Msg.GetService()) {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("unknown service"))
	}
	return connect.NewResponse(&health.HealthCheckResponse{Status: h.status(ctx)}), nil
}

// Watch reports whether a service can be called, and each change, until the server drains. An unknown service is
// SERVICE_UNKNOWN, as the protocol says.
func (h *healthCheck) Watch(
	ctx context.Context, request *connect.Request[health.HealthCheckRequest], stream *connect.ServerStream[health.HealthCheckResponse],
) error {
	known := serves(request.Msg.GetService())
	ticker := time.NewTicker(healthPause)
	defer ticker.Stop()
	draining := h.router.Draining()
	sent := health.HealthCheckResponse_UNKNOWN
	for {
		last := isClosed(draining) // before the status, so that the last status sent is that of draining
		status := health.HealthCheckResponse_SERVICE_UNKNOWN
		if known {
			status = h.status(ctx)
		}
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
		case <-draining:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (h *healthCheck) status(ctx context.Context) health.HealthCheckResponse_ServingStatus {
	if h.router.Ready(ctx) != nil {
		return health.HealthCheckResponse_NOT_SERVING
	}
	return health.HealthCheckResponse_SERVING
}

// serves reports whether there is a service with this name. The empty one is the whole server.
func serves(service string) bool { return service == "" || slices.Contains(servedNames, service) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
