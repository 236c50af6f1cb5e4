package service_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
)

// TestQueueOfItsUser: the service forms no matches of tickets, removes those that have expired and the changes that
// nobody reads, and forms matches once the queue is its own.
func TestQueueOfItsUser(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		o := w.options(t)
		o.IdleAfter = 20 * time.Millisecond
		s := newService(t, o)
		background(t, s.Run)
		put := func(definition string) {
			_, _, err := s.PutQueue(t.Context(), define(t, "duel", definition))
			require.NoError(t, err)
		}
		put(`{"director": "user", "ticketTTL": "none"}`)
		a := create(t, s, service.NewTicket{Queue: "duel"})
		brief := create(t, s, service.NewTicket{Queue: "duel", TTL: matchmaking.MinLifetime})
		b := create(t, s, service.NewTicket{Queue: "duel"})
		require.Eventually(t, func() bool {
			state, err := w.queues.Describe(t.Context(), "duel", 0)
			return err == nil && state.Searching == 2 && state.Expired == 1 && w.changes(t, "duel") == 0
		}, soon, 5*time.Millisecond)
		ended, err := s.Ticket(t.Context(), brief.ID)
		require.NoError(t, err)
		require.Equal(t, matchmaking.Expired, ended.Status)
		_, _, err = s.Create(t.Context(), service.NewTicket{Queue: "duel", ID: "ann"})
		require.True(t, isSlug(err, fault.SlugInvalidTicket), "%v", err)

		_, err = w.queues.CreateBackfill(t.Context(), matchmaking.CreateBackfillRequest{Queue: "duel", ID: "left",
			TTL: matchmaking.MinLifetime, Max: 1})
		require.NoError(t, err)
		put(`{}`)
		toA, err := s.Await(t.Context(), a.ID)
		require.NoError(t, err)
		toB, err := s.Await(t.Context(), b.ID)
		require.NoError(t, err)
		require.Equal(t, toA.MatchID, toB.MatchID)
		require.Eventually(t, func() bool {
			c := w.conn.Client()
			remaining, err := c.Do(t.Context(), c.B().Zcard().Key(w.prefix+"mm.{duel}.backfills").Build()).AsInt64()
			return err == nil && remaining == 0
		}, soon, 5*time.Millisecond, "the backfill keeps the queue from being idle")
		put(`{"director": "user"}`)
		w.emptied(t, "duel")
		w.becomesIdle(t, "duel")
	})
}

// changes returns the number of stored changes of a queue.
func (w *world) changes(t *testing.T, queue string) int64 {
	t.Helper()
	c := w.conn.Client()
	n, err := c.Do(t.Context(), c.B().Xlen().Key(w.prefix+"mm.{"+queue+"}.changes").Build()).AsInt64()
	require.NoError(t, err)
	return n
}

// directed starts a service with a queue that is directed by its user, and the queue duel of the service.
func directed(t *testing.T, w *world, definition string) *service.Service {
	t.Helper()
	s := newService(t, w.options(t, define(t, "user", definition), define(t, "duel", `{}`)))
	background(t, s.Run)
	return s
}

// handOut hands out a match of tickets of the queue user.
func (w *world) handOut(t *testing.T, b *matchmaking.MatchBackfill, tickets ...string) matchmaking.HandOutOutcome {
	t.Helper()
	m := matchmaking.HandOutMatch{Backfill: b}
	for _, id := range tickets {
		m.Tickets = append(m.Tickets, matchmaking.HandOutTicket{ID: id})
	}
	return w.queues.HandOut(t.Context(), matchmaking.HandOutRequest{
		Queue: "user", Token: matchmaking.NewID("user"), Hold: time.Minute, BackfillTTL: time.Minute, MaxBackfills: 10,
		Matches: []matchmaking.HandOutMatch{m},
	})[0]
}

