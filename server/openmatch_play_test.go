package server_test

import (
	"log/slog"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server"
)

// startPlay makes a harness with the real matchmaking, and its services that are called by gRPC.
func startPlay(t testing.TB, queues ...string) *rpcHarness {
	t.Helper()
	r := &rpcHarness{harness: start(t, withQueues(queues...))}
	s := server.New(server.Options{
		Service: r.service, Logger: slog.New(r.logs), Metrics: prometheus.NewRegistry(), Storage: func() channel.Storage { return storage },
	})
	r.drain = server.MountRPC(s, r.harness.matches)
	r.url = serveRPC(t, s.Handler(), time.Minute)
	return r
}

// TestPlayersOfBothKinds matches one who came by REST with one who came by gRPC.
func TestPlayersOfBothKinds(t *testing.T) {
	t.Parallel()
	r := startPlay(t)
	for _, p := range protocols {
		f := r.frontend(p)
		ann := r.create(f, &openmatch.Ticket{}, header{"tidemark-queue", "duel"})
		watch := r.watch(f, ann.GetId())
		bob := r.harness.create(`{"queue":"duel"}`)
		require.True(t, watch.Receive(), "%v", watch.Err())
		require.Equal(t, "127.0.0.1:7777", watch.Msg().GetAssignment().GetConnection())
		require.Equal(t, "127.0.0.1:7777", r.assignment(bob).Connection)
		require.Equal(t, r.ticket(bob.ID).MatchID, r.ticket(ann.GetId()).MatchID)
		got, err := r.get(f, bob.ID)
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1:7777", got.GetAssignment().GetConnection())
	}
}

// TestPlayersWhoNameNoQueue are matched in the default one.
func TestPlayersWhoNameNoQueue(t *testing.T) {
	t.Parallel()
	r := startPlay(t)
	f := r.frontend(protocols[0])
	ann, bob := r.create(f, &openmatch.Ticket{}), r.create(f, &openmatch.Ticket{})
	for _, ticket := range []*openmatch.Ticket{ann, bob} {
		watch := r.watch(f, ticket.GetId())
		require.True(t, watch.Receive(), "%v", watch.Err())
	}
	require.Equal(t, "default", r.ticket(ann.GetId()).Queue)
	request := connect.NewRequest(&openmatch.CreateTicketRequest{Ticket: ann})
	request.Msg.Ticket.CreateTime = nil
	request.Header().Set("tidemark-queue", "nope")
	_, err := f.CreateTicket(t.Context(), request)
	isRPC(t, err, connect.CodeNotFound, "the queue doesn't exist")
}

// TestTicketsOfPlayersEnd shows that a watch ends with NotFound, whatever a ticket's end.
func TestTicketsOfPlayersEnd(t *testing.T) {
	t.Parallel()
	r := startPlay(t, "short", `{"ticketTTL":"300ms"}`, "quick", `{"assignmentTTL":"200ms"}`)
	f := r.frontend(protocols[0])
	in := func(queue string) *openmatch.Ticket {
		return r.create(f, &openmatch.Ticket{}, header{"tidemark-queue", queue})
	}
	given, expires, matched := in("duel").GetId(), in("short").GetId(), in("quick").GetId()
	watches := map[string]*watching{given: r.watch(f, given), expires: r.watch(f, expires), matched: r.watch(f, matched)}
	r.awaitWaiting(1)
	in("quick")
	require.True(t, watches[matched].Receive(), "%v", watches[matched].Err())
	_, err := f.DeleteTicket(t.Context(), connect.NewRequest(&openmatch.DeleteTicketRequest{TicketId: given}))
	require.NoError(t, err)
	for id, w := range watches {
		ends(t, w, connect.CodeNotFound, "Ticket id: "+id+" not found")
		require.Eventually(t, func() bool {
			_, err := r.get(f, id)
			return connect.CodeOf(err) == connect.CodeNotFound
		}, time.Minute, time.Millisecond)
	}
}

// TestPoolOfPlayers reads those who wait.
func TestPoolOfPlayers(t *testing.T) {
	t.Parallel()
	r := startPlay(t)
	f := r.frontend(protocols[0])
	ticket := r.create(f, &openmatch.Ticket{SearchFields: &openmatch.SearchFields{Tags: []string{"eu"}}})
	pool := &openmatch.Pool{TagPresentFilters: []*openmatch.TagPresentFilter{{Tag: "eu"}}}
	ids, _, err := r.ids(pool, "")
	require.NoError(t, err)
	require.Equal(t, []string{ticket.GetId()}, ids)
}
