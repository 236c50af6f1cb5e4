package races_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
)

// userPrograms are the directors and game servers of a queue's user. They record the answers to their calls: the
// connections with which these have assigned each ticket, the matches that were handed out, and the backfills.
type userPrograms struct {
	*arena
	definition matchmaking.Definition

	mu          sync.Mutex
	connections map[string]map[string]bool // by ticket
	matches     int                        // that were handed out
	backfills   []string                   // of games that have room
}

func (u *userPrograms) assigned(ticket, connection string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.connections[ticket] == nil {
		u.connections[ticket] = map[string]bool{}
	}
	u.connections[ticket][connection] = true
}

// waiting returns two random tickets that wait.
func (u *userPrograms) waiting(ctx context.Context, r *rand.Rand) (ids []string) {
	request := matchmaking.WaitingRequest{Queue: "user"}
	err := u.observer.queues.Waiting(ctx, request, func(batch []*matchmaking.Ticket) error {
		for _, t := range batch {
			if t.Status == matchmaking.Searching {
				ids = append(ids, t.ID)
			}
		}
		return nil
	})
	if err != nil {
		return nil
	}
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:min(2, len(ids))]
}

// match returns a match of tickets: for a new game, or one that has room.
func (u *userPrograms) match(ctx context.Context, r *rand.Rand, ids []string) (m matchmaking.HandOutMatch) {
	for _, id := range ids {
		m.Tickets = append(m.Tickets, matchmaking.HandOutTicket{ID: id})
	}
	u.mu.Lock()
	games := u.backfills
	u.mu.Unlock()
	if len(games) == 0 || r.IntN(2) == 0 {
		return m
	}
	b, err := u.observer.tickets.Backfill(ctx, games[r.IntN(len(games))])
	if err == nil {
		m.Backfill = &matchmaking.MatchBackfill{ID: b.ID, Generation: b.Generation}
	}
	return m
}

// direct is a director: it hands matches out and assigns those without a backfill. Sometimes it forgets a match or
// releases it.
func (u *userPrograms) direct(ctx context.Context, number int) {
	r := u.random(number)
	for i := 0; wait(ctx, time.Millisecond); i++ {
		ids := u.waiting(ctx, r)
		if len(ids) == 0 {
			continue
		}
		m := u.match(ctx, r, ids)
		o := u.anyServer(r).queues.HandOut(ctx, matchmaking.HandOutRequest{
			Queue: "user", Token: ulid.Make().String(), Hold: u.definition.PendingTimeout.Std(),
			BackfillTTL: u.definition.BackfillTTL.Std(), MaxBackfills: 100, Matches: []matchmaking.HandOutMatch{m},
		})[0]
		if o.Err != nil {
			continue
		}
		u.mu.Lock()
		u.matches++
		u.mu.Unlock()
		switch fate := r.IntN(10); {
		case fate == 0 || m.Backfill != nil && fate < 8: // it died, or the game server acknowledges
		case fate == 1:
			_ = u.anyServer(r).tickets.ReleaseTickets(ctx, "user", ids)
		default:
			u.assign(ctx, r, fmt.Sprintf("director-%d-%d", number, i), ids)
		}
	}
}

// assign assigns tickets, on another server if one has failed.
func (u *userPrograms) assign(ctx context.Context, r *rand.Rand, connection string, ids []string) {
	for ctx.Err() == nil {
		failures, err := u.anyServer(r).tickets.AssignTickets(ctx, "user", []service.AssignmentGroup{
			{Tickets: ids, Allocation: matchmaking.Allocation{Connection: connection}},
		})
		if err != nil {
			continue
		}
		failed := map[string]bool{}
		for _, f := range failures {
			failed[f.TicketID] = true
		}
		for _, id := range ids {
			if !failed[id] {
				u.assigned(id, connection)
			}
		}
		return
	}
}

// play is a game server: it acknowledges its backfill, sometimes too late, and then begins another game.
func (u *userPrograms) play(ctx context.Context, number int) {
	r := u.random(number)
	for game := 0; ctx.Err() == nil; game++ {
		b, err := u.anyServer(r).tickets.CreateBackfill(ctx, service.NewBackfill{Queue: "user"})
		if err != nil {
			continue
		}
		u.mu.Lock()
		u.backfills = append(u.backfills, b.ID)
		u.mu.Unlock()
		connection := fmt.Sprintf("game-%d-%d", number, game)
		for range 20 {
			if r.IntN(15) == 0 {
				break // it dies
			}
			done, err := u.anyServer(r).tickets.AcknowledgeBackfill(ctx, b.ID, matchmaking.Allocation{Connection: connection})
			if errors.Is(err, matchmaking.ErrNoBackfill) || errors.Is(err, matchmaking.ErrBackfillExpired) {
				break
			}
			for _, t := range done.Tickets {
				u.assigned(t.ID, connection)
			}
			if r.IntN(8) == 0 {
				_, _ = u.anyServer(r).tickets.UpdateBackfill(ctx, b.ID, matchmaking.BackfillSpec{})
			}
			wait(ctx, between(r, time.Millisecond, 20*time.Millisecond))
		}
	}
}

// TestDirectorsOfAUser: directors and game servers of a queue's user die and race with each other, and servers are
// killed. No ticket is in two matches, none is lost, and each player gets the connection that was reported.
func TestDirectorsOfAUser(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, url string) {
		d := definition(t, "user", `{"director": "user", "channel": true, "pendingTimeout": "500ms", "backfillTTL": "300ms"}`)
		a := newArena(t, url, d)
		u := &userPrograms{arena: a, definition: d, connections: map[string]map[string]bool{}}
		a.start(t, "a")
		victim := a.start(t, "b")
		var stops []func()
		for number := range 5 {
			work := u.direct
			if number > 2 {
				work = u.play
			}
			stops = append(stops, during(func(ctx context.Context) { work(ctx, number) }))
		}
		var ids []string
		for range 150 {
			made, _, err := a.observer.tickets.Create(t.Context(), service.NewTicket{Queue: "user"})
			require.NoError(t, err)
			ids = append(ids, made.ID)
		}
		a.kill(victim)
		a.start(t, "c")
		a.eventually(t, "all tickets to be assigned", func() bool {
			state, err := a.observer.queues.Describe(t.Context(), "user", 0)
			return err == nil && state.Searching+state.Pending+state.Outgoing == 0
		})
		for _, stop := range stops {
			stop()
		}
		reported := 0
		for _, id := range ids {
			found, err := a.observer.tickets.Ticket(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, matchmaking.MatchFound, found.Status, id)
			require.LessOrEqual(t, len(u.connections[id]), 1, "%s: %v", id, u.connections[id])
			for connection := range u.connections[id] {
				require.Equal(t, connection, found.Assignment.Connection)
				reported++
			}
			messages, err := a.observer.channels.Fetch(t.Context(), channel.Query{
				Channel: matchmaking.ChannelOf(id), Subscriber: matchmaking.Subscriber,
			})
			require.NoError(t, err)
			require.Len(t, messages.Messages, 1)
			var sent matchmaking.Assignment
			require.NoError(t, json.Unmarshal(messages.Messages[0].Content, &sent))
			require.Equal(t, found.Assignment.Connection, sent.Connection)
		}
		require.NotZero(t, reported)
		require.Greater(t, u.matches, len(ids)/2, "some matches were given up")
	})
}