func TestBackfills(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		s := directed(t, w, `{"director": "user", "channel": true, "maxTicketBytes": 100, "maxBackfills": 2}`)
		small := matchmaking.BackfillSpec{SearchFields: matchmaking.SearchFields{Tags: []string{"eu"}}}
		large := matchmaking.BackfillSpec{Extensions: map[string]json.RawMessage{
			"x": json.RawMessage(`"` + strings.Repeat("x", 100) + `"`)}}
		for queue, slug := range map[string]fault.Slug{"duel": fault.SlugQueueDirector, "none": fault.SlugNoQueue} {
			_, err := s.CreateBackfill(t.Context(), service.NewBackfill{Queue: queue})
			require.True(t, isSlug(err, slug), "%v", err)
		}
		_, err := s.CreateBackfill(t.Context(), service.NewBackfill{Queue: "user", Spec: large})
		require.True(t, isSlug(err, fault.SlugBackfillTooLarge), "%v", err)
		b, err := s.CreateBackfill(t.Context(), service.NewBackfill{Queue: "user", Spec: small})
		require.NoError(t, err)
		found, err := s.Backfill(t.Context(), b.ID)
		require.NoError(t, err)
		require.Equal(t, b, found)

		own := create(t, s, service.NewTicket{Queue: "user"})
		chosen := create(t, s, service.NewTicket{Queue: "user", ID: "chosen"})
		o := w.handOut(t, &matchmaking.MatchBackfill{ID: b.ID, Generation: 1}, own.ID, chosen.ID)
		require.NoError(t, o.Err)
		place := matchmaking.Allocation{Connection: "10.0.0.1:7000"}
		done, err := s.AcknowledgeBackfill(t.Context(), b.ID, place)
		require.NoError(t, err)
		require.Len(t, done.Tickets, 2)
		for _, id := range []string{own.ID, chosen.ID} {
			require.Equal(t, place.Connection, w.assignment(t, id).Connection, "it is published")
		}
		updated, err := s.UpdateBackfill(t.Context(), b.ID, matchmaking.BackfillSpec{PersistentField: large.Extensions})
		require.NoError(t, err)
		require.Equal(t, int64(3), updated.Generation)
		require.Empty(t, updated.PersistentField, "it is another message than the content")
		_, err = s.UpdateBackfill(t.Context(), b.ID, large)
		require.True(t, isSlug(err, fault.SlugBackfillTooLarge), "%v", err)
		_, err = s.CreateBackfill(t.Context(), service.NewBackfill{Queue: "user"})
		require.NoError(t, err)
		_, err = s.CreateBackfill(t.Context(), service.NewBackfill{Queue: "user"})
		require.True(t, isSlug(err, fault.SlugManyBackfills), "%v", err)
		count := 0
		require.NoError(t, s.EachBackfill(t.Context(), "user", func(batch []*matchmaking.Backfill) error {
			count += len(batch)
			return nil
		}))
		require.Equal(t, 2, count)

		require.NoError(t, s.DeleteBackfill(t.Context(), b.ID))
		for _, id := range []string{b.ID, "none", matchmaking.NewBackfillID("duel"), matchmaking.NewBackfillID("none")} {
			_, err := s.Backfill(t.Context(), id)
			require.True(t, isSlug(err, fault.SlugNoBackfill), "%v", err)
			_, err = s.UpdateBackfill(t.Context(), id, small)
			require.True(t, isSlug(err, fault.SlugNoBackfill), "%v", err)
			_, err = s.AcknowledgeBackfill(t.Context(), id, place)
			require.True(t, isSlug(err, fault.SlugNoBackfill), "%v", err)
			require.NoError(t, s.DeleteBackfill(t.Context(), id))
		}
	})
}

// The holder of the queue's lease removes a backfill that isn't acknowledged, and its tickets wait again.
func TestBackfillThatIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		s := directed(t, w, `{"director": "user", "backfillTTL": "200ms"}`)
		b, err := s.CreateBackfill(t.Context(), service.NewBackfill{Queue: "user"})
		require.NoError(t, err)
		ticket := create(t, s, service.NewTicket{Queue: "user"})
		require.NoError(t, w.handOut(t, &matchmaking.MatchBackfill{ID: b.ID, Generation: 1}, ticket.ID).Err)
		require.Eventually(t, func() bool {
			found, err := s.Ticket(t.Context(), ticket.ID)
			return err == nil && found.Status == matchmaking.Searching
		}, soon, 5*time.Millisecond)
		_, err = s.Backfill(t.Context(), b.ID)
		require.True(t, isSlug(err, fault.SlugNoBackfill), "%v", err)
		require.NoError(t, s.Cancel(t.Context(), ticket.ID))
		w.emptied(t, "user")
	})
}

