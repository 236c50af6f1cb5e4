package services

import (
	"context"
	"sync"

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

	mu    sync.Mutex
	of    map[string]int // queries in progress, by the client's connection
	total int            // of them
}

// QueryOptions configures QueryService. All fields are required.
type QueryOptions struct {
	Pools     Pools
	Page      int // tickets or IDs in one message of an answer, at most
	PageBytes int // the same in bytes, unless a message has only one ticket
	// Allow returns an error if the client may not read a queue.
	Allow func(ctx context.Context, queue string) error
	// Limit limits the time in which a client reads an answer, until stop is called. send limits it for one message.
	Limit func(ctx context.Context) (send func(message func() error) error, stop func())
	// Connection names the connection of a call.
	Connection func(ctx context.Context) string
}

// How many queries are in progress at the same time.
const (
	maxQueries    = 16
	maxQueriesOne = 4 // of one connection
)

// NewQuery returns QueryService.
func NewQuery(o QueryOptions) openmatch.QueryServiceServer {
	return &query{QueryOptions: o, of: map[string]int{}}
}

// enter begins a query of a connection, unless there are too many.
func (q *query) enter(connection string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.total == maxQueries || q.of[connection] == maxQueriesOne {
		return false
	}
	q.total++
	q.of[connection]++
	return true
}

func (q *query) leave(connection string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total--
	if q.of[connection]--; q.of[connection] == 0 {
		delete(q.of, connection)
	}
}

// ErrQueries is the error of a query while too many others are in progress.
var ErrQueries = status.Error(codes.ResourceExhausted, "the server is answering too many queries; try again")

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
		if len(page.Tickets) == q.Page || len(page.Tickets) > 0 && bytes+size > q.PageBytes {
			if err := send(); err != nil {
				return err
			}
		}
		page.Tickets, bytes = append(page.Tickets, ticket), bytes+size
		return nil
	}
	return q.walk(ctx, asked{queue: metadataOf(ctx, metadataQueue), pool: request.GetPool(), fields: matchmaking.FieldsAll}, answer)
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
			if page.Ids = append(page.Ids, t.ID); len(page.Ids) < q.Page {
				return nil
			}
			return send()
		},
	}
	return q.walk(ctx, asked{queue: metadataOf(ctx, metadataQueue), pool: request.GetPool(), fields: matchmaking.FieldsNone}, answer)
}

// pages is the messages of an answer.
type pages struct {
	add   func(t *matchmaking.Ticket, send func() error) error // adds a ticket to the page, which it may have to send
	send  func() error                                         // sends the page, and begins another one
	empty func() bool                                          // reports whether the page is empty
}

// asked is the request of a query.
type asked struct {
	queue  string // its name; empty: the queue that has the pool
	pool   *openmatch.Pool
	fields matchmaking.Fields // that the answer needs
}

// walk answers with the waiting tickets of a pool. It keeps a hundred tickets in memory at a time.
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
	if err := q.Allow(ctx, a.queue); err != nil {
		return err
	}
	connection := q.Connection(ctx)
	if !q.enter(connection) {
		return ErrQueries
	}
	defer q.leave(connection)
	limited, stop := q.Limit(ctx)
	defer stop()
	send := func() error { return limited(answer.send) }
	if len(pool.DoubleRanges)+len(pool.StringEquals)+len(pool.TagsPresent) > 0 {
		a.fields = max(a.fields, matchmaking.FieldsSearch)
	}
	r := matchmaking.WaitingRequest{Queue: a.queue, Fields: a.fields}
	err = q.Pools.Waiting(ctx, r, func(tickets []*matchmaking.Ticket) error {
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
	return send()
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
