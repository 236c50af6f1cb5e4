package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/tidemark-dev/tidemark/openmatch/health"
)

// healthCheck is grpc.health.v1.Health. It tells what GET /readyz tells, for the server and for each of its services.
type healthCheck struct {
	server  *Server
	drained <-chan struct{}
}

// healthPause is how long a watch waits from one look at the readiness to the next.
const healthPause = 5 * time.Second

// Check tells whether a service can be called now.
func (h *healthCheck) Check(
	ctx context.Context, request *connect.Request[health.HealthCheckRequest],
) (*connect.Response[health.HealthCheckResponse], error) {
	if !serves(request.Msg.GetService()) {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("unknown service"))
	}
	return connect.NewResponse(&health.HealthCheckResponse{Status: h.status(ctx)}), nil
}

// Watch tells whether a service can be called, and each change, until the server drains. A service that there isn't
// is SERVICE_UNKNOWN, as the protocol has it.
func (h *healthCheck) Watch(
	ctx context.Context, request *connect.Request[health.HealthCheckRequest], stream *connect.ServerStream[health.HealthCheckResponse],
) error {
	known := serves(request.Msg.GetService())
	ticker := time.NewTicker(healthPause)
	defer ticker.Stop()
	sent := health.HealthCheckResponse_UNKNOWN
	for {
		draining := h.server.draining.Load() // as it is for the status that is sent
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
		if draining {
			return errDrainingRPC
		}
		select {
		case <-ticker.C:
		case <-h.drained:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (h *healthCheck) status(ctx context.Context) health.HealthCheckResponse_ServingStatus {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if h.server.draining.Load() || h.server.options.Ready(ctx) != nil {
		return health.HealthCheckResponse_NOT_SERVING
	}
	return health.HealthCheckResponse_SERVING
}

// serves tells whether there is a service of this name. The empty one is the whole server.
func serves(service string) bool { return service == "" || slices.Contains(servedNames, service) }
