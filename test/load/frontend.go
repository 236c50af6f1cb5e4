package load

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/tidemark-dev/tidemark/openmatch"
)

// Frontend is a connection to a frontend of Open Match.
type Frontend struct {
	connection *grpc.ClientConn
	client     openmatch.FrontendServiceClient
}

// DialFrontend returns a connection to host:port, without TLS.
func DialFrontend(address string, options ...grpc.DialOption) (*Frontend, error) {
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	c, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, err
	}
	return &Frontend{connection: c, client: openmatch.NewFrontendServiceClient(c)}, nil
}

// Connects connects at once if the last attempt failed, and reports whether none did since.
func (f *Frontend) Connects() bool {
	f.connection.ResetConnectBackoff()
	return f.connection.GetState() != connectivity.TransientFailure
}

// Close ends all calls.
func (f *Frontend) Close() { _ = f.connection.Close() } // nothing is left to be sent

// InQueue names the queue in which Tidemark creates tickets.
func InQueue(ctx context.Context, queue string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "tidemark-queue", queue)
}

// InTrace makes calls belong to the trace of a traceparent.
func InTrace(ctx context.Context, traceparent string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "traceparent", traceparent)
}

// Create creates a ticket and returns its ID.
func (f *Frontend) Create(ctx context.Context, ticket *openmatch.Ticket) (string, error) {
	created, err := f.client.CreateTicket(ctx, &openmatch.CreateTicketRequest{Ticket: ticket})
	if err != nil {
		return "", fmt.Errorf("create a ticket: %w", err)
	}
	return created.GetId(), nil
}

// Await returns the first assignment of a ticket. The error is io.EOF, wrapped, if the server ends the stream without
// one.
func (f *Frontend) Await(ctx context.Context, id string) (*openmatch.Assignment, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, err := f.client.WatchAssignments(ctx, &openmatch.WatchAssignmentsRequest{TicketId: id})
	for err == nil {
		var answer *openmatch.WatchAssignmentsResponse
		if answer, err = watch.Recv(); err == nil && answer.GetAssignment() != nil {
			return answer.GetAssignment(), nil
		}
	}
	return nil, fmt.Errorf("watch a ticket: %w", err)
}
