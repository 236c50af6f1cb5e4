package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
)

// TestRetriedTicketKeepsItsID shows that a lost answer can't make two tickets.
func TestRetriedTicketKeepsItsID(t *testing.T) {
	t.Parallel()
	f := newFake(t, lost, problem(503, fault.SlugQueueFull, 0), answer(201, `{"id":"made"}`))
	c := f.client(t)
	created, err := c.CreateTicket(t.Context(), client.NewTicket{
		Queue: "ranked", TTL: 90 * time.Second,
		TicketSpec: client.TicketSpec{Statistics: []client.Statistic{{Name: "skill", Value: 1200}}},
	})
	require.NoError(t, err)
	require.Equal(t, "made", created.ID)
	calls := f.got()
	require.Len(t, calls, 3)
	var sent struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(calls[0].body), &sent))
	require.Len(t, sent.ID, 26)
	require.JSONEq(t, `{"queue":"ranked","id":"`+sent.ID+`","statistics":[{"name":"skill","value":1200}],"ttl":"1m30s"}`, calls[0].body)
	for _, call := range calls {
		require.Equal(t, "POST /v1/tickets", call.method+" "+call.target)
		require.Equal(t, calls[0].body, call.body)
	}
}

func TestErrorsOfTickets(t *testing.T) {
	t.Parallel()
	for slug, want := range map[fault.Slug]error{
		fault.SlugInvalidTicket: client.ErrInvalidTicket, fault.SlugTicketExists: client.ErrTicketExists, fault.SlugNoQueue: client.ErrNoQueue,
		fault.SlugTicketTooLarge: client.ErrTicketTooLarge, fault.SlugTicketMatched: client.ErrTicketMatched,
		fault.SlugInvalidQueue: client.ErrInvalidQueue, fault.SlugQueueFixed: client.ErrQueueConfigured, fault.SlugQueueInUse: client.ErrQueueInUse, fault.SlugTooManyQueues: client.ErrTooManyQueues,
		fault.SlugNoTicket: client.ErrNoTicket,
	} {
		f := newFake(t, problem(400, slug, 0))
		_, err := f.client(t).CreateTicket(t.Context(), client.NewTicket{})
		require.ErrorIs(t, err, want)
	}
	f := newFake(t, problem(503, fault.SlugQueueFull, 0))
	_, err := f.client(t, client.WithRetry(client.RetryPolicy{MaxTries: 1})).CreateTicket(t.Context(), client.NewTicket{})
	require.ErrorIs(t, err, client.ErrQueueFull)

	c := f.client(t)
	for _, name := range []string{"", ".", ".."} {
		_, err := c.Ticket(t.Context(), name)
		require.ErrorIs(t, err, client.ErrInvalidTicket)
		require.ErrorIs(t, c.DeleteQueue(t.Context(), name), client.ErrInvalidQueue)
	}
	_, err = c.PutQueue(t.Context(), "q", []byte("teams: 2"))
	require.ErrorIs(t, err, client.ErrInvalidBody)
	require.Len(t, f.got(), 1)
}

const (
	anAssignment = `{"ticketId":"t","matchId":"m","queue":"q","connection":"c","team":1}`
	nothingYet   = `{"messages":[],"more":false,"expired":0}`
	itsMessage   = `{"messages":[{"id":"other","clock":1,"content":"x"},{"id":"assignment-m","clock":2,"content":` + anAssignment +
		`}],"receiptHandle":"handle","more":false,"expired":0}`
)

func ticketAs(status, more string) http.HandlerFunc {
	return answer(200, `{"id":"t","status":"`+status+`","expireTime":"2000-01-01T00:00:00Z"`+more+`}`)
}

func TestAwaitAssignment(t *testing.T) {
	t.Parallel()
	want := client.Assignment{TicketID: "t", MatchID: "m", Queue: "q", Connection: "c", Team: 1}
	for name, test := range map[string]struct {
		answers []http.HandlerFunc
		err     error
		calls   int
	}{
		"at once":                      {[]http.HandlerFunc{answer(200, itsMessage), answer(204, nil)}, nil, 2},
		"after a while":                {[]http.HandlerFunc{answer(200, nothingYet), ticketAs("SEARCHING", ""), answer(200, itsMessage), answer(204, nil)}, nil, 4},
		"though it isn't acknowledged": {[]http.HandlerFunc{answer(200, itsMessage), problem(409, fault.SlugReceiptEpoch, 0)}, nil, 2},
		"read before":                  {[]http.HandlerFunc{answer(200, nothingYet), ticketAs("MATCH_FOUND", `,"assignment":`+anAssignment)}, nil, 2},
		"without subscriber":           {[]http.HandlerFunc{problem(404, fault.SlugNoSubscriber, 0), ticketAs("MATCH_FOUND", `,"assignment":`+anAssignment)}, nil, 2},
		"lost answers":                 {[]http.HandlerFunc{lost, answer(200, nothingYet), lost, ticketAs("PENDING", ""), answer(200, itsMessage), answer(204, nil)}, nil, 6},
		"cancelled":                    {[]http.HandlerFunc{problem(404, fault.SlugNoSubscriber, 0), ticketAs("CANCELLED", "")}, client.ErrTicketCancelled, 2},
		"expired":                      {[]http.HandlerFunc{answer(200, nothingYet), ticketAs("EXPIRED", "")}, client.ErrTicketExpired, 2},
		"no ticket":                    {[]http.HandlerFunc{problem(404, fault.SlugNoSubscriber, 0), problem(404, fault.SlugNoTicket, 0)}, client.ErrNoTicket, 2},
		"another error":                {[]http.HandlerFunc{problem(400, fault.SlugInvalidChannel, 0)}, client.ErrInvalidChannel, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, test.answers...)
			got, err := f.client(t).AwaitAssignment(t.Context(), "t")
			require.ErrorIs(t, err, test.err)
			require.Len(t, f.got(), test.calls)
			require.Equal(t, "/v1/channels/ticket.t/subscribers/player/next", f.got()[0].target)
			if test.err == nil {
				require.Equal(t, want, got)
			}
		})
	}
}

func TestAwaitAssignmentEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := newFake(t, answer(200, nothingYet), func(w http.ResponseWriter, r *http.Request) { // and then searching, again and again
		if strings.HasSuffix(r.URL.Path, "/next") {
			answer(200, nothingYet)(w, r)
			return
		}
		ticketAs("SEARCHING", "")(w, r)
	})
	gone := errors.New("the player has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := f.client(t)
	ended := make(chan error, 1)
	go func() {
		_, err := c.AwaitAssignment(ctx, "t")
		ended <- err
	}()
	require.Eventually(t, func() bool { return len(f.got()) > 2 }, time.Minute, time.Millisecond)
	cancel(gone)
	err := <-ended
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, gone)
}

// TestTicketsAgainstTheService goes through what the examples don't show.
func TestTicketsAgainstTheService(t *testing.T) {
	t.Parallel()
	c := newClient(t, newWorld())
	ctx := t.Context()
	_, err := c.CreateTicket(ctx, client.NewTicket{Queue: "nowhere"})
	require.ErrorIs(t, err, client.ErrNoQueue)
	_, err = c.CreateTicket(ctx, client.NewTicket{ID: "a/b"})
	require.ErrorIs(t, err, client.ErrInvalidTicket)
	_, err = c.Ticket(ctx, "t")
	require.ErrorIs(t, err, client.ErrNoTicket)
	_, err = c.AwaitAssignment(ctx, "t")
	require.ErrorIs(t, err, client.ErrNoTicket)

	// A ticket that is cancelled while somebody waits for it.
	created, err := c.CreateTicket(ctx, client.NewTicket{ID: "t"})
	require.NoError(t, err)
	require.Equal(t, client.TicketSearching, created.Status)
	ended := make(chan error, 1)
	go func() {
		_, err := c.AwaitAssignment(ctx, "t")
		ended <- err
	}()
	require.NoError(t, c.CancelTicket(ctx, "t"))
	require.ErrorIs(t, <-ended, client.ErrTicketCancelled)
	require.NoError(t, c.CancelTicket(ctx, "nobody"))

	// One that nobody comes for.
	_, err = c.CreateTicket(ctx, client.NewTicket{ID: "short", TTL: 200 * time.Millisecond})
	require.NoError(t, err)
	_, err = c.AwaitAssignment(ctx, "short")
	require.ErrorIs(t, err, client.ErrTicketExpired)

	// An ID of another queue, and one that is asked for twice.
	for _, id := range []string{"ann", "bob", "ann"} {
		_, err = c.CreateTicket(ctx, client.NewTicket{Queue: "duel", ID: id})
		require.NoError(t, err)
	}
	_, err = c.CreateTicket(ctx, client.NewTicket{ID: "ann"})
	require.ErrorIs(t, err, client.ErrTicketExists)
	for range 2 { // what was acknowledged is given again
		a, err := c.AwaitAssignment(ctx, "ann")
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1:7777", a.Connection)
	}
	require.ErrorIs(t, c.CancelTicket(ctx, "ann"), client.ErrTicketMatched)
}

func TestQueuesAgainstTheService(t *testing.T) {
	t.Parallel()
	c := newClient(t, newWorld())
	ctx := t.Context()
	_, err := c.DescribeQueue(ctx, "trio")
	require.ErrorIs(t, err, client.ErrNoQueue)
	_, err = c.PutQueue(ctx, "trio", []byte(`{"match":{"teams":0}}`))
	require.ErrorIs(t, err, client.ErrInvalidQueue)
	var told *client.Error
	require.ErrorAs(t, err, &told)
	require.Equal(t, "/match/teams", told.Problem.Field)
	_, err = c.PutQueue(ctx, "duel", []byte(`{}`))
	require.ErrorIs(t, err, client.ErrQueueConfigured)
	require.ErrorIs(t, c.DeleteQueue(ctx, "duel"), client.ErrQueueConfigured)

	put, err := c.PutQueue(ctx, "trio", []byte(`{"match":{"teams":3}}`))
	require.NoError(t, err)
	queues, err := c.Queues(ctx)
	require.NoError(t, err)
	require.Len(t, queues, 3)
	require.Equal(t, put, queues[2])
	_, err = c.CreateTicket(ctx, client.NewTicket{Queue: "trio", ID: "ann"})
	require.NoError(t, err)
	d, err := c.DescribeQueue(ctx, "trio")
	require.NoError(t, err)
	require.Equal(t, 1, d.Tickets.Searching+d.Tickets.Pending)
	require.Nil(t, d.Waits)
	require.ErrorIs(t, c.DeleteQueue(ctx, "trio"), client.ErrQueueInUse)
	require.NoError(t, c.CancelTicket(ctx, "ann"))
	require.NoError(t, c.DeleteQueue(ctx, "trio"))
	require.NoError(t, c.DeleteQueue(ctx, "trio"))
	i, err := c.Info(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, i.Queues)
}
