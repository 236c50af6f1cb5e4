package floor

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"github.com/tidemark-dev/tidemark/openmatch"
)

// frontend is the floor of matchmaking: it stores nothing, matches nothing, and returns for each ticket an assignment
// at once.
var frontend = grpc.ServiceDesc{
	ServiceName: "openmatch.FrontendService",
	Methods:     []grpc.MethodDesc{{MethodName: "CreateTicket", Handler: createTicket}},
	Streams:     []grpc.StreamDesc{{StreamName: "WatchAssignments", Handler: watchAssignments, ServerStreams: true}},
}

// serveFrontend serves the floor of matchmaking by grpc-go.
func serveFrontend(ctx context.Context, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	server.RegisterService(&frontend, nil)
	defer context.AfterFunc(ctx, server.Stop)()
	return server.Serve(listener)
}

// createTicket answers a ticket.
func createTicket(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // of grpc
	var request openmatch.CreateTicketRequest
	if err := decode(&request); err != nil {
		return nil, err
	}
	ticket := request.GetTicket()
	ticket.Id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	return ticket, nil
}

// watchAssignments sends an assignment.
func watchAssignments(_ any, stream grpc.ServerStream) error {
	var request openmatch.WatchAssignmentsRequest
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	if err := stream.SendMsg(&openmatch.WatchAssignmentsResponse{Assignment: &openmatch.Assignment{Connection: "127.0.0.1:7777"}}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}
