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
	listening := false
	m.create = func(r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) {
		listening = r.Listening
		return matchmaking.Ticket{ID: r.ID, Queue: r.Queue}, true, nil
	}
	s := m.service(t, map[string]string{"a.queue": `{}`})
	for _, later := range []bool{false, true} {
		m.calls = nil
		made, _, err := s.Create(t.Context(), NewTicket{Queue: "a.queue", ChannelLater: later})
		require.NoError(t, err)
		require.Equal(t, !later, listening)
		queue, ok := matchmaking.QueueOf(made.ID)
		require.True(t, ok)
		require.Equal(t, "a.queue", queue)
		queue, err = s.queueOf(t.Context(), made.ID)
		require.NoError(t, err)
		require.Equal(t, "a.queue", queue, "Owner would return another one")
		if later {
			require.Empty(t, m.calls)
		} else {
			require.Equal(t, []string{"open " + made.ID}, m.calls)
		}
	}
}

func TestOpenChannel(t *testing.T) {
	t.Parallel()
	id := matchmaking.NewID("duel")
	waits, over := matchmaking.TicketState{Created: time.Unix(1, 0)}, matchmaking.TicketState{}
	assigned := waits
	assigned.Content = `{"matchId":"m","connection":"<x>"}`
	for name, c := range map[string]struct {
		id    string
		reads []matchmaking.TicketState // one after the other
		fails error
		want  error
		calls []string
	}{
		"a chosen ID":        {id: "ann", want: matchmaking.ErrNoTicket},
		"no ticket, or over": {id: id, reads: []matchmaking.TicketState{over}, want: matchmaking.ErrNoTicket},
		"waits":              {id: id, reads: []matchmaking.TicketState{waits, waits}, calls: []string{"open " + id}},
		"assigned meanwhile": {id: id, reads: []matchmaking.TicketState{waits, assigned},
			calls: []string{"open " + id}},
		"cancelled meanwhile": {id: id, reads: []matchmaking.TicketState{waits, over}, want: matchmaking.ErrNoTicket,
			calls: []string{"open " + id, "unsubscribe " + id}},
		"assigned": {id: id, reads: []matchmaking.TicketState{assigned, assigned},
			calls: []string{"publish " + id + " m " + assigned.Content, "open " + id}},
		"the storage fails": {id: id, fails: fault.ErrUnavailable, want: fault.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, left := newMemory(), c.reads
			m.states = func([]string) ([]matchmaking.TicketState, error) {
				if c.fails != nil {
					return nil, c.fails
				}
				state := left[0]
				left = left[1:]
				return []matchmaking.TicketState{state}, nil
			}
			require.ErrorIs(t, m.service(t, nil).OpenChannel(t.Context(), c.id), c.want)
			require.Equal(t, c.calls, m.calls)
			require.Empty(t, left)
		})
	}
}
