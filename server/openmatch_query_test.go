package server_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/convert"
	"github.com/tidemark-dev/tidemark/openmatch/openmatchconnect"
)

// ids asks for a pool's tickets by both calls.
func (r *rpcHarness) ids(pool *openmatch.Pool, queue string) (ids []string, pages int, err error) {
	r.t.Helper()
	asked := connect.NewRequest(&openmatch.QueryTicketIdsRequest{Pool: pool})
	asked.Header().Set("tidemark-queue", queue)
	stream, err := r.query().QueryTicketIds(r.t.Context(), asked)
	require.NoError(r.t, err)
	for stream.Receive() {
		ids, pages = append(ids, stream.Msg().GetIds()...), pages+1
	}
	whole := connect.NewRequest(&openmatch.QueryTicketsRequest{Pool: pool})
	whole.Header().Set("tidemark-queue", queue)
	tickets, err := r.query().QueryTickets(r.t.Context(), whole)
	require.NoError(r.t, err)
	var same []string
	for tickets.Receive() {
		for _, t := range tickets.Msg().GetTickets() {
			require.NotNil(r.t, t.GetSearchFields())
			same = append(same, t.GetId())
		}
	}
	require.Equal(r.t, ids, same)
	require.Equal(r.t, connect.CodeOf(stream.Err()), connect.CodeOf(tickets.Err()))
	return ids, pages, stream.Err()
}

// TestQueryFindsTheQueue by metadata, by the pool, or takes the default one.
func TestQueryFindsTheQueue(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	skilled := matchmaking.Pool{Name: "skilled", DoubleRanges: []matchmaking.DoubleRange{{DoubleArg: "skill", Min: 5, Max: 9}}}
	r.matches.definitions = []matchmaking.Definition{
		{Name: "a", Profile: matchmaking.Profile{Pools: []matchmaking.Pool{{Name: "skilled"}}}},
		{Name: "b", Profile: matchmaking.Profile{Pools: []matchmaking.Pool{{Name: "all"}, skilled}}},
	}
	f := r.frontend(protocols[0])
	made := map[string]string{}
	for _, queue := range []string{"a", "b", "default"} {
		made[queue] = r.create(f, &openmatch.Ticket{
			SearchFields: &openmatch.SearchFields{DoubleArgs: map[string]float64{"skill": 7}},
		}, header{"tidemark-queue", queue}).GetId()
		r.create(f, &openmatch.Ticket{}, header{"tidemark-queue", queue})
	}
	pool := convert.FromPool(skilled)
	for queue, from := range map[string]string{"": "b", "a": "a", "b": "b", "default": "default"} {
		ids, _, err := r.ids(pool, queue)
		require.NoError(t, err)
		require.Equal(t, []string{made[from]}, ids)
	}
	pool.Name = "another"
	ids, _, err := r.ids(pool, "")
	require.NoError(t, err)
	require.Equal(t, []string{made["default"]}, ids)
	ids, _, err = r.ids(&openmatch.Pool{}, "")
	require.NoError(t, err)
	require.Len(t, ids, 2)
	ids, pages, err := r.ids(&openmatch.Pool{Name: "nobody", TagPresentFilters: []*openmatch.TagPresentFilter{{Tag: "x"}}}, "")
	require.NoError(t, err)
	require.Empty(t, ids)
	require.Zero(t, pages)
}

func TestQueryInPages(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	r.matches.set(func(m *matches) {
		for i := range 2500 {
			id := fmt.Sprintf("t%d", i)
			m.tickets[id] = &matchmaking.Ticket{ID: id, Queue: "q", Status: matchmaking.Searching, CreateTime: time.Unix(int64(i), 0)}
		}
	})
	ids, pages, err := r.ids(&openmatch.Pool{}, "q")
	require.NoError(t, err)
	require.Len(t, ids, 2500)
	require.Equal(t, 3, pages)
}

func TestRefusedQueries(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	_, _, err := r.ids(&openmatch.Pool{DoubleRangeFilters: []*openmatch.DoubleRangeFilter{{Exclude: 9}}}, "")
	isRPC(t, err, connect.CodeInvalidArgument, "double_range_filters[0].exclude: there is no 9")
	_, _, err = r.ids(&openmatch.Pool{CreatedAfter: &timestamppb.Timestamp{Nanos: -1}}, "")
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
	r.matches.set(func(m *matches) { m.fail = func() error { return matchmaking.ErrNoQueue } })
	_, _, err = r.ids(&openmatch.Pool{}, "nope")
	isRPC(t, err, connect.CodeNotFound, matchmaking.ErrNoQueue.Detail)
}

// TestQueryOfLargeTickets sends them in messages that a gRPC client takes without being told to.
func TestQueryOfLargeTickets(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	r.matches.set(func(m *matches) {
		for i := range 500 {
			id := fmt.Sprintf("t%d", i)
			m.tickets[id] = &matchmaking.Ticket{
				ID: id, Queue: "q", Status: matchmaking.Searching, CreateTime: time.Unix(int64(i), 0),
				Spec: matchmaking.Spec{SearchFields: matchmaking.SearchFields{Tags: []string{strings.Repeat("x", 16<<10)}}},
			}
		}
	})
	client := openmatchconnect.NewQueryServiceClient(rpcClient(t, true), r.url, connect.WithGRPC(), connect.WithReadMaxBytes(4<<20))
	asked := connect.NewRequest(&openmatch.QueryTicketsRequest{Pool: &openmatch.Pool{}})
	asked.Header().Set("tidemark-queue", "q")
	stream, err := client.QueryTickets(t.Context(), asked)
	require.NoError(t, err)
	tickets := 0
	for stream.Receive() {
		require.LessOrEqual(t, proto.Size(stream.Msg()), 1<<20+32<<10)
		tickets += len(stream.Msg().GetTickets())
	}
	require.NoError(t, stream.Err())
	require.Equal(t, 500, tickets)
}

// TestQueriesAtOnce are bounded: one more is refused at once, and answered when another is over.
func TestQueriesAtOnce(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	const most = 16
	entered, leave := make(chan struct{}, most), make(chan struct{})
	r.matches.set(func(m *matches) {
		m.walking = func() {
			entered <- struct{}{}
			<-leave
		}
	})
	var all sync.WaitGroup
	for range most {
		all.Go(func() {
			_, _, err := r.ids(&openmatch.Pool{}, "q")
			assert.NoError(t, err)
		})
		<-entered
	}
	stream, err := r.query().QueryTicketIds(t.Context(), connect.NewRequest(&openmatch.QueryTicketIdsRequest{Pool: &openmatch.Pool{}}))
	require.NoError(t, err)
	require.False(t, stream.Receive())
	isRPC(t, stream.Err(), connect.CodeResourceExhausted, "the server answers as many queries as it may: try again")
	r.matches.set(func(m *matches) { m.walking = nil })
	close(leave)
	all.Wait()
	_, _, err = r.ids(&openmatch.Pool{}, "q")
	require.NoError(t, err)
}
