package grpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

func (h *harness) query() openmatch.QueryServiceClient {
	return openmatch.NewQueryServiceClient(h.dial(servertest.Native))
}

// inQueue returns a context with the metadata that names a queue.
func (h *harness) inQueue(queue string) context.Context {
	return metadata.AppendToOutgoingContext(h.t.Context(), "tidemark-queue", queue)
}

// ids queries a pool's tickets with both procedures, whose answers must be equal.
func (h *harness) ids(pool *openmatch.Pool, queue string) (ids []string, pages int, err error) {
	h.t.Helper()
	stream, err := h.query().QueryTicketIds(h.inQueue(queue), &openmatch.QueryTicketIdsRequest{Pool: pool})
	require.NoError(h.t, err)
	var end error
	for {
		var page *openmatch.QueryTicketIdsResponse
		if page, end = stream.Recv(); end != nil {
			break
		}
		ids, pages = append(ids, page.GetIds()...), pages+1
	}
	tickets, err := h.query().QueryTickets(h.inQueue(queue), &openmatch.QueryTicketsRequest{Pool: pool})
	require.NoError(h.t, err)
	var same []string
	for {
		page, err := tickets.Recv()
		if err != nil {
			require.Equal(h.t, status.Code(end), status.Code(err))
			break
		}
		require.LessOrEqual(h.t, proto.Size(page), 4<<20, "gRPC clients accept it by default")
		for _, t := range page.GetTickets() {
			same = append(same, t.GetId())
		}
	}
	require.Equal(h.t, ids, same)
	if errors.Is(end, io.EOF) {
		end = nil
	}
	return ids, pages, end
}

// TestQueryFindsTheQueue checks that a query uses the queue of the metadata, of the pool, or the default one.
func TestQueryFindsTheQueue(t *testing.T) {
	t.Parallel()
	h := start(t)
	skilled := matchmaking.Pool{Name: "skilled", DoubleRanges: []matchmaking.DoubleRange{{DoubleArg: "skill", Min: 5, Max: 9}}}
	h.matches.definitions = []matchmaking.Definition{
		{Name: "a", Profile: matchmaking.Profile{Pools: []matchmaking.Pool{{Name: "skilled"}}}},
		{Name: "b", Profile: matchmaking.Profile{Pools: []matchmaking.Pool{{Name: "all"}, skilled}}},
	}
	f := h.frontend(servertest.GRPC)
	created := map[string]string{}
	for _, queue := range []string{"a", "b", "default"} {
		created[queue] = h.create(f, &openmatch.Ticket{
			SearchFields: &openmatch.SearchFields{DoubleArgs: map[string]float64{"skill": 7}},
		}, "Tidemark-Queue", queue).GetId()
		h.create(f, &openmatch.Ticket{}, "Tidemark-Queue", queue)
	}
	pool, renamed := convert.FromPool(skilled), convert.FromPool(skilled)
	renamed.Name = "another"
	for _, c := range []struct {
		pool  *openmatch.Pool
		queue string
		found int
		first string // of those found
	}{
		{pool, "", 1, created["b"]}, {pool, "a", 1, created["a"]}, {pool, "b", 1, created["b"]},
		{pool, "default", 1, created["default"]},
		{renamed, "", 1, created["default"]}, {&openmatch.Pool{}, "", 2, created["default"]},
		{&openmatch.Pool{Name: "nobody", TagPresentFilters: []*openmatch.TagPresentFilter{{Tag: "x"}}}, "", 0, ""},
	} {
		ids, pages, err := h.ids(c.pool, c.queue)
		require.NoError(t, err)
		require.Len(t, ids, c.found)
		require.Equal(t, c.found > 0, pages == 1)
		if c.found > 0 {
			require.Equal(t, c.first, ids[0])
		}
	}
}

// addTickets adds waiting tickets of the given size in bytes.
func (h *harness) addTickets(queue string, n, size int) {
	for i := range n {
		id := fmt.Sprint(queue, i)
		h.matches.tickets[id] = &matchmaking.Ticket{
			ID: id, Queue: queue, Status: matchmaking.Searching, CreateTime: time.Unix(int64(i), 0),
			Spec: matchmaking.Spec{SearchFields: matchmaking.SearchFields{Tags: []string{strings.Repeat("x", size)}}},
		}
	}
}

// TestQueryInPages reads many tickets, and large ones.
func TestQueryInPages(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.addTickets("many", 2500, 1)
	h.addTickets("large", 500, 16<<10)
	ids, pages, err := h.ids(&openmatch.Pool{}, "many")
	require.NoError(t, err)
	require.Len(t, ids, 2500)
	require.Equal(t, 25, pages)
	ids, _, err = h.ids(&openmatch.Pool{}, "large")
	require.NoError(t, err)
	require.Len(t, ids, 500)
}

// TestQueryLeavesOutHeldTickets: a ticket that is held for a match isn't available to another one.
func TestQueryLeavesOutHeldTickets(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.addTickets("q", 3, 1)
	h.matches.tickets["q1"].Status = matchmaking.Pending
	ids, _, err := h.ids(&openmatch.Pool{}, "q")
	require.NoError(t, err)
	require.Equal(t, []string{"q0", "q2"}, ids)
}

