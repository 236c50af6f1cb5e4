package grpc

import (
	"context"

	"google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// need is the permission that the client of a method needs.
type need struct {
	action access.Action
	of     func(ctx context.Context, message any) access.Resource // of the first message; nil: the service checks it
	open   bool                                                   // no credentials are needed
	reads  bool                                                   // it changes nothing, and its answer may be large
}

// needs are the permissions of all methods. A method that isn't listed isn't served.
var needs = map[string]need{
	openmatch.FrontendService_CreateTicket_FullMethodName:     {action: access.Ticket, of: ofNewTicket},
	openmatch.FrontendService_GetTicket_FullMethodName:        {action: access.Ticket, of: ofTicket, reads: true},
	openmatch.FrontendService_DeleteTicket_FullMethodName:     {action: access.Ticket, of: ofTicket},
	openmatch.FrontendService_DeindexTicket_FullMethodName:    {action: access.Ticket, of: ofTicket},
	openmatch.FrontendService_WatchAssignments_FullMethodName: {action: access.Ticket, of: ofTicket},
	// backfills aren't implemented
	openmatch.FrontendService_AcknowledgeBackfill_FullMethodName: {action: access.Queue},
	openmatch.FrontendService_CreateBackfill_FullMethodName:      {action: access.Queue},
	openmatch.FrontendService_DeleteBackfill_FullMethodName:      {action: access.Queue},
	openmatch.FrontendService_GetBackfill_FullMethodName:         {action: access.Queue, reads: true},
	openmatch.FrontendService_UpdateBackfill_FullMethodName:      {action: access.Queue},

	openmatch.QueryService_QueryTickets_FullMethodName:   {action: access.Queue, reads: true},
	openmatch.QueryService_QueryTicketIds_FullMethodName: {action: access.Queue, reads: true},

	grpc_health_v1.Health_Check_FullMethodName: {open: true},
	grpc_health_v1.Health_List_FullMethodName:  {open: true},
	grpc_health_v1.Health_Watch_FullMethodName: {open: true},

	reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName:      {action: access.Any},
	reflectionv1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: {action: access.Any},
}

// ofTicket returns the ticket that a message names.
func ofTicket(_ context.Context, message any) access.Resource {
	return access.Resource{Ticket: message.(interface{ GetTicketId() string }).GetTicketId()}
}

// ofNewTicket returns the queue of a ticket to be created.
func ofNewTicket(ctx context.Context, _ any) access.Resource {
	return access.Resource{Queue: queueOfTicket(ctx)}
}

// needOf returns the need of a method.
func needOf(path string) need {
	n, ok := needs[path]
	if !ok {
		panic("no need is known of " + path) // impossible: a test walks all methods
	}
	return n
}
