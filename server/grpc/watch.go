package grpc

import (
	"context"

	"google.golang.org/grpc"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/convert"
)

// WatchAssignments sends the ticket's assignment once it exists, and ends with NotFound when the ticket is gone. Every
// watch gets the assignment. A ticket never gets a second one, so nothing more is sent.
func (f *frontend) WatchAssignments(
	request *openmatch.WatchAssignmentsRequest, stream grpc.ServerStreamingServer[openmatch.WatchAssignmentsResponse],
) error {
	ctx, id := stream.Context(), request.GetTicketId()
	a, err := f.await(ctx, id)
	if err != nil {
		return err
	}
	if err := stream.Send(&openmatch.WatchAssignmentsResponse{Assignment: convert.FromAssignment(a)}); err != nil {
		return err
	}
	return f.hold(ctx, id, a.Queue)
}

// await waits for the assignment.
func (f *frontend) await(ctx context.Context, id string) (*matchmaking.Assignment, error) {
	a, err := f.matchmaking.Await(ctx, id)
	if err != nil {
		return nil, f.orDraining(orNoTicket(id, err))
	}
	return a, nil
}

// hold keeps the stream open until the ticket is gone.
func (f *frontend) hold(ctx context.Context, id, queue string) error {
	if err := f.matchmaking.AwaitEnd(ctx, queue, id); err != nil {
		return f.orDraining(err)
	}
	return noTicket(id)
}

// orDraining returns err, or the error for draining when the server drains.
func (f *frontend) orDraining(err error) error {
	select {
	case <-f.drained:
		return errDraining
	default:
		return err
	}
}
