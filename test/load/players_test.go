package load_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/load"
)

// frontend refuses tickets in one queue, never assigns those of another, and assigns all others at once.
type frontend struct {
	openmatch.UnimplementedFrontendServiceServer
}

func (frontend) CreateTicket(ctx context.Context, request *openmatch.CreateTicketRequest) (*openmatch.Ticket, error) {
	queue := metadata.ValueFromIncomingContext(ctx, "tidemark-queue")[0]
	if queue == "refused" {
		return nil, status.Error(codes.ResourceExhausted, "the queue is full")
	}
	request.Ticket.Id = queue
	return request.GetTicket(), nil
}

func (frontend) WatchAssignments(
	request *openmatch.WatchAssignmentsRequest, stream grpc.ServerStreamingServer[openmatch.WatchAssignmentsResponse],
) error {
	if request.GetTicketId() != "waits" {
		return stream.Send(&openmatch.WatchAssignmentsResponse{Assignment: &openmatch.Assignment{}})
	}
	if err := stream.Send(new(openmatch.WatchAssignmentsResponse)); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

func TestRun(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	openmatch.RegisterFrontendServiceServer(server, frontend{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	for name, c := range map[string]struct {
		load   load.Players
		failed string
	}{
		"again at once":        {load.Players{Count: 4, Queues: []string{"a", "b"}}, ""},
		"offered":              {load.Players{Rate: 1000, Queues: []string{"a"}}, ""},
		"one is never matched": {load.Players{Count: 2, Queues: []string{"a", "waits"}}, ""},
		"refused":              {load.Players{Count: 2, Queues: []string{"refused"}}, "the queue is full"},
		"never assigned":       {load.Players{Count: 2, Queues: []string{"waits"}}, "no ticket was assigned"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			marks := 0
			c.load.Frontends, c.load.Window = []string{listener.Addr().String()}, time.Second
			result, err := c.load.Run(t.Context(), func() error { marks++; return nil })
			if c.failed != "" {
				require.ErrorContains(t, err, c.failed)
				return
			}
			require.NoError(t, err)
			require.Equal(t, 2, marks)
			require.NotEmpty(t, result.Took)
			require.IsNonDecreasing(t, result.Took)
			require.Equal(t, result.Took[len(result.Took)-1], result.Quantile(1))
		})
	}
}
