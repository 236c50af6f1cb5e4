package main

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"github.com/tidemark-dev/tidemark/openmatch"
)

// frontend is the floor of matchmaking: it stores nothing, matches nothing, and returns for each ticket an assignment
// at once.
type frontend struct {
	openmatch.UnimplementedFrontendServiceServer
}

// serveFrontend serves the floor of matchmaking by grpc-go.
func serveFrontend(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	openmatch.RegisterFrontendServiceServer(server, frontend{})
	defer context.AfterFunc(ctx, server.Stop)()
	return server.Serve(listener)
}

// CreateTicket answers a ticket.
func (frontend) CreateTicket(_ context.Context, request *openmatch.CreateTicketRequest) (*openmatch.Ticket, error) {
	ticket := request.GetTicket()
	ticket.Id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	return ticket, nil
}

// WatchAssignments sends an assignment.
func (frontend) WatchAssignments(
	_ *openmatch.WatchAssignmentsRequest, stream grpc.ServerStreamingServer[openmatch.WatchAssignmentsResponse],
) error {
	assignment := &openmatch.Assignment{Connection: "127.0.0.1:7777"}
	if err := stream.Send(&openmatch.WatchAssignmentsResponse{Assignment: assignment}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}
