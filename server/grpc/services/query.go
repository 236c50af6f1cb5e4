package services

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/function"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/convert"
)

// Pools is what QueryService calls.
type Pools interface {
	Waiting(ctx context.Context, r matchmaking.WaitingRequest, each func([]*matchmaking.Ticket) error) error
	Definitions() []matchmaking.Definition
}

// query is openmatch.QueryService.
type query struct {
	openmatch.UnimplementedQueryServiceServer

	QueryOptions

	slots chan struct{} // holds an element for each query in progress
}

// QueryOptions configures QueryService. All fields are required.
type QueryOptions struct {
	Pools     Pools
	Page      int // tickets or IDs in one message of an answer, at most
	PageBytes int // the same in bytes, unless a message has only one ticket
	// Limit limits the time in which a client reads an answer, until stop is called.
	Limit func(ctx context.Context) (stop func())
}

const maxQueries = 16 // in progress at the same time

// NewQuery returns QueryService.
func NewQuery(o QueryOptions) openmatch.QueryServiceServer {
	return &query{QueryOptions: o, slots: make(chan struct{}, maxQueries)}
}

// ErrQueries is the error of a query while too many others are in progress.
var ErrQueries = status.Error(codes.ResourceExhausted, "the server is answering too many queries; try again")

// QueryTickets sends the waiting tickets of a pool, the oldest first.
func (q *query) QueryTickets(
	request *openmatch.QueryTicketsRequest, stream grpc.ServerStreamingServer[openmatch.QueryTicketsResponse],
) error {
	ctx := stream.Context()
	page, bytes := new(openmatch.QueryTicketsResponse), 0
	send := func() error {
		defer func() { page, bytes = new(openmatch.QueryTicketsResponse), 0 }()
		return stream.Send(page)
	}
	walk := asked{queue: metadataOf(ctx, metadataQueue), pool: request.GetPool(), fields: matchmaking.FieldsAll}
	err := q.walk(ctx, walk, func(t *matchmaking.Ticket) error {
		ticket := convert.FromTicket(t)
		size := protowire.SizeTag(1) + protowire.SizeBytes(proto.Size(ticket)) // as it is encoded in the page
		if len(page.Tickets) == q.Page || len(page.Tickets) > 0 && bytes+size > q.PageBytes {
			if err := send(); err != nil {
				return err
			}
		}
		page.Tickets, bytes = append(page.Tickets, ticket), bytes+size
		return nil
	})
	if err != nil || len(page.Tickets) == 0 {
		return err
	}
	return send()
}

// QueryTicketIds sends the IDs of the waiting tickets of a pool, the oldest first.
//
//nolint:revive // the name is Open Match's
func (q *query) QueryTicketIds(
	request *openmatch.QueryTicketIdsRequest, stream grpc.ServerStreamingServer[openmatch.QueryTicketIdsResponse],
) error {
	ctx := stream.Context()
	page := new(openmatch.QueryTicketIdsResponse)
	walk := asked{queue: metadataOf(ctx, metadataQueue), pool: request.GetPool(), fields: matchmaking.FieldsNone}
	err := q.walk(ctx, walk, func(t *matchmaking.Ticket) error {
		if page.Ids = append(page.Ids, t.ID); len(page.Ids) < q.Page {
			return nil
		}
		defer func() { page = new(openmatch.QueryTicketIdsResponse) }()
		return stream.Send(page)
	})
	if err != nil || len(page.Ids) == 0 {
		return err
	}
	return stream.Send(page)
}

// asked is the request of a query.
type asked struct {
	queue  string // its name; empty: the queue that has the pool
	pool   *openmatch.Pool
	fields matchmaking.Fields // that the answer needs
}

// walk calls found with each waiting ticket of a pool. It keeps a hundred tickets in memory at a time.
func (q *query) walk(ctx context.Context, a asked, found func(*matchmaking.Ticket) error) error {
	if a.pool == nil {
		return badRequest(".pool is required")
	}
	pool, err := convert.ToPool(a.pool)
	if err != nil {
		return err
	}
	select {
	case q.slots <- struct{}{}:
		defer func() { <-q.slots }()
	default:
		return ErrQueries
	}
	defer q.Limit(ctx)()
	if a.queue == "" {
		a.queue = q.queueOf(a.pool)
	}
	if len(pool.DoubleRanges)+len(pool.StringEquals)+len(pool.TagsPresent) > 0 {
		a.fields = max(a.fields, matchmaking.FieldsSearch)
	}
	r := matchmaking.WaitingRequest{Queue: a.queue, Fields: a.fields}
	return q.Pools.Waiting(ctx, r, func(tickets []*matchmaking.Ticket) error {
		for _, t := range tickets {
			if !function.Pass(pool, t) {
				continue
			}
			if err := found(t); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// queueOf returns the queue whose profile has a pool, or the default queue if none has it.
func (q *query) queueOf(asked *openmatch.Pool) string {
	for _, d := range q.Pools.Definitions() {
		for _, pool := range d.Profile.Pools {
			if pool.Name == asked.GetName() && proto.Equal(convert.FromPool(pool), asked) {
				return d.Name
			}
		}
	}
	return matchmaking.DefaultQueue
}
