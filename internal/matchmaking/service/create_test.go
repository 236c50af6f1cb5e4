package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

func TestTicketsThatAreRefused(t *testing.T) {
	t.Parallel()
	d := parse(t, "q", `{"maxTicketBytes":2000,"ticketTTL":"1m"}`)
	inf := math.Inf(1)
	for _, c := range []struct {
		n     NewTicket
		field string
	}{
		{NewTicket{ID: "a{b"}, "id"},
		{NewTicket{ID: strings.Repeat("a", 122)}, "id"},
		{NewTicket{ID: matchmaking.NewID("other")}, "id"},
		{NewTicket{TTL: 199 * time.Millisecond}, "/ttl"},
		{NewTicket{TTL: 61 * time.Second}, "/ttl"},
		{NewTicket{TTL: -1}, "/ttl"},
		{NewTicket{PersistentTTL: 199 * time.Millisecond}, "/persistentField/ttl"},
		{NewTicket{PersistentTTL: -1}, "/persistentField/ttl"},
		{NewTicket{Spec: matchmaking.Spec{NumTeams: -1}}, "/numTeams"},
		{NewTicket{Spec: matchmaking.Spec{NumTeams: 101}}, "/numTeams"},
		{NewTicket{Spec: matchmaking.Spec{TeamSize: -1}}, "/teamSize"},
		{NewTicket{Spec: matchmaking.Spec{TeamSize: 51}}, "/teamSize"}, // of two teams
		{NewTicket{Spec: matchmaking.Spec{Players: -1}}, "/players"},
		{NewTicket{Spec: matchmaking.Spec{Players: 2}}, "/players"}, // in teams of one
		{NewTicket{Spec: matchmaking.Spec{TeamSize: 3, Players: 4}}, "/players"},
		{NewTicket{Spec: matchmaking.Spec{Criteria: []matchmaking.Criterion{{}}}}, "/criteria/0/name"},
		{NewTicket{Spec: matchmaking.Spec{Criteria: []matchmaking.Criterion{{Name: "a", MaxValue: inf}}}},
			"/criteria/0"},
		{NewTicket{Spec: matchmaking.Spec{Criteria: []matchmaking.Criterion{{Name: "a", MinValue: 2, MaxValue: 1}}}},
			"/criteria/0"},
		{NewTicket{Spec: matchmaking.Spec{Criteria: slices.Repeat([]matchmaking.Criterion{{Name: "a"}}, 101)}},
			"/criteria"},
		{NewTicket{Spec: matchmaking.Spec{Statistics: []matchmaking.Statistic{{}}}}, "/statistics/0/name"},
		{NewTicket{Spec: matchmaking.Spec{Statistics: slices.Repeat([]matchmaking.Statistic{{Name: "a"}}, 1001)}},
			"/statistics"},
		{NewTicket{Spec: matchmaking.Spec{Statistics: []matchmaking.Statistic{{Name: "a", Value: math.NaN()}}}},
			"/statistics/0/value"},
	} {
		var clientErr *fault.Error
		require.ErrorAs(t, c.n.check(&d), &clientErr, "%+v", c.n)
		require.Equal(t, fault.SlugInvalidTicket, clientErr.Slug)
		require.Equal(t, c.field, clientErr.Field)
	}
	require.NoError(t, (&NewTicket{Spec: matchmaking.Spec{TeamSize: 3, Players: 3}}).check(&d))
	full := matchmaking.Spec{Criteria: slices.Repeat([]matchmaking.Criterion{{Name: "a"}}, 100),
		Statistics: slices.Repeat([]matchmaking.Statistic{{Name: "a"}}, 1000)}
	require.NoError(t, (&NewTicket{Spec: full}).check(&d))
	own := parse(t, "q", `{"match":{"function":"http","url":"http://h/"}}`)
	require.NoError(t, (&NewTicket{Spec: matchmaking.Spec{Players: 100}}).check(&own), "the team's size isn't known")
	require.Error(t, (&NewTicket{Spec: matchmaking.Spec{Players: 101}}).check(&own))
	for _, c := range []struct{ ttl, persistent, life time.Duration }{
		{0, 0, time.Minute}, {0, time.Second, time.Second}, {2 * time.Second, time.Second, 2 * time.Second},
		{0, time.Hour, time.Minute},
		{time.Second, -1, time.Second},
	} {
		n := NewTicket{TTL: c.ttl, PersistentTTL: c.persistent}
		require.NoError(t, n.check(&d))
		require.Equal(t, c.life, n.life(&d))
	}
}

