package service

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// TestMadeIDs creates, reads and cancels tickets with IDs from the service, without a lookup.
func TestMadeIDs(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.reserve = func(matchmaking.Reservation) (matchmaking.Owner, error) { panic("not used") }
	m.create = func(r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) { return r.Ticket, true, nil }
	s := m.service(t, map[string]string{"a.queue": `{}`})
	made, _, err := s.Create(t.Context(), NewTicket{Queue: "a.queue"})
	require.NoError(t, err)
	queue, ok := matchmaking.QueueOf(made.ID)
	require.True(t, ok)
	require.Equal(t, "a.queue", queue)
	queue, err = s.queueOf(t.Context(), made.ID)
	require.NoError(t, err)
	require.Equal(t, "a.queue", queue, "Owner would return another one")
	require.Equal(t, []string{"open " + made.ID}, m.calls)
}

// TestTicketsWithChannels: the queue says whether a ticket has a channel, or else the way in which it was created and
// the director.
func TestTicketsWithChannels(t *testing.T) {
	t.Parallel()
	queues := map[string]string{
		"service": `{}`, "with": `{"channel": true}`, "without": `{"channel": false}`, "user": `{"director": "user"}`,
		"user.with": `{"director": "user", "channel": true}`,
	}
	for _, c := range []struct {
		n    NewTicket
		want bool
	}{
		{NewTicket{Queue: "service"}, true}, {NewTicket{Queue: "service", NoChannel: true}, false},
		{NewTicket{Queue: "with"}, true}, {NewTicket{Queue: "with", NoChannel: true}, true},
		{NewTicket{Queue: "without"}, false}, {NewTicket{Queue: "user"}, false}, {NewTicket{Queue: "user.with"}, true},
	} {
		m := newMemory()
		m.create = func(r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) { return r.Ticket, true, nil }
		made, _, err := m.service(t, queues).Create(t.Context(), c.n)
		require.NoError(t, err)
		require.Equal(t, c.want, !made.NoChannel, "%+v", c.n)
		require.Len(t, m.calls, map[bool]int{true: 1}[c.want], "%+v", c.n)
	}
}

// TestRedeliver publishes the assignment of a ticket again, if it has one.
func TestRedeliver(t *testing.T) {
	t.Parallel()
	id := matchmaking.NewID("duel")
	waits := matchmaking.TicketState{Created: time.Unix(1, 0)}
	assigned := waits
	assigned.Content = `{"matchId":"m","connection":"<x>"}`
	for name, c := range map[string]struct {
		id        string
		state     matchmaking.TicketState
		fails     error
		want      error
		published bool
	}{
		"no ticket, or over": {id: id, want: matchmaking.ErrNoTicket},
		"no ID of a ticket":  {id: "no ticket", want: matchmaking.ErrNoTicket},
		"waits":              {id: id, state: waits},
		"assigned":           {id: id, state: assigned, published: true},
		"a chosen ID":        {id: "ann", state: assigned, published: true},
		"the storage fails":  {id: id, fails: fault.ErrUnavailable, want: fault.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMemory()
			m.states = func([]string) ([]matchmaking.TicketState, error) {
				return []matchmaking.TicketState{c.state}, c.fails
			}
			published, err := m.service(t, nil).Redeliver(t.Context(), c.id)
			require.ErrorIs(t, err, c.want)
			require.Equal(t, c.published, published)
			if c.published {
				require.Equal(t, []string{"publish " + c.id + " m " + assigned.Content}, m.calls)
			} else {
				require.Empty(t, m.calls)
			}
		})
	}
}
