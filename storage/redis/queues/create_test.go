package queues

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// One call decides attempts like separate calls would, and the tickets' times show their order.
func TestCreateDecidesEach(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.Add(t, "there")
		first, undone, limited, later := h.Request("a"), h.Request("u"), h.Request("c"), h.Request("c")
		require.NoError(t, storagetest.ErrorOf(h.Undo(t.Context(), h.Name, "u", undone.Attempt)))
		limited.MaxTickets, later.MaxTickets = 3, 5 // then it has 3 and 4 tickets
		var all []*creation
		for _, r := range []matchmaking.CreateRequest{
			first, h.Request("a"), first, h.Request("there"), undone, h.Request("u"), h.Request("b"), limited, later,
			limited, h.Request("u"),
		} {
			all = append(all, &creation{CreateRequest: r})
		}
		outcomes, pause, err := h.store.createAll(t.Context(), h.Name, all)
		require.NoError(t, err)
		require.Zero(t, pause)
		var statuses []string
		for _, d := range outcomes {
			statuses = append(statuses, d.Text())
		}
		require.Equal(t, "CREATED EXISTS CREATED EXISTS UNDONE CREATED CREATED FULL CREATED EXISTS EXISTS",
			strings.Join(statuses, " "))
		var ids []string
		var last time.Time
		for _, found := range h.Whole(t).Tickets {
			require.True(t, found.CreateTime.After(last))
			ids, last = append(ids, found.ID), found.CreateTime
		}
		require.Equal(t, []string{"there", "a", "b", "u", "c"}, ids,
			"in the order of the first attempts for them, then the second")
	})
}

func TestCreatePause(t *testing.T) {
	t.Parallel()
	for outgoing, want := range map[int]time.Duration{
		0: 0, 2000: 0, 2001: 50 * time.Microsecond, 3000: 50 * time.Millisecond, 4000: 100 * time.Millisecond,
		1e9: 100 * time.Millisecond,
	} {
		require.Equal(t, want, createPause(outgoing), outgoing)
	}
}

// A queue with many unpublished assignments accepts tickets more slowly, but accepts them.
func TestCreateWithAStuckOutbox(t *testing.T) {
	t.Parallel()
	conn, node := storetest.Standalone(t)
	slowed := make(chan string, 10)
	h := hallOf(t, New(conn, Options{Slowed: func(queue string, by time.Duration) { slowed <- fmt.Sprint(queue, by) }}),
		node.Client())
	fill := "for i = 1, 3000 do redis.call('XADD', KEYS[1], '*', 'ticket', 'a') end"
	require.True(t, rueidis.IsRedisNil(node.Do(t, "EVAL", fill, "1", h.k().outbox()).Error()))
	_, pause, err := h.store.createAll(t.Context(), h.Name, []*creation{{CreateRequest: h.Request("a")}})
	require.NoError(t, err)
	require.Equal(t, 50*time.Millisecond, pause)
	h.Add(t, "b")
	require.Equal(t, "duel50ms", <-slowed)
	require.Equal(t, "duel50ms", <-slowed)
	require.NoError(t, h.do(t, "DEL", h.k().outbox()).Error())
	h.Add(t, "c")
	require.Empty(t, slowed)
	require.Equal(t, 3, h.count(t, "ZCARD", h.k().waiting()))
}

// A creation whose caller's context ended before a command was sent creates no ticket, and needs no undo.
func TestCreateOfACallerWhoHasLeft(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		ctx, leave := context.WithCancel(t.Context())
		leave()
		_, _, err := h.store.Create(ctx, h.Request("a"))
		require.ErrorIs(t, err, matchmaking.ErrNotSent)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, h.Whole(t).Tickets)
	})
}
