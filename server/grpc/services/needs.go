package services

import (
	"context"

	"google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// Need is what the client of a method must be allowed to do.
type Need struct {
	Action access.Action
	Of     func(ctx context.Context, message any) access.Resource // of the first message; nil: the service checks what the action is done to
	Open   bool                                                   // no credentials are needed
}

// needs are the needs of all methods. A method that isn't here isn't served.
var needs = map[string]Need{
	openmatch.FrontendService_CreateTicket_FullMethodName:        {Action: access.Ticket, Of: ofNewTicket},
	openmatch.FrontendService_GetTicket_FullMethodName:           {Action: access.Ticket, Of: ofTicket},
	openmatch.FrontendService_DeleteTicket_FullMethodName:        {Action: access.Ticket, Of: ofTicket},
	openmatch.FrontendService_DeindexTicket_FullMethodName:       {Action: access.Ticket, Of: ofTicket},
	openmatch.FrontendService_WatchAssignments_FullMethodName:    {Action: access.Ticket, Of: ofTicket},
	openmatch.FrontendService_AcknowledgeBackfill_FullMethodName: {Action: access.Queue}, // backfills aren't implemented
	openmatch.FrontendService_CreateBackfill_FullMethodName:      {Action: access.Queue},
	openmatch.FrontendService_DeleteBackfill_FullMethodName:      {Action: access.Queue},
	openmatch.FrontendService_GetBackfill_FullMethodName:         {Action: access.Queue},
	openmatch.FrontendService_UpdateBackfill_FullMethodName:      {Action: access.Queue},

	openmatch.QueryService_QueryTickets_FullMethodName:   {Action: access.Queue},
	openmatch.QueryService_QueryTicketIds_FullMethodName: {Action: access.Queue},

	grpc_health_v1.Health_Check_FullMethodName: {Open: true},
	grpc_health_v1.Health_List_FullMethodName:  {Open: true},
	grpc_health_v1.Health_Watch_FullMethodName: {Open: true},

	reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName:      {Action: access.Any},
	reflectionv1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: {Action: access.Any},
}

// ofTicket is the ticket that a message names.
func ofTicket(_ context.Context, message any) access.Resource {
	return access.Resource{Ticket: message.(interface{ GetTicketId() string }).GetTicketId()}
}

// ofNewTicket is the queue of a ticket that is to be created.
func ofNewTicket(ctx context.Context, _ any) access.Resource {
	return access.Resource{Queue: queueOfTicket(ctx)}
}

// NeedOf returns the need of a method.
func NeedOf(path string) Need {
	n, ok := needs[path]
	if !ok {
		panic("no need is known of " + path) // impossible: a test walks all methods
	}
	return n
}
