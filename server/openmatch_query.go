package server

import (
	"context"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/function"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// pools is what QueryService needs of matchmaking.
type pools interface {
	Waiting(ctx context.Context, queue string) ([]*matchmaking.Ticket, error)
	Definitions() []matchmaking.Definition
}

// query is openmatch.QueryService.
type query struct{ pools pools }

// queryPage is how many tickets are in one answer at most.
const queryPage = 1000

// QueryTickets sends the tickets of a pool, the oldest first.
func (q *query) QueryTickets(
	ctx context.Context, request *connect.Request[openmatch.QueryTicketsRequest], stream *connect.ServerStream[openmatch.QueryTicketsResponse],
) error {
	tickets, err := q.tickets(ctx, request.Header().Get(metadataQueue), request.Msg.GetPool())
	if err != nil {
		return err
	}
	for page := range slices.Chunk(tickets, queryPage) {
		answer := &openmatch.QueryTicketsResponse{Tickets: make([]*openmatch.Ticket, len(page))}
		for i, t := range page {
			answer.Tickets[i] = openmatch.FromTicket(t)
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
	return nil
}

// QueryTicketIds sends the IDs of the tickets of a pool, the oldest first.
//
//nolint:revive // the name is Open Match's
func (q *query) QueryTicketIds(
	ctx context.Context, request *connect.Request[openmatch.QueryTicketIdsRequest], stream *connect.ServerStream[openmatch.QueryTicketIdsResponse],
) error {
	tickets, err := q.tickets(ctx, request.Header().Get(metadataQueue), request.Msg.GetPool())
	if err != nil {
		return err
	}
	for page := range slices.Chunk(tickets, queryPage) {
		answer := &openmatch.QueryTicketIdsResponse{Ids: make([]string, len(page))}
		for i, t := range page {
			answer.Ids[i] = t.ID
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
	return nil
}

// tickets gives the waiting tickets of a pool: of the queue that is named, else of the one that has the pool.
func (q *query) tickets(ctx context.Context, queue string, asked *openmatch.Pool) ([]*matchmaking.Ticket, error) {
	if asked == nil {
		return nil, badRequest(".pool is required")
	}
	pool, err := openmatch.ToPool(asked)
	if err != nil {
		return nil, err
	}
	if queue == "" {
		queue = q.queueOf(asked)
	}
	waiting, err := q.pools.Waiting(ctx, queue)
	if err != nil {
		return nil, err
	}
	var tickets []*matchmaking.Ticket
	for _, t := range waiting {
		if function.Pass(pool, t) {
			tickets = append(tickets, t)
		}
	}
	return tickets, nil
}

// queueOf finds the queue whose profile has a pool; the default queue, where none has it.
func (q *query) queueOf(asked *openmatch.Pool) string {
	for _, d := range q.pools.Definitions() {
		for _, pool := range d.Profile.Pools {
			if pool.Name == asked.GetName() && proto.Equal(openmatch.FromPool(pool), asked) {
				return d.Name
			}
		}
	}
	return matchmaking.DefaultQueue
}
