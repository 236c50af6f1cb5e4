package grpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// Metadata that clients may send.
const (
	metadataQueue    = "tidemark-queue"     // the queue of a ticket or of a pool
	metadataTicketID = "tidemark-ticket-id" // of a new ticket; with it a create can be repeated
	metadataMatch    = "tidemark-match"     // whether assignments have the extension tidemark.match: true or false
)

// metadataToken is the metadata of an answer that has the token of the ticket that was created.
const metadataToken = "tidemark-ticket-token"

// metadataOf returns the client's metadata with a name, which is in lower case.
func metadataOf(ctx context.Context, name string) string {
	if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// frontend is openmatch.FrontendService.
type frontend struct {
	openmatch.UnimplementedFrontendServiceServer

	tickets   Tickets
	backfills Backfills
	drained   func() <-chan struct{} // returns a channel that is closed when calls that wait end
}

// errDraining ends waiting calls when the server drains.
var errDraining = status.Error(codes.Unavailable, web.ErrDraining.Detail)

// CreateTicket creates a ticket in the queue from the metadata, or in the default one.
func (f *frontend) CreateTicket(
	ctx context.Context, request *openmatch.CreateTicketRequest,
) (*openmatch.Ticket, error) {
	ticket := request.GetTicket()
	if err := checkTicket(ticket); err != nil {
		return nil, err
	}
	withMatch, err := wantsMatch(ctx)
	if err != nil {
		return nil, err
	}
	spec, err := convert.ToSpec(ticket)
	if err != nil {
		return nil, err
	}
	t, created, err := f.tickets.Create(ctx, service.NewTicket{
		Queue: queueOf(ctx), ID: metadataOf(ctx, metadataTicketID), Spec: spec,
		Owner: access.From(ctx).User(), PersistentTTL: convert.TTLOf(ticket), NoChannel: true,
	})
	if err != nil {
		return nil, err
	}
	if token := f.tickets.Token(ctx, &t); token != "" {
		_ = grpc.SetHeader(ctx, metadata.Pairs(metadataToken, token)) // fails only if the client has gone
	}
	if !created {
		return ticketMessage(&t, withMatch), nil
	}
	ticket.Id, ticket.CreateTime = t.ID, timestamppb.New(t.CreateTime)
	return ticket, nil
}

// queueOf returns the queue of a call from the client's metadata, or the default one.
func queueOf(ctx context.Context) string {
	return cmp.Or(metadataOf(ctx, metadataQueue), matchmaking.DefaultQueue)
}

// checkTicket refuses the same tickets as Open Match, with the same texts.
func checkTicket(t *openmatch.Ticket) error {
	switch {
	case t == nil:
		return badRequest(".ticket is required")
	case t.GetAssignment() != nil:
		return badRequest("tickets cannot be created with an assignment")
	case t.GetCreateTime() != nil:
		return badRequest("tickets cannot be created with create time set")
	}
	return nil
}

// DeleteTicket removes a ticket, whether it waits or has a match. It succeeds if the ticket does not exist.
func (f *frontend) DeleteTicket(ctx context.Context, request *openmatch.DeleteTicketRequest) (*emptypb.Empty, error) {
	if err := f.tickets.Delete(ctx, request.GetTicketId()); err != nil {
		return nil, err
	}
	return new(emptypb.Empty), nil
}

// DeindexTicket removes a ticket from its queue. It remains readable until its life ends, and a matched ticket keeps its
// match. It succeeds if the ticket does not exist.
func (f *frontend) DeindexTicket(
	ctx context.Context, request *openmatch.DeindexTicketRequest,
) (*openmatch.DeindexTicketResponse, error) {
	if err := f.tickets.Deindex(ctx, request.GetTicketId()); err != nil && !errors.Is(err, matchmaking.ErrTicketMatched) {
		return nil, err
	}
	return new(openmatch.DeindexTicketResponse), nil
}

// GetTicket returns a ticket that waits, is deindexed or has a match.
func (f *frontend) GetTicket(ctx context.Context, request *openmatch.GetTicketRequest) (*openmatch.Ticket, error) {
	withMatch, err := wantsMatch(ctx)
	if err != nil {
		return nil, err
	}
	t, err := f.ticket(ctx, request.GetTicketId())
	if err != nil {
		return nil, err
	}
	return ticketMessage(&t, withMatch), nil
}

// wantsMatch reports whether the client asks for the extension tidemark.match. Others don't get it: it is an Any of a
// type that a client needs to know, or it can't read the assignment as JSON.
func wantsMatch(ctx context.Context) (bool, error) {
	switch text := metadataOf(ctx, metadataMatch); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, badRequest(fmt.Sprintf("%s is %.64q, it must be true or false", metadataMatch, text))
	}
}

// ticketMessage returns a ticket as a message.
func ticketMessage(t *matchmaking.Ticket, withMatch bool) *openmatch.Ticket {
	m := convert.FromTicket(t)
	if withMatch && t.Assignment != nil {
		m.Assignment = convert.WithMatch(t.Assignment)
	}
	return m
}

// ticket reads a ticket. For clients of Open Match a cancelled or expired one doesn't exist, unless it is deindexed.
func (f *frontend) ticket(ctx context.Context, id string) (matchmaking.Ticket, error) {
	t, err := f.tickets.Ticket(ctx, id)
	switch {
	case err != nil:
		return matchmaking.Ticket{}, orNoTicket(id, err)
	case t.Status == matchmaking.Cancelled && !t.Deindexed || t.Status == matchmaking.Expired:
		return matchmaking.Ticket{}, noTicket(id)
	}
	return t, nil
}

// noTicket returns the error of a ticket that doesn't exist, with Open Match's text.
func noTicket(id string) error {
	return status.Errorf(codes.NotFound, "Ticket id: %s not found", id)
}

// orNoTicket returns err, or noTicket's error if err is of kind NotFound.
func orNoTicket(id string, err error) error {
	var e *fault.Error
	if errors.As(err, &e) && e.Kind == fault.NotFound {
		return noTicket(id)
	}
	return err
}

// WatchAssignments sends the ticket's assignment once it exists, and ends with NotFound when the ticket is gone. Every
// watch gets the assignment. A ticket never gets a second one, so nothing more is sent.
func (f *frontend) WatchAssignments(
	request *openmatch.WatchAssignmentsRequest, stream grpc.ServerStreamingServer[openmatch.WatchAssignmentsResponse],
) error {
	ctx, id := stream.Context(), request.GetTicketId()
	withMatch, err := wantsMatch(ctx)
	if err != nil {
		return err
	}
	a, err := f.tickets.Await(ctx, id)
	if err != nil {
		return f.orDraining(orNoTicket(id, err))
	}
	message := convert.FromAssignment
	if withMatch {
		message = convert.WithMatch
	}
	if err := stream.Send(&openmatch.WatchAssignmentsResponse{Assignment: message(a)}); err != nil {
		return err
	}
	if err := f.tickets.AwaitEnd(ctx, a.Queue, id); err != nil {
		return f.orDraining(err)
	}
	return noTicket(id)
}

// orDraining returns err, or the error for draining when the server drains.
func (f *frontend) orDraining(err error) error {
	select {
	case <-f.drained():
		return errDraining
	default:
		return err
	}
}