func TestRefusedQueries(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, _, err := h.ids(&openmatch.Pool{DoubleRangeFilters: []*openmatch.DoubleRangeFilter{{Exclude: 9}}}, "")
	isError(t, err, codes.InvalidArgument, "double_range_filters[0].exclude: unknown value 9")
	_, _, err = h.ids(&openmatch.Pool{CreatedAfter: &timestamppb.Timestamp{Nanos: -1}}, "")
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	h.matches.set(func() { h.matches.fail = func() error { return matchmaking.ErrNoQueue } })
	_, _, err = h.ids(&openmatch.Pool{}, "nope")
	isError(t, err, codes.NotFound, matchmaking.ErrNoQueue.Detail)
}

// TestQueriesWait sends more queries at once, on several connections, than are answered at the same time for a client:
// each is answered. Open Match's matchfunction.QueryPools sends the pools of a profile like this.
func TestQueriesWait(t *testing.T) {
	t.Parallel()
	for _, p := range []servertest.Protocol{servertest.Native, servertest.GRPCGo} {
		h := start(t)
		h.addTickets("q", 10, 1)
		const queries, ofClient, connections = 8, 12, 5
		entered, release := make(chan struct{}, ofClient), make(chan struct{})
		h.matches.set(func() {
			h.matches.walking = func() {
				entered <- struct{}{}
				<-release
			}
		})
		var all sync.WaitGroup
		for range connections {
			client := openmatch.NewQueryServiceClient(h.dial(p))
			for range queries {
				all.Go(func() {
					stream, err := client.QueryTicketIds(h.inQueue("q"), &openmatch.QueryTicketIdsRequest{Pool: &openmatch.Pool{}})
					if assert.NoError(t, err) {
						page, err := stream.Recv()
						assert.NoError(t, err)
						assert.Len(t, page.GetIds(), 10)
					}
				})
			}
		}
		for range ofClient {
			<-entered
		}
		require.Eventually(t, func() bool { return h.served.WaitingQueries() == connections*queries-ofClient },
			servertest.Patience, servertest.Step)
		h.matches.set(func() { h.matches.walking = nil })
		close(release)
		all.Wait()
		require.Zero(t, h.served.WaitingQueries())
	}
}

// queueQuery begins a query that waits behind as many as a client can have in progress. The result of each is sent
// to its channel. release ends those in progress.
func (h *harness) queueQuery(
	ctx context.Context, p servertest.Protocol,
) (queued, inProgress <-chan error, release func()) {
	h.t.Helper()
	const queries = 12 // of a client
	client := openmatch.NewQueryServiceClient(h.dial(p))
	ask := func(ended chan error) {
		_, err := receiveIDs(client.QueryTicketIds(ctx, &openmatch.QueryTicketIdsRequest{Pool: &openmatch.Pool{}}))
		ended <- err
	}
	entered, held := make(chan struct{}), make(chan struct{})
	h.matches.set(func() {
		h.matches.walking = func() {
			entered <- struct{}{}
			<-held
		}
	})
	first, last := make(chan error, queries), make(chan error, 1)
	for range queries {
		go ask(first)
		<-entered
	}
	go ask(last)
	require.Eventually(h.t, func() bool { return h.served.WaitingQueries() == 1 }, servertest.Patience, servertest.Step)
	return last, first, sync.OnceFunc(func() {
		h.matches.set(func() { h.matches.walking = nil })
		close(held)
	})
}

// receiveIDs reads an answer to QueryTicketIds.
func receiveIDs(
	stream grpcgo.ServerStreamingClient[openmatch.QueryTicketIdsResponse], err error,
) (ids []string, _ error) {
	for err == nil {
		var page *openmatch.QueryTicketIdsResponse
		if page, err = stream.Recv(); errors.Is(err, io.EOF) {
			return ids, nil
		}
		ids = append(ids, page.GetIds()...)
	}
	return ids, err
}

// TestWaitingQueriesEndWithTheServer: when the server drains, queries that wait end, and those in progress finish.
func TestWaitingQueriesEndWithTheServer(t *testing.T) {
	t.Parallel()
	for _, p := range []servertest.Protocol{servertest.Native, servertest.GRPCGo} {
		h := start(t)
		queued, inProgress, release := h.queueQuery(h.inQueue("q"), p)
		defer release()
		h.drain()
		isError(t, <-queued, codes.Unavailable, "the server is shutting down")
		require.Zero(t, h.served.WaitingQueries())
		release()
		for range 12 {
			require.NoError(t, <-inProgress)
		}
	}
}

// TestWaitingQueriesEndWithTheirCredential: a query that waits ends when its credential is revoked.
func TestWaitingQueriesEndWithTheirCredential(t *testing.T) {
	t.Parallel()
	for _, p := range []servertest.Protocol{servertest.Native, servertest.GRPCGo} {
		h, people := closed(t)
		people.add(t, "lost", apiKey("lost"), `[{"actions":["queue"]}]`)
		queued, _, release := h.queueQuery(h.as("lost"), p)
		defer release()
		people.revoke("lost")
		isError(t, <-queued, codes.Unauthenticated, access.ErrRevoked.Detail)
		require.Zero(t, h.served.WaitingQueries())
	}
}
