package grpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// query is openmatch.QueryService.
type query struct {
	openmatch.UnimplementedQueryServiceServer

	queues    Queues
	backfills Backfills
	router    *web.Router
	page      int // tickets or IDs in one message of an answer, at most
	answers   *answers
	slots     *slots // of the queries in progress
	turns     *slots // of those that go through tickets
}

// errQueries is returned if too many queries wait, or one waits for too long.
var errQueries = status.Error(codes.ResourceExhausted, "the server is answering too many queries; try again")

// QueryTickets sends the waiting tickets of a pool, the oldest first.
func (q *query) QueryTickets(
	request *openmatch.QueryTicketsRequest, stream grpc.ServerStreamingServer[openmatch.QueryTicketsResponse],
) error {
	answer := messagePages(q.page, convert.FromTicket, func(page []*openmatch.Ticket) error {
		return stream.Send(&openmatch.QueryTicketsResponse{Tickets: page})
	})
	return walk(stream.Context(), q, request.GetPool(), q.tickets(matchmaking.FieldsAll), answer)
}

// QueryBackfills sends the backfills of a pool.
func (q *query) QueryBackfills(
	request *openmatch.QueryBackfillsRequest, stream grpc.ServerStreamingServer[openmatch.QueryBackfillsResponse],
) error {
	answer := messagePages(q.page, convert.FromBackfill, func(page []*openmatch.Backfill) error {
		return stream.Send(&openmatch.QueryBackfillsResponse{Backfills: page})
	})
	return walk(stream.Context(), q, request.GetPool(), walked[matchmaking.Backfill]{
		each: func(ctx context.Context, queue string, _ bool, each func([]*matchmaking.Backfill) error) error {
			return q.backfills.EachBackfill(ctx, queue, each)
		},
		pass: func(pool matchmaking.Pool, b *matchmaking.Backfill) bool {
			return function.Pass(pool, &matchmaking.Ticket{
				Spec: matchmaking.Spec{SearchFields: b.SearchFields}, CreateTime: b.CreateTime,
			})
		},
	}, answer)
}

// messagePages returns pages of messages, which are limited in number and in bytes.
func messagePages[T any, M proto.Message](
	maxItems int, convert func(*T) M, sendPage func([]M) error,
) pages[T] {
	var page []M
	bytes := 0
	return pages[T]{
		empty: func() bool { return len(page) == 0 },
		send: func() error {
			defer func() { page, bytes = nil, 0 }()
			return sendPage(page)
		},
		add: func(item *T, send func() error) error {
			m := convert(item)
			size := protowire.SizeTag(1) + protowire.SizeBytes(proto.Size(m)) // as it is encoded in the page
			if len(page) == maxItems || len(page) > 0 && bytes+size > pageBytes {
				if err := send(); err != nil {
					return err
				}
			}
			page, bytes = append(page, m), bytes+size
			return nil
		},
	}
}

// tickets returns how to go through the waiting tickets of a queue, without those that are held for a match. fields are
// those that the answer needs.
func (q *query) tickets(fields matchmaking.Fields) walked[matchmaking.Ticket] {
	return walked[matchmaking.Ticket]{
		each: func(ctx context.Context, queue string, search bool, each func([]*matchmaking.Ticket) error) error {
			r := matchmaking.WaitingRequest{Queue: queue, Fields: fields, Free: true}
			if search {
				r.Fields = max(r.Fields, matchmaking.FieldsSearch)
			}
			return q.queues.Waiting(ctx, r, each)
		},
		pass: function.Pass,
	}
}

// QueryTicketIds sends the IDs of the waiting tickets of a pool, the oldest first.
//
//nolint:revive // the name is Open Match's
func (q *query) QueryTicketIds(
	request *openmatch.QueryTicketIdsRequest, stream grpc.ServerStreamingServer[openmatch.QueryTicketIdsResponse],
) error {
	page := new(openmatch.QueryTicketIdsResponse)
	answer := pages[matchmaking.Ticket]{
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
	return walk(stream.Context(), q, request.GetPool(), q.tickets(matchmaking.FieldsNone), answer)
}

// pages builds the messages of an answer of tickets or backfills.
type pages[T any] struct {
	add   func(item *T, send func() error) error // adds one to the page, and sends a full page
	send  func() error                           // sends the page and begins another one
	empty func() bool                            // reports whether the page is empty
}

// walked is the waiting tickets or the backfills of a queue, for a query to go through.
type walked[T any] struct {
	// each calls f with all of them, in batches. search is set if pass needs their search fields.
	each func(ctx context.Context, queue string, search bool, f func([]*T) error) error
	pass func(pool matchmaking.Pool, item *T) bool
}

// walk sends the tickets or backfills of a pool. It keeps a batch of them in memory at a time, and counts each after
// the first as another request.
func walk[T any](ctx context.Context, q *query, request *openmatch.Pool, all walked[T], answer pages[T]) error {
	if request == nil {
		return badRequest(".pool is required")
	}
	pool, err := convert.ToPool(request)
	if err != nil {
		return err
	}
	queue := metadataOf(ctx, metadataQueue)
	if queue == "" {
		queue = q.queueOf(request)
	}
	if err := q.router.Guard().Check(ctx, access.From(ctx), access.Queue, access.Resource{Queue: queue}); err != nil {
		return err
	}
	client := clientName(ctx, q.router)
	release, err := q.slots.acquire(ctx, client, sizeOf(request))
	if err != nil {
		return err
	}
	defer release()
	limited, stop := q.answers.begin(ctx)
	defer stop()
	turn := &turn{turns: q.turns, client: client}
	defer turn.end()
	send := func() error {
		turn.end() // before the client reads
		if err := limited(answer.send); err != nil {
			return err
		}
		return turn.next(ctx)
	}
	search := len(pool.DoubleRanges)+len(pool.StringEquals)+len(pool.TagsPresent) > 0
	further := 0
	err = all.each(ctx, queue, search, func(batch []*T) error {
		limits.From(ctx).Spent(further)
		further = 1
		if err := turn.next(ctx); err != nil {
			return err
		}
		for _, item := range batch {
			if !all.pass(pool, item) {
				continue
			}
			if err := answer.add(item, send); err != nil {
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
	turns   *slots
	client  string
	release func() // nil: it isn't the query's turn
}

// next ends the turn and waits for the next one.
func (t *turn) next(ctx context.Context) (err error) {
	t.end()
	t.release, err = t.turns.acquire(ctx, t.client, 0)
	return err
}

// end ends the turn.
func (t *turn) end() {
	if t.release != nil {
		t.release()
		t.release = nil
	}
}

// clientName returns whose share of the limits a query or fetch takes.
func clientName(ctx context.Context, router *web.Router) string {
	if r := requestOf(ctx); r != nil {
		return web.Client(access.From(ctx), r.Request().RemoteAddr)
	}
	return web.Client(access.From(ctx), clientAddress(ctx, router))
}

// queueOf returns the queue whose profile has the pool, or the default queue if none has it.
func (q *query) queueOf(request *openmatch.Pool) string {
	for _, d := range q.queues.Definitions() {
		for _, pool := range d.Profile.Pools {
			if pool.Name == request.GetName() && proto.Equal(convert.FromPool(pool), request) {
				return d.Name
			}
		}
	}
	return matchmaking.DefaultQueue
}
