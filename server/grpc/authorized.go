package grpc

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server/grpc/services"
	"github.com/tidemark-dev/tidemark/server/web"
)

// need is what the client of a method must be allowed to do.
type need struct {
	action access.Action
	of     func(ctx context.Context, message any) access.Resource // of the first message; nil: the service checks what the action is done to
	open   bool                                                   // no credentials are needed
}

// needs are the needs of all methods. A method that isn't here isn't served.
var needs = map[string]need{
	openmatch.FrontendService_CreateTicket_FullMethodName:        {action: access.Ticket, of: ofNewTicket},
	openmatch.FrontendService_GetTicket_FullMethodName:           {action: access.Ticket, of: ofTicket},
	openmatch.FrontendService_DeleteTicket_FullMethodName:        {action: access.Ticket, of: ofTicket},
	openmatch.FrontendService_DeindexTicket_FullMethodName:       {action: access.Ticket, of: ofTicket},
	openmatch.FrontendService_WatchAssignments_FullMethodName:    {action: access.Ticket, of: ofTicket},
	openmatch.FrontendService_AcknowledgeBackfill_FullMethodName: {action: access.Queue}, // backfills aren't implemented
	openmatch.FrontendService_CreateBackfill_FullMethodName:      {action: access.Queue},
	openmatch.FrontendService_DeleteBackfill_FullMethodName:      {action: access.Queue},
	openmatch.FrontendService_GetBackfill_FullMethodName:         {action: access.Queue},
	openmatch.FrontendService_UpdateBackfill_FullMethodName:      {action: access.Queue},

	openmatch.QueryService_QueryTickets_FullMethodName:   {action: access.Queue},
	openmatch.QueryService_QueryTicketIds_FullMethodName: {action: access.Queue},

	grpc_health_v1.Health_Check_FullMethodName: {open: true},
	grpc_health_v1.Health_List_FullMethodName:  {open: true},
	grpc_health_v1.Health_Watch_FullMethodName: {open: true},

	reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName:      {action: access.Any},
	reflectionv1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: {action: access.Any},
}

// ofTicket is the ticket that a message names.
func ofTicket(_ context.Context, message any) access.Resource {
	return access.Resource{Ticket: message.(interface{ GetTicketId() string }).GetTicketId()}
}

// ofNewTicket is the queue of a ticket that is to be created.
func ofNewTicket(ctx context.Context, _ any) access.Resource {
	return access.Resource{Queue: services.QueueOfTicket(ctx)}
}

// needOf returns the need of a method.
func needOf(path string) need {
	n, ok := needs[path]
	if !ok {
		panic("no need is known of " + path) // impossible: a test walks all methods
	}
	return n
}

const metadataAuthorization = "authorization"

// authorized authenticates the client before its message is read, and checks what it may do, to which resource as soon as the
// message has arrived. A stream ends when the client's credential does.
func authorized(m *method, next grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, ss grpc.ServerStream) error {
		p, err := m.authenticate(ss.Context())
		if err == nil {
			ss.(*call).client = p
			err = m.router.Guard().Check(ss.Context(), p, m.need.action, access.Resource{})
		}
		if err != nil {
			return err
		}
		s := &authorizedStream{ServerStream: ss, method: m, ctx: access.With(ss.Context(), p)}
		if !m.streams {
			return next(srv, s)
		}
		held, release := m.router.Guard().Hold(s.ctx, p)
		defer release()
		s.ctx = held
		err = next(srv, s)
		if ended := credentialEnd(held); err != nil && ended != nil {
			return ended
		}
		return err
	}
}

// authenticate returns the client. On the HTTP port the plumbing has authenticated it.
func (m *method) authenticate(ctx context.Context) (*access.Principal, error) {
	if m.http {
		return access.From(ctx), nil
	}
	address := ""
	if from, ok := peer.FromContext(ctx); ok {
		address = from.Addr.String()
	}
	credential, err := web.Bearer(metadata.ValueFromIncomingContext(ctx, metadataAuthorization))
	if err != nil {
		return nil, err
	}
	return m.router.Authenticate(ctx, credential, address)
}

// credentialEnd returns why the client's credential isn't valid any more, or nil.
func credentialEnd(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, access.ErrExpired) || errors.Is(cause, access.ErrRevoked) {
		return cause
	}
	return nil
}

// authorizedStream is the stream of a call whose client has a principal, which its context carries.
type authorizedStream struct {
	grpc.ServerStream
	method  *method
	ctx     context.Context //nolint:containedctx // of the call, as in grpc-go
	checked bool            // the first message was
}

// Context returns the context of the call.
func (s *authorizedStream) Context() context.Context { return s.ctx }

// RecvMsg reads a message, and checks whether the client may do to its resource what it asks for.
func (s *authorizedStream) RecvMsg(message any) error {
	if err := s.ServerStream.RecvMsg(message); err != nil || s.checked || s.method.need.of == nil {
		return err
	}
	s.checked = true
	return s.method.router.Guard().Check(s.ctx, access.From(s.ctx), s.method.need.action, s.method.need.of(s.ctx, message))
}
