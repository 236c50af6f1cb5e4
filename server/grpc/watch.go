package grpc

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/convert"
)

// WatchAssignments sends the ticket's assignment once it exists, and ends with NotFound when the ticket is gone. Every watch
// gets the assignment. A ticket never gets a second one, so nothing more is sent.
func (f *frontend) WatchAssignments(
	request *openmatch.WatchAssignmentsRequest, stream grpc.ServerStreamingServer[openmatch.WatchAssignmentsResponse],
) error {
	ctx, id := stream.Context(), request.GetTicketId()
	if err := checkTicketID(id); err != nil {
		return err
	}
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
	a, err := f.players.Await(ctx, id)
	if err == nil {
		return a, nil
	}
	select {
	case <-f.drained:
		return nil, errDraining
	default:
		return nil, orNoTicket(id, err)
	}
}

// hold keeps the stream open until the ticket is gone, which is as long as the queue's assignments can be read.
func (f *frontend) hold(ctx context.Context, id, queue string) error {
	timer := time.NewTimer(f.assignmentTTL(queue))
	defer timer.Stop()
	select {
	case <-timer.C:
		return noTicket(id)
	case <-f.drained:
		return errDraining
	case <-ctx.Done():
		return ctx.Err()
	}
}
