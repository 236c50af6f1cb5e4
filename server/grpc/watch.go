package grpc

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/tidemark-dev/tidemark/channel"
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
	if matchmaking.CheckTicketID(id) != nil {
		return noTicket(id)
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

const (
	earlyFetch = 50 * time.Millisecond // a fetch that waited takes longer than this
	watchPause = 500 * time.Millisecond
)

// await waits for the assignment on the ticket's channel. It is never acknowledged.
func (f *frontend) await(ctx context.Context, id string) (*matchmaking.Assignment, error) {
	defer f.players.Attend(ctx, id)()
	for {
		started := time.Now()
		a, err := f.fetch(ctx, id)
		if a != nil || err != nil {
			return a, err
		}
		if time.Since(started) < earlyFetch {
			// The channel has other messages, which stay unacknowledged; or the service of channels has ended.
			if err := f.pause(ctx, watchPause); err != nil {
				return nil, err
			}
		}
	}
}

// fetch waits for the assignment once, and returns nil if there was none.
func (f *frontend) fetch(ctx context.Context, id string) (*matchmaking.Assignment, error) {
	d, err := f.channels.Fetch(ctx, channel.Query{
		Channel: matchmaking.ChannelOf(id), Subscriber: matchmaking.Subscriber, Wait: f.channels.Limits().MaxWait, ListenFirst: true,
	})
	if err != nil {
		return nil, orNoTicket(id, err)
	}
	for i := range d.Messages {
		if a := assignmentIn(&d.Messages[i], id); a != nil {
			return a, nil
		}
	}
	if len(d.Messages) > 0 || d.Expired > 0 {
		t, err := f.ticket(ctx, id) // the assignment may be behind many others, or have expired
		return t.Assignment, err
	}
	return nil, f.pause(ctx, 0)
}

// assignmentIn returns the ticket's assignment in a message, or nil if the message is something else. Only the service
// writes to the channels of tickets, but a channel can have messages from before the service did.
func assignmentIn(m *channel.Message, ticket string) *matchmaking.Assignment {
	match, ok := strings.CutPrefix(m.ID, matchmaking.MessagePrefix)
	a := new(matchmaking.Assignment)
	if !ok || json.Unmarshal(m.Content, a) != nil || a.MatchID != match || a.TicketID != ticket {
		return nil
	}
	return a
}

// hold keeps the stream open until the ticket is gone, which is as long as the queue's assignments can be read.
func (f *frontend) hold(ctx context.Context, id, queue string) error {
	if err := f.pause(ctx, f.assignmentTTL(queue)); err != nil {
		return err
	}
	return noTicket(id)
}

// pause waits. It returns an error if the call must end.
func (f *frontend) pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-f.drained:
		return errDraining
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	select {
	case <-timer.C:
		return nil
	case <-f.drained:
		return errDraining
	case <-ctx.Done():
		return ctx.Err()
	}
}