func TestAssignTickets(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		s := directed(t, w, `{"director": "user", "channel": true, "reveal": "teammates"}`)
		var ids []string
		for range 6 {
			ids = append(ids, create(t, s, service.NewTicket{Queue: "user"}).ID)
		}
		create(t, s, service.NewTicket{Queue: "user", ID: "chosen"})
		other := create(t, s, service.NewTicket{Queue: "duel"})
		require.NoError(t, w.handOut(t, nil, ids[0], ids[1]).Err)
		require.NoError(t, s.Cancel(t.Context(), ids[5]))
		assign := func(place string, tickets ...string) []service.AssignmentFailure {
			failures, err := s.AssignTickets(t.Context(), "user", []service.AssignmentGroup{
				{Tickets: tickets, Allocation: matchmaking.Allocation{Connection: place,
					Extensions: map[string]json.RawMessage{"x": json.RawMessage(`{"a": 1}`)}}},
			})
			require.NoError(t, err)
			return failures
		}
		all := []string{"nobody", ids[0], ids[2], matchmaking.NewID("user"), "chosen", ids[5], other.ID}
		missing := []service.AssignmentFailure{{TicketID: "nobody", NotFound: true}, {TicketID: all[3], NotFound: true},
			{TicketID: ids[5], NotFound: true}, {TicketID: other.ID, NotFound: true}}
		for range 2 { // a repetition has the same result
			require.Equal(t, missing, assign("here", all...))
		}
		a := w.assignment(t, ids[0])
		require.Equal(t, "here", a.Connection)
		require.ElementsMatch(t, []string{ids[2], "chosen"}, a.Teammates)
		require.Equal(t, a.MatchID, w.assignment(t, "chosen").MatchID)
		match, err := s.Match(t.Context(), "", a.MatchID)
		require.NoError(t, err)
		require.Len(t, match.Teams[0], 3)
		failures, err := s.AssignTickets(t.Context(), "user", []service.AssignmentGroup{
			{Tickets: []string{ids[0], ids[3]}, Allocation: matchmaking.Allocation{Connection: "there"}},
			{Tickets: []string{"chosen"}, Allocation: matchmaking.Allocation{Connection: "here"}},
			{},
		})
		require.NoError(t, err)
		require.Equal(t, []service.AssignmentFailure{{TicketID: ids[0]}, {TicketID: "chosen"}}, failures,
			"a ticket is in one match, and its extensions are others")
		require.Equal(t, "there", w.assignment(t, ids[3]).Connection)

		require.NoError(t, s.ReleaseTickets(t.Context(), "user", []string{ids[1], "nobody", other.ID}))
		require.NoError(t, w.handOut(t, nil, ids[1]).Err)
		require.NoError(t, s.ReleaseTickets(t.Context(), "user", nil))
		require.Error(t, w.handOut(t, nil, ids[1]).Err)
		require.NoError(t, s.ReleaseAllTickets(t.Context(), "user"))
		require.NoError(t, w.handOut(t, nil, ids[1], ids[4]).Err)

		_, err = s.AssignTickets(t.Context(), "duel", []service.AssignmentGroup{{Tickets: []string{other.ID}}})
		require.ErrorIs(t, err, matchmaking.ErrQueueDirector)
		require.ErrorIs(t, s.ReleaseTickets(t.Context(), "duel", []string{other.ID}), matchmaking.ErrQueueDirector)
		require.ErrorIs(t, s.ReleaseAllTickets(t.Context(), "duel"), matchmaking.ErrQueueDirector)
		_, err = s.UserQueue(t.Context(), "")
		require.ErrorIs(t, err, matchmaking.ErrQueueDirector, "the default queue")
		_, err = s.AssignTickets(t.Context(), "user", []service.AssignmentGroup{{Tickets: make([]string, service.MaxAssigned+1)}})
		require.True(t, isSlug(err, fault.SlugInvalidTicket), "%v", err)
		large := matchmaking.Allocation{Connection: strings.Repeat("x", matchmaking.MaxAssignmentBytes/2)}
		_, err = s.AssignTickets(t.Context(), "user", []service.AssignmentGroup{
			{Tickets: ids[1:2], Allocation: large}, {Tickets: ids[4:5], Allocation: large},
		})
		require.True(t, isSlug(err, fault.SlugInvalidTicket), "%v", err)
	})
}

// TestAssignTicketsAgainstAcknowledge: whichever of two concurrent calls is first, the ticket is in one match.
func TestAssignTicketsAgainstAcknowledge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := directed(t, w, `{"director": "user", "channel": true}`)
	b, err := s.CreateBackfill(t.Context(), service.NewBackfill{Queue: "user"})
	require.NoError(t, err)
	for generation := int64(1); generation <= 20; generation++ {
		ticket := create(t, s, service.NewTicket{Queue: "user"})
		require.NoError(t, w.handOut(t, &matchmaking.MatchBackfill{ID: b.ID, Generation: generation}, ticket.ID).Err)
		acknowledged := make(chan int, 1)
		go func() {
			done, err := s.AcknowledgeBackfill(context.WithoutCancel(t.Context()), b.ID,
				matchmaking.Allocation{Connection: "game"})
			if err != nil {
				t.Error(err)
			}
			acknowledged <- len(done.Tickets)
		}()
		failures, err := s.AssignTickets(t.Context(), "user", []service.AssignmentGroup{
			{Tickets: []string{ticket.ID}, Allocation: matchmaking.Allocation{Connection: "director"}},
		})
		require.NoError(t, err)
		require.Equal(t, 1, 1-len(failures)+<-acknowledged)
		require.Equal(t, []string{"director", "game"}[len(failures)], w.assignment(t, ticket.ID).Connection)
	}
}