// TestLargeTickets checks that oversized tickets are refused before anything is reserved for them.
func TestLargeTickets(t *testing.T) {
	t.Parallel()
	m, reserved := newMemory(), 0
	s := m.service(t, map[string]string{"duel": `{"maxTicketBytes":2000}`})
	m.reserve = func(r matchmaking.Reservation) (matchmaking.Owner, error) { reserved++; return r.Owner, nil }
	m.create = func(r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) { return r.Ticket, true, nil }
	for size, refused := range map[int]bool{2000: false, 2001: true} {
		m.size, reserved = size, 0
		_, _, err := s.Create(t.Context(), NewTicket{Queue: "duel", ID: "a"})
		if !refused {
			require.NoError(t, err)
			require.Equal(t, 1, reserved)
			continue
		}
		var clientErr *fault.Error
		require.ErrorAs(t, err, &clientErr)
		require.Equal(t, fault.TooLarge, clientErr.Kind)
		require.Equal(t, fault.SlugTicketTooLarge, clientErr.Slug)
		require.Zero(t, reserved)
	}
}

// TestFullQueue checks that a flood of tickets to a full queue leaves no data, except for the first ticket.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, reserved := newMemory(), 0
		s := m.service(t, map[string]string{"duel": `{"maxTickets":1}`})
		m.reserve = func(r matchmaking.Reservation) (matchmaking.Owner, error) { reserved++; return r.Owner, nil }
		m.create = func(matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) {
			return matchmaking.Ticket{}, false, matchmaking.ErrQueueFull
		}
		m.ticket = func(id string) (matchmaking.Ticket, error) {
			if id == "exists" {
				return matchmaking.Ticket{ID: id}, nil
			}
			return matchmaking.Ticket{}, matchmaking.ErrNoTicket
		}
		waiting := 1
		m.describe = func() matchmaking.QueueState { return matchmaking.QueueState{Searching: waiting} }
		create := func(id string, reserves int) {
			t.Helper()
			_, _, err := s.Create(t.Context(), NewTicket{Queue: "duel", ID: id})
			require.ErrorIs(t, err, matchmaking.ErrQueueFull)
			require.Equal(t, reserves, reserved)
		}
		create("a", 1)
		create("b", 1)
		create("", 1)
		create("exists", 2)     // a repetition needs no room
		time.Sleep(fullFor + 1) //nolint:forbidigo // synctest's simulated time
		create("b", 3)
		waiting = 0
		create("b", 4)
	})
}

// TestAttemptsOfUnknownOutcome checks that attempts of unknown outcome are undone, and those without a ticket aren't.
func TestAttemptsOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		unknown bool
	}{
		{fault.ErrUnavailable, true},
		{errors.New("no answer"), true},
		{&fault.Error{Kind: fault.Internal}, true},
		{fault.ErrStorageFull, false},
		{matchmaking.ErrQueueFull, false},
		{fmt.Errorf("create: %w", matchmaking.ErrUndone), false},
		{fmt.Errorf("%w: %w", matchmaking.ErrNotSent, context.Canceled), false},
		{context.Canceled, true},
	} {
		m := newMemory()
		s := m.service(t, map[string]string{"duel": `{}`})
		m.create = func(matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) {
			return matchmaking.Ticket{}, false, c.err
		}
		_, _, err := s.Create(t.Context(), NewTicket{Queue: "duel"})
		require.ErrorIs(t, err, c.err)
		require.Equal(t, c.unknown, s.undo.Waiting() == 1, "%v", c.err)
	}
}

