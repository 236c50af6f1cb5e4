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
	require.JSONEq(t, `{"queue":"ranked","id":"`+sent.ID+
		`","statistics":[{"name":"skill","value":1200}],"ttl":"1m30s"}`, calls[0].body)
	for _, call := range calls {
		require.Equal(t, "POST /v1/tickets", call.method+" "+call.target)
		require.Equal(t, calls[0].body, call.body)
	}
}

func TestBadTicketsAndQueuesAreNotSent(t *testing.T) {
	t.Parallel()
	f := newFake(t, answer(http.StatusOK, `{}`))
	c := f.client(t)
	for _, name := range []string{"", ".", ".."} {
		_, err := c.Ticket(t.Context(), name)
		require.ErrorIs(t, err, client.ErrInvalidTicket)
		require.ErrorIs(t, c.DeleteQueue(t.Context(), name), client.ErrInvalidQueue)
	}
	_, err := c.PutQueue(t.Context(), "q", []byte("teams: 2"))
	require.ErrorIs(t, err, client.ErrInvalidBody)
	require.ErrorContains(t, err, "line 1, column 2: ")
	require.Empty(t, f.got())
}

const (
	anAssignment = `{"ticketId":"t","matchId":"m","queue":"q","connection":"c","team":1}`
	nothingYet   = `{"messages":[],"more":false,"expired":0}`
	itsMessage   = `{"messages":[{"id":"other","clock":1,"content":"x"},{"id":"assignment-m","clock":2,"content":` +
		anAssignment +
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
		"at once": {[]http.HandlerFunc{answer(200, itsMessage), answer(204, nil)}, nil, 2},
		"after a while": {[]http.HandlerFunc{answer(200, nothingYet), ticketAs("SEARCHING", ""),
			answer(200, itsMessage), answer(204, nil)}, nil, 4},
		"though it isn't acknowledged": {[]http.HandlerFunc{answer(200, itsMessage),
			problem(409, fault.SlugReceiptEpoch, 0)}, nil, 2},
		"read before": {[]http.HandlerFunc{answer(200, nothingYet),
			ticketAs("MATCH_FOUND", `,"assignment":`+anAssignment)}, nil, 2},
		"without subscriber": {[]http.HandlerFunc{problem(404, fault.SlugNoSubscriber, 0),
			ticketAs("MATCH_FOUND", `,"assignment":`+anAssignment)}, nil, 2},
		"lost answers": {[]http.HandlerFunc{lost, answer(200, nothingYet), lost,
			ticketAs("PENDING", ""), answer(200, itsMessage), answer(204, nil)}, nil, 6},
		"cancelled": {[]http.HandlerFunc{problem(404, fault.SlugNoSubscriber, 0),
			ticketAs("CANCELLED", "")}, client.ErrTicketCancelled, 2},
		"expired": {[]http.HandlerFunc{answer(200, nothingYet), ticketAs("EXPIRED", "")},
			client.ErrTicketExpired, 2},
		"no ticket": {[]http.HandlerFunc{problem(404, fault.SlugNoSubscriber, 0),
			problem(404, fault.SlugNoTicket, 0)}, client.ErrNoTicket, 2},
		"another error": {[]http.HandlerFunc{problem(400, fault.SlugInvalidChannel, 0)},
			client.ErrInvalidChannel, 1},
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
	// and then searching, again and again
	f := newFake(t, answer(200, nothingYet), func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/next") {
			answer(200, nothingYet)(w, r)
			return
		}
		ticketAs("SEARCHING", "")(w, r)
	})
	errLeft := errors.New("the player has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := f.client(t)
	ended := make(chan error, 1)
	go func() {
		_, err := c.AwaitAssignment(ctx, "t")
		ended <- err
	}()
	require.Eventually(t, func() bool { return len(f.got()) > 2 }, time.Minute, time.Millisecond)
	cancel(errLeft)
	err := <-ended
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errLeft)
}

// TestAwaitAssignmentAgainstTheService waits for a ticket that is cancelled during the wait, and twice for one that is
// matched.
func TestAwaitAssignmentAgainstTheService(t *testing.T) {
	t.Parallel()
	c := newClient(t, newWorld())
	ctx := t.Context()
	_, err := c.CreateTicket(ctx, client.NewTicket{ID: "t"})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := c.AwaitAssignment(ctx, "t")
		ended <- err
	}()
	require.NoError(t, c.CancelTicket(ctx, "t"))
	require.ErrorIs(t, <-ended, client.ErrTicketCancelled)

	for _, id := range []string{"ann", "bob", "ann"} {
		_, err = c.CreateTicket(ctx, client.NewTicket{Queue: "duel", ID: id})
		require.NoError(t, err)
	}
	for range 2 { // it is returned again after its acknowledgement
		a, err := c.AwaitAssignment(ctx, "ann")
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1:7777", a.Connection)
		for _, queue := range []string{"", "duel"} {
			match, err := c.Match(ctx, queue, a.MatchID)
			require.NoError(t, err)
			require.Equal(t, [][]client.MatchedTicket{{{ID: "ann", Players: 1}}, {{ID: "bob", Players: 1}}},
				match.Teams)
		}
		_, err = c.Match(ctx, "default", a.MatchID)
		require.ErrorIs(t, err, client.ErrNoMatch)
	}
	require.ErrorIs(t, c.CancelTicket(ctx, "ann"), client.ErrTicketMatched)
}
