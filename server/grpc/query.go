package grpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/function"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/convert"
	"github.com/tidemark-dev/tidemark/server/web"
)

// query is openmatch.QueryService.
type query struct {
	openmatch.UnimplementedQueryServiceServer

	queues  Queues
	router  *web.Router
	page    int // tickets or IDs in one message of an answer, at most
	answers *answers
	slots   *slots // of the queries in progress
	turns   *slots // of those that go through tickets
}

// errQueries is returned if too many queries wait, or one waits for too long.
var errQueries = status.Error(codes.ResourceExhausted, "the server is answering too many queries; try again")

// QueryTickets sends the waiting tickets of a pool, the oldest first.
func (q *query) QueryTickets(
	request *openmatch.QueryTicketsRequest, stream grpc.ServerStreamingServer[openmatch.QueryTicketsResponse],
) error {
	ctx := stream.Context()
	page, bytes := new(openmatch.QueryTicketsResponse), 0
	answer := pages{
		empty: func() bool { return len(page.Tickets) == 0 },
		send: func() error {
			defer func() { page, bytes = new(openmatch.QueryTicketsResponse), 0 }()
			return stream.Send(page)
		},
	}
	answer.add = func(t *matchmaking.Ticket, send func() error) error {
		ticket := convert.FromTicket(t)
		size := protowire.SizeTag(1) + protowire.SizeBytes(proto.Size(ticket)) // as it is encoded in the page
		if len(page.Tickets) == q.page || len(page.Tickets) > 0 && bytes+size > pageBytes {
			if err := send(); err != nil {
				return err
			}
		}
		page.Tickets, bytes = append(page.Tickets, ticket), bytes+size
		return nil
	}
	a := asked{queue: metadataOf(ctx, metadataQueue), pool: request.GetPool(), fields: matchmaking.FieldsAll}
	return q.walk(ctx, a, answer)
}

// QueryTicketIds sends the IDs of the waiting tickets of a pool, the oldest first.
//
//nolint:revive // the name is Open Match's
func (q *query) QueryTicketIds(
	request *openmatch.QueryTicketIdsRequest, stream grpc.ServerStreamingServer[openmatch.QueryTicketIdsResponse],
) error {
	ctx := stream.Context()
	page := new(openmatch.QueryTicketIdsResponse)
	answer := pages{
		empty: func() bool { return len(page.Ids) == 0 },
		send: func() error {
			defer func() { page = new(openmatch.QueryTicketIdsResponse) }()
			return stream.Send(page)
		},
		add: func(t *matchmaking.Ticket, send func() error) error {
			if page.Ids = append(page.Ids, t.ID); len(page.Ids) < q.page {
				return nil
			}
			return send()
		},
	}
	a := asked{queue: metadataOf(ctx, metadataQueue), pool: request.GetPool(), fields: matchmaking.FieldsNone}
	return q.walk(ctx, a, answer)
}

// pages builds the messages of an answer.
type pages struct {
	add   func(t *matchmaking.Ticket, send func() error) error // adds a ticket to the page, and sends a full page
	send  func() error                                         // sends the page and begins another one
	empty func() bool                                          // reports whether the page is empty
}

// asked is the request of a query.
type asked struct {
	queue  string // its name; empty: the queue that has the pool
	pool   *openmatch.Pool
	fields matchmaking.Fields // that the answer needs
}

// walk sends the waiting tickets of a pool. It keeps a hundred tickets in memory at a time.
func (q *query) walk(ctx context.Context, a asked, answer pages) error {
	if a.pool == nil {
		return badRequest(".pool is required")
	}
	pool, err := convert.ToPool(a.pool)
	if err != nil {
		return err
	}
	if a.queue == "" {
		a.queue = q.queueOf(a.pool)
	}
	if err := q.router.Guard().Check(ctx, access.From(ctx), access.Queue, access.Resource{Queue: a.queue}); err != nil {
		return err
	}
	client, connection := q.clientOf(ctx)
	leave, err := q.slots.enter(ctx, client, connection, sizeOf(a.pool))
	if err != nil {
		return err
	}
	defer leave()
	limited, stop := q.answers.begin(ctx)
	defer stop()
	turn := &turn{turns: q.turns, client: client, connection: connection}
	defer turn.end()
	send := func() error {
		turn.end() // before the client reads
		if err := limited(answer.send); err != nil {
			return err
		}
		return turn.next(ctx)
	}
	if len(pool.DoubleRanges)+len(pool.StringEquals)+len(pool.TagsPresent) > 0 {
		a.fields = max(a.fields, matchmaking.FieldsSearch)
	}
	r := matchmaking.WaitingRequest{Queue: a.queue, Fields: a.fields}
	err = q.queues.Waiting(ctx, r, func(tickets []*matchmaking.Ticket) error {
		if err := turn.next(ctx); err != nil {
			return err
		}
		for _, t := range tickets {
			if !function.Pass(pool, t) {
				continue
			}
			if err := answer.add(t, send); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	if err != nil || answer.empty() {
		return err
	}
	turn.end()
	return limited(answer.send)
}

// filterBytes is the memory of a filter, in the message and in the pool that is made of it, in addition to its texts.
// It can have as few as 2 bytes in the message.
const filterBytes = 160

// sizeOf returns how many bytes of memory a pool takes while its query waits.
func sizeOf(p *openmatch.Pool) int {
	filters := len(p.GetDoubleRangeFilters()) + len(p.GetStringEqualsFilters()) + len(p.GetTagPresentFilters())
	return proto.Size(p) + filters*filterBytes
}

// turn is the turn of a query to go through some tickets, and to read the next ones. It is used by one goroutine.
type turn struct {
	turns              *slots
	client, connection string
	leave              func() // nil: it isn't the query's turn
}

// next ends the turn and waits for the next one.
func (t *turn) next(ctx context.Context) (err error) {
	t.end()
	t.leave, err = t.turns.enter(ctx, t.client, t.connection, 0)
	return err
}

// end ends the turn.
func (t *turn) end() {
	if t.leave != nil {
		t.leave()
		t.leave = nil
	}
}

// clientOf returns the client of a query, and its connection.
func (q *query) clientOf(ctx context.Context) (client, connection string) {
	connection = connectionOf(ctx)
	address := connection
	if requestOf(ctx) == nil {
		address = clientOf(ctx, q.router)
	}
	return web.Client(access.From(ctx), address), connection
}

// queueOf returns the queue whose profile has the pool, or the default queue if none has it.
func (q *query) queueOf(asked *openmatch.Pool) string {
	for _, d := range q.queues.Definitions() {
		for _, pool := range d.Profile.Pools {
			if pool.Name == asked.GetName() && proto.Equal(convert.FromPool(pool), asked) {
				return d.Name
			}
		}
	}
	return matchmaking.DefaultQueue
}
