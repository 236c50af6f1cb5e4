package service

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// TestMadeIDs creates, reads and cancels tickets with IDs that the service makes, without a look-up.
func TestMadeIDs(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.reserve = func(matchmaking.Reservation) (matchmaking.Owner, error) { panic("not used") }
	m.create = func(r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) {
		return matchmaking.Ticket{ID: r.ID, Queue: r.Queue}, true, nil
	}
	s := m.service(t, map[string]string{"a.queue": `{}`})
	for _, later := range []bool{false, true} {
		m.calls = nil
		made, _, err := s.Create(t.Context(), NewTicket{Queue: "a.queue", ChannelLater: later})
		require.NoError(t, err)
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
	with := func(status matchmaking.Status) matchmaking.Ticket {
		ticket := matchmaking.Ticket{ID: id, Queue: "duel", Status: status}
		if status == matchmaking.MatchFound {
			ticket.MatchID, ticket.Assignment = "m", &matchmaking.Assignment{TicketID: id, MatchID: "m", Connection: "<x>"}
		}
		return ticket
	}
	for name, c := range map[string]struct {
		id      string
		reads   []matchmaking.Ticket // one after the other; then there is none
		fails   error
		want    error
		calls   []string
		reading int // how many reads there are
	}{
		"a chosen ID":        {id: "ann", want: matchmaking.ErrNoTicket},
		"no ticket":          {id: id, want: matchmaking.ErrNoTicket, reading: 1},
		"cancelled":          {id: id, reads: []matchmaking.Ticket{with(matchmaking.Cancelled)}, want: matchmaking.ErrNoTicket, reading: 1},
		"expired":            {id: id, reads: []matchmaking.Ticket{with(matchmaking.Expired)}, want: matchmaking.ErrNoTicket, reading: 1},
		"waits":              {id: id, reads: []matchmaking.Ticket{with(matchmaking.Searching), with(matchmaking.Pending)}, calls: []string{"open " + id}, reading: 2},
		"assigned meanwhile": {id: id, reads: []matchmaking.Ticket{with(matchmaking.Pending), with(matchmaking.MatchFound)}, calls: []string{"open " + id}, reading: 2},
		"cancelled meanwhile": {
			id: id, reads: []matchmaking.Ticket{with(matchmaking.Searching), with(matchmaking.Cancelled)},
			want: matchmaking.ErrNoTicket, calls: []string{"open " + id, "unsubscribe " + id}, reading: 2,
		},
		"assigned": {
			id: id, reads: []matchmaking.Ticket{with(matchmaking.MatchFound)}, reading: 1,
			calls: []string{"publish " + id + ` m {"ticketId":"` + id + `","matchId":"m","queue":"","connection":"\u003cx\u003e","team":0}`},
		},
		"the storage fails": {id: id, fails: fault.ErrUnavailable, want: fault.ErrUnavailable, reading: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, reads := newMemory(), 0
			m.ticket = func(string) (matchmaking.Ticket, error) {
				reads++
				switch {
				case c.fails != nil:
					return matchmaking.Ticket{}, c.fails
				case reads > len(c.reads):
					return matchmaking.Ticket{}, matchmaking.ErrNoTicket
				}
				return c.reads[reads-1], nil
			}
			err := m.service(t, nil).OpenChannel(t.Context(), c.id)
			require.ErrorIs(t, err, c.want)
			require.Equal(t, c.calls, m.calls)
			require.Equal(t, c.reading, reads)
		})
	}
}
