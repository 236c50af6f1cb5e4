package grpc

import (
	"context"
	"strings"

	"google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// need is the permission that the client of a method needs.
type need struct {
	action access.Action
	of     func(ctx context.Context, message any) access.Resource // of the first message; nil: the service checks it
	open   bool                                                   // no credentials are needed
	reads  bool                                                   // it changes nothing, and its answer may be large
	large  bool                                                   // its message may be large
}

// needs are the permissions of all methods. A method that isn't listed isn't served.
var needs = map[string]need{
	openmatch.FrontendService_CreateTicket_FullMethodName:     {action: access.Ticket, of: ofQueue, large: true},
	openmatch.FrontendService_GetTicket_FullMethodName:        {action: access.Ticket, of: ofTicket, reads: true},
	openmatch.FrontendService_DeleteTicket_FullMethodName:     {action: access.Ticket, of: ofTicket},
	openmatch.FrontendService_DeindexTicket_FullMethodName:    {action: access.Ticket, of: ofTicket},
	openmatch.FrontendService_WatchAssignments_FullMethodName: {action: access.Ticket, of: ofTicket},

	openmatch.FrontendService_AcknowledgeBackfill_FullMethodName: {action: access.Backfill, of: ofBackfill, large: true},
	openmatch.FrontendService_CreateBackfill_FullMethodName:      {action: access.Backfill, of: ofQueue, large: true},
	openmatch.FrontendService_DeleteBackfill_FullMethodName:      {action: access.Backfill, of: ofBackfill},
	openmatch.FrontendService_GetBackfill_FullMethodName:         {action: access.Backfill, of: ofBackfill, reads: true},
	openmatch.FrontendService_UpdateBackfill_FullMethodName:      {action: access.Backfill, of: ofUpdated, large: true},

	openmatch.BackendService_FetchMatches_FullMethodName:      {action: access.Direct, of: ofQueue, large: true},
	openmatch.BackendService_AssignTickets_FullMethodName:     {action: access.Direct, of: ofQueue, large: true},
	openmatch.BackendService_ReleaseTickets_FullMethodName:    {action: access.Direct, of: ofQueue, large: true},
	openmatch.BackendService_ReleaseAllTickets_FullMethodName: {action: access.Direct, of: ofQueue},

	openmatch.QueryService_QueryTickets_FullMethodName:   {action: access.Queue, reads: true, large: true},
	openmatch.QueryService_QueryTicketIds_FullMethodName: {action: access.Queue, reads: true, large: true},
	openmatch.QueryService_QueryBackfills_FullMethodName: {action: access.Queue, reads: true, large: true},

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

// ofQueue returns the queue of a call, such as that of a ticket to be created.
func ofQueue(ctx context.Context, _ any) access.Resource { return access.Resource{Queue: queueOf(ctx)} }

// ofBackfill returns the queue of the backfill that a message names.
func ofBackfill(_ context.Context, message any) access.Resource {
	return ofBackfillID(message.(interface{ GetBackfillId() string }).GetBackfillId())
}

// ofUpdated returns the queue of the backfill in a message.
func ofUpdated(_ context.Context, message any) access.Resource {
	return ofBackfillID(message.(*openmatch.UpdateBackfillRequest).GetBackfill().GetId())
}

// ofBackfillID returns the queue of a backfill's ID. No backfill has an ID without a queue.
func ofBackfillID(id string) access.Resource {
	_, queue, _ := strings.Cut(id, ".")
	return access.Resource{Queue: queue}
}

// needOf returns the need of a method.
func needOf(path string) need {
	n, ok := needs[path]
	if !ok {
		panic("no need is known of " + path) // impossible: a test walks all methods
	}
	return n
}
