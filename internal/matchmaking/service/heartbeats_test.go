package service

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// TestHeartbeats marks one ticket as attended by two requests. The times are those of its renewals.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, began := newMemory(), time.Now()
		s := m.service(t, map[string]string{"duel": `{"heartbeat":"3s"}`})
		ticket := matchmaking.Ticket{
			ID: "ann", Queue: "duel", Status: matchmaking.Searching, CreateTime: began, TTL: 3 * time.Second,
			Life: 10 * time.Second,
		}
		m.ticket = func(string) (matchmaking.Ticket, error) { return ticket, nil }
		var mu sync.Mutex
		var renewed []time.Duration
		m.renew = func(ids []string) error {
			mu.Lock()
			defer mu.Unlock()
			require.Contains(t, ids, "ann")
			renewed = append(renewed, time.Since(began))
			return fault.ErrUnavailable // the next renewal is in time
		}
		seconds := func(list ...time.Duration) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			for i := range list {
				list[i] *= time.Second
			}
			require.Equal(t, list, slices.Compact(renewed))
			renewed = nil
		}
		go s.heartbeats.run(t.Context())
		pass := func(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // synctest's simulated time
		first, second := s.Attend(t.Context(), "ann"), s.Attend(t.Context(), "ann")
		pass(2 * time.Second)
		seconds(0, 1, 2)
		first()
		first()
		pass(2 * time.Second)
		seconds(3, 4)
		second()
		pass(2 * time.Second)
		seconds()
		third := s.Attend(t.Context(), "ann")
		pass(6 * time.Second)
		seconds(6, 7, 8, 9) // and none after the end of its Life
		third()
	})
}

func TestAttendOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		definition string
		ticket     matchmaking.Ticket
		err        error
	}{
		"no heartbeat": {definition: `{}`, ticket: matchmaking.Ticket{Status: matchmaking.Searching,
			Life: time.Hour}},
		"assigned": {definition: `{"heartbeat":"1s"}`, ticket: matchmaking.Ticket{Status: matchmaking.MatchFound,
			Life: time.Hour}},
		"as short lived": {definition: `{"heartbeat":"1s"}`, ticket: matchmaking.Ticket{Status: matchmaking.Searching,
			TTL: time.Second, Life: time.Second}},
		"unknown": {definition: `{"heartbeat":"1s"}`, err: matchmaking.ErrNoTicket},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMemory()
			s := m.service(t, map[string]string{"duel": c.definition})
			m.ticket = func(string) (matchmaking.Ticket, error) { return c.ticket, c.err }
			s.Attend(t.Context(), "ann")()
			require.Empty(t, s.heartbeats.queues)
			require.Empty(t, s.heartbeats.added)
		})
	}
}
