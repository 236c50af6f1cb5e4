package service

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// feeds is a memory with notifications of assignments.
type feeds struct {
	*memory
	mu        sync.Mutex
	listeners map[string]matchmaking.AssignedListener
	reads     int
}

func (f *feeds) ListenAssigned(queue string, l matchmaking.AssignedListener) (stop func()) {
	f.mu.Lock()
	f.listeners[queue] = l
	f.mu.Unlock()
	l.Confirmed()
	return func() {}
}

func (f *feeds) States(_ context.Context, _ string, ids []string) (states []matchmaking.TicketState, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads += len(ids)
	if f.states != nil {
		return f.states(ids)
	}
	for range ids {
		states = append(states, matchmaking.TicketState{Created: began, Remaining: time.Hour})
	}
	return states, nil
}

// ended notifies listeners about a ticket of queue duel.
func (f *feeds) ended(e matchmaking.TicketEnd) {
	f.mu.Lock()
	l := f.listeners["duel"]
	f.mu.Unlock()
	l.Ended(e)
}

// began is the creation time of all tickets.
var began = time.UnixMicro(1_800_000_000_000_000)

// TestAwait: a wait for a ticket that the service created needs no read, except the first. Names of unknown queues
// cause no subscription, and waits end with Drain.
func TestAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &feeds{memory: newMemory(), listeners: map[string]matchmaking.AssignedListener{}}
		f.create = func(r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) {
			return matchmaking.Ticket{ID: r.ID, Queue: r.Queue, CreateTime: began, TTL: time.Hour}, true, nil
		}
		removed := matchmaking.NewID("gone")
		f.ticket = func(id string) (matchmaking.Ticket, error) {
			if id == removed {
				return matchmaking.Ticket{Assignment: &matchmaking.Assignment{MatchID: "before"}}, nil
			}
			return matchmaking.Ticket{}, nil
		}
		o := f.options(t, map[string]string{"duel": "{}"})
		o.Store = f
		s, err := New(o)
		require.NoError(t, err)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go s.watches.Run(ctx)
		const waits = 3
		var outcomes [waits]error
		var got [waits]*matchmaking.Assignment
		var waiting [waits]sync.WaitGroup
		await := func(i int, id string) {
			waiting[i].Go(func() { got[i], outcomes[i] = s.Await(ctx, id) })
			synctest.Wait()
		}
		for _, id := range []string{"not an ID", "", matchmaking.NewID("none")} {
			_, err := s.Await(ctx, id)
			require.ErrorIs(t, err, matchmaking.ErrNoTicket, id)
		}
		a, err := s.Await(ctx, removed)
		require.NoError(t, err)
		require.Equal(t, "before", a.MatchID, "its queue was deleted")

		await(0, "ann")
		ben, _, err := s.Create(ctx, NewTicket{Queue: "duel"})
		require.NoError(t, err)
		await(1, ben.ID)
		chosen, _, err := s.Create(ctx, NewTicket{Queue: "duel", ID: "chosen"})
		require.NoError(t, err)
		await(2, chosen.ID)
		require.Equal(t, 2, f.reads, "of ann and of the one whose ID may be used again")
		f.listeners["duel"].Ended(matchmaking.TicketEnd{
			ID: ben.ID, Created: began, Content: `{"ticketId":"` + ben.ID + `","matchId":"m"}`,
		})
		waiting[1].Wait()
		require.NoError(t, outcomes[1])
		require.Equal(t, "m", got[1].MatchID)
		require.Len(t, f.listeners, 1)
		s.Drain()
		waiting[0].Wait()
		require.ErrorIs(t, outcomes[0], fault.ErrUnavailable)
	})
}

// TestAwaitEnd returns when an assigned ticket was deleted, here or on another server, and when its assignment has
// expired. Notifications about another ticket with its ID have no effect.
func TestAwaitEnd(t *testing.T) {
	t.Parallel()
	const keep = 30 * time.Second
	for name, c := range map[string]struct {
		play  func(f *feeds, becomes func(matchmaking.TicketState))
		after time.Duration
	}{
		"removed": {func(f *feeds, becomes func(matchmaking.TicketState)) {
			<-time.After(5 * time.Second)
			becomes(matchmaking.TicketState{})
			f.ended(matchmaking.TicketEnd{ID: "ann", Created: began, Removed: true})
		}, 5 * time.Second},
		"removed before it is waited for": {func(_ *feeds, becomes func(matchmaking.TicketState)) {
			becomes(matchmaking.TicketState{})
		}, secondRead},
		"not confirmed by replicas at the moment": {func(_ *feeds, becomes func(matchmaking.TicketState)) {
			becomes(matchmaking.TicketState{Created: began, Unconfirmed: true})
		}, keep},
		"another removed": {func(f *feeds, _ func(matchmaking.TicketState)) {
			<-time.After(5 * time.Second)
			f.ended(matchmaking.TicketEnd{ID: "ann", Removed: true})
			f.ended(matchmaking.TicketEnd{ID: "ben", Created: began, Removed: true})
		}, keep},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &feeds{memory: newMemory(), listeners: map[string]matchmaking.AssignedListener{}}
				var state atomic.Value
				state.Store(matchmaking.TicketState{Created: began, Content: `{"matchId":"m"}`})
				f.states = func([]string) ([]matchmaking.TicketState, error) {
					return []matchmaking.TicketState{state.Load().(matchmaking.TicketState)}, nil
				}
				o := f.options(t, map[string]string{"duel": `{"assignmentTTL":"30s"}`})
				o.Store = f
				s, err := New(o)
				require.NoError(t, err)
				ctx, end := context.WithCancel(t.Context())
				defer end()
				go s.watches.Run(ctx)
				started := time.Now()
				go c.play(f, func(s matchmaking.TicketState) { state.Store(s) })
				require.NoError(t, s.AwaitEnd(ctx, "duel", "ann"))
				require.Equal(t, c.after, time.Since(started))
				s.Drain()
				require.ErrorIs(t, s.AwaitEnd(ctx, "duel", "ann"), fault.ErrUnavailable)
			})
		})
	}
}
