package service

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// TestOwner checks that an owner is read once, or once a second if the ID can be reused, and that the cache is bounded.
func TestOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, reads := newMemory(), 0
		s := m.service(t, map[string]string{"duel": `{}`})
		now := matchmaking.Ticket{Owner: "ann", CreateTime: time.UnixMicro(1)}
		m.ticket = func(id string) (matchmaking.Ticket, error) {
			reads++
			now.ID = id
			return now, nil
		}
		m.states = func([]string) ([]matchmaking.TicketState, error) {
			return []matchmaking.TicketState{{Created: time.UnixMicro(3)}}, nil
		}
		is := func(id, want string, created int64, wantReads int) {
			t.Helper()
			owner, at, err := s.Owner(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, want, owner)
			require.Equal(t, created, at.UnixMicro())
			require.Equal(t, wantReads, reads)
		}
		created := matchmaking.NewID("duel")
		is(created, "ann", 1, 1)
		time.Sleep(time.Hour) //nolint:forbidigo // synctest's simulated time
		is(created, "ann", 1, 1)

		now.Epoch = ulid.Make()
		m.epoch = now.Epoch
		is("mine", "ann", 1, 2)
		is("mine", "ann", 1, 2)
		s.ForgetOwner("mine")
		is("mine", "ann", 1, 3)
		s.ForgetOwner(created)
		is(created, "ann", 1, 3)
		now.Owner, now.CreateTime, now.Epoch = "ben", time.UnixMicro(2), epochAfter(m.epoch)
		m.epoch = now.Epoch
		time.Sleep(ownerAge) //nolint:forbidigo // synctest's simulated time
		is("mine", "ben", 2, 4)

		m.epoch = epochAfter(m.epoch) // unknown to the replica that is read
		_, _, err := s.Owner(t.Context(), "stale")
		require.ErrorIs(t, err, matchmaking.ErrNoTicket)
		now.CreateTime = time.UnixMicro(3)
		is("lost-and-found", "ben", 3, 6)

		m.create = func(r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) {
			created := r.Ticket
			created.CreateTime = time.UnixMicro(4)
			return created, true, nil
		}
		_, _, err = s.Create(t.Context(), NewTicket{Queue: "duel", ID: "mine", Owner: "cid"})
		require.NoError(t, err)
		is("mine", "cid", 4, 6)
		now.Epoch = ulid.ULID{}
		for i := range maxOwners + 1 {
			is(created+strconv.Itoa(i), "ben", 3, 7+i)
		}
		require.Equal(t, maxOwners, s.owners.Len())
	})
}

// TestTokenOfANewTicket: a caller that creates or finds a ticket receives the token of its player.
func TestTokenOfANewTicket(t *testing.T) {
	t.Parallel()
	m := newMemory()
	o := m.options(t, map[string]string{"duel": `{}`})
	o.Token = func(_ context.Context, id string, created time.Time) string {
		return fmt.Sprintf("%s at %d", id, created.UnixMicro())
	}
	s, err := New(o)
	require.NoError(t, err)
	m.create = func(r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) {
		return matchmaking.Ticket{ID: r.ID, CreateTime: time.UnixMicro(7)}, r.ID != "found", nil
	}
	for _, id := range []string{"", "made", "found"} {
		ticket, _, err := s.Create(t.Context(), NewTicket{Queue: "duel", ID: id})
		require.NoError(t, err)
		require.Equal(t, ticket.ID+" at 7", s.Token(t.Context(), &ticket))
	}
}