// TestUndo retries until the storage has confirmed each attempt, and drops attempts whose ticket has expired.
func TestUndo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, tries := newMemory(), map[string]int{}
		s := m.service(t, nil)
		m.undo = func(id, _ string) (bool, error) {
			tries[id]++
			if id == "never" || tries[id] < 4 {
				return false, fault.ErrUnavailable
			}
			return false, nil
		}
		now := time.Now()
		s.undo.Add(createAttempt{ID: "late", Until: now.Add(time.Hour)})
		s.undo.Add(createAttempt{ID: "never", Until: now.Add(time.Minute)})
		ended := make(chan struct{})
		go func() { s.undo.Run(t.Context(), time.Second); close(ended) }()
		time.Sleep(2 * time.Minute) //nolint:forbidigo // synctest's simulated time
		synctest.Wait()
		require.Zero(t, s.undo.Waiting())
		require.Equal(t, 4, tries["late"])
	})
}

// TestNamedTickets checks the steps for an ID that another queue, another life, or another request holds.
func TestNamedTickets(t *testing.T) {
	t.Parallel()
	own, theirs := matchmaking.Owner{Queue: "duel", Epoch: ulid.Make()},
		matchmaking.Owner{Queue: "other", Epoch: ulid.Make()}
	for name, c := range map[string]struct {
		owner  matchmaking.Owner
		find   error // of the ticket in the same queue
		whose  string
		exists bool // in the other queue
		want   error
		made   bool
	}{
		"the queue has it":                  {owner: own},
		"another owner has it":              {owner: own, whose: "ben", want: matchmaking.ErrTicketExists},
		"the queue had it":                  {owner: own, find: matchmaking.ErrNoTicket, made: true},
		"the queue's storage fails":         {owner: own, find: fault.ErrUnavailable, want: fault.ErrUnavailable},
		"another queue has it":              {owner: theirs, exists: true, want: matchmaking.ErrTicketExists},
		"another queue had it":              {owner: theirs, made: true},
		"requests that overtake each other": {owner: own, find: matchmaking.ErrUndone, want: fault.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				s := m.service(t, map[string]string{"duel": `{}`})
				m.reserve = func(r matchmaking.Reservation) (matchmaking.Owner, error) {
					if r.Replaces != c.owner.Epoch {
						return c.owner, nil
					}
					require.Positive(t, r.Epoch.Compare(c.owner.Epoch))
					require.Equal(t, 30*time.Minute, r.TTL)
					return r.Owner, nil
				}
				m.find = func(matchmaking.CreateRequest) (matchmaking.Ticket, error) {
					return matchmaking.Ticket{Owner: c.whose}, c.find
				}
				m.create = func(r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) {
					require.Positive(t, r.Epoch.Compare(c.owner.Epoch))
					return matchmaking.Ticket{}, true, nil
				}
				m.vacate = func(epoch ulid.ULID) (bool, error) {
					require.Equal(t, c.owner.Epoch, epoch, "all attempts of the earlier life")
					return c.exists, nil
				}
				_, created, err := s.Create(t.Context(), NewTicket{Queue: "duel", ID: "ann"})
				require.ErrorIs(t, err, c.want)
				require.Equal(t, c.made, created)
				require.Equal(t, c.whose != "" || errors.Is(c.find, fault.ErrUnavailable), s.undo.Waiting() == 1,
					"the attempt is given up")
			})
		})
	}
}

func TestEpochAfter(t *testing.T) {
	t.Parallel()
	later := ulid.ULID{}
	require.NoError(t, later.SetTime(ulid.Now()+uint64(time.Hour.Milliseconds())))
	require.Positive(t, epochAfter(later).Compare(later), "although this server's clock is behind")
}
