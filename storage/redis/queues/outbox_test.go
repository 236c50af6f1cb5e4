package queues

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
)

func TestQueueOutbox(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		outgoing := func(age time.Duration, limit int) []matchmaking.OutboxEntry {
			entries, err := h.Outgoing(t.Context(), h.queue, age, limit)
			require.NoError(t, err)
			return entries
		}
		require.Empty(t, outgoing(0, 10))
		require.NoError(t, h.Delivered(t.Context(), h.queue, []string{"1-1"}))
		h.create(t, "a", "b", "c")
		h.hold(t, "token", "a", "b", "c")
		first := h.assignOne(t, "token", "m1", "a", "b")
		second := h.assignOne(t, "token", "m2", "c")
		entries := outgoing(0, 10)
		require.Len(t, entries, 3)
		for i, want := range []matchmaking.OutboxEntry{
			{Entry: first.Entries[0], TicketID: "a", MatchID: "m1"},
			{Entry: first.Entries[1], TicketID: "b", MatchID: "m1"},
			{Entry: second.Entries[0], TicketID: "c", MatchID: "m2"},
		} {
			got := entries[i]
			require.GreaterOrEqual(t, got.Age, time.Duration(0))
			var content matchmaking.Assignment
			require.NoError(t, json.Unmarshal(got.Content, &content))
			require.Equal(t, h.ticket(t, got.TicketID).Assignment, &content)
			got.Content, got.Age = nil, 0
			require.Equal(t, want, got, "in the order in which they were assigned")
		}
		require.Len(t, outgoing(0, 2), 2)
		require.Empty(t, outgoing(time.Hour, 10))
		require.Eventually(t, func() bool { return len(outgoing(shortest, 10)) == 3 }, rig.Patience, shortest/10)
		require.GreaterOrEqual(t, outgoing(shortest, 10)[2].Age, shortest)

		for range 2 {
			require.NoError(t, h.Delivered(t.Context(), h.queue, []string{first.Entries[1], second.Entries[0]}))
		}
		require.NoError(t, h.Delivered(t.Context(), h.queue, nil))
		require.Len(t, outgoing(0, 10), 1)
		require.NoError(t, h.Delivered(t.Context(), h.queue, first.Entries))
		require.Empty(t, outgoing(0, 10))
		require.Equal(t, 1, h.count(t, "EXISTS", h.k().outbox()), "it keeps its end")
	})
}

func TestQueueDescribe(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		empty, err := h.Describe(t.Context(), h.queue, 10)
		require.NoError(t, err)
		require.Equal(t, matchmaking.QueueState{Now: empty.Now}, empty)
		require.WithinDuration(t, time.Now(), empty.Now, time.Hour)

		h.create(t, "a", "b", "c", "d", "e", "f")
		r := h.request("short")
		r.TTL = shortest
		_, _, err = h.Create(t.Context(), r)
		require.NoError(t, err)
		h.hold(t, "token", "b", "c", "d")
		waits := h.assignOne(t, "token", "m1", "b", "c").Waits
		waits = append(waits, h.assignOne(t, "token", "m2", "d").Waits...)
		require.NoError(t, h.cancel(t.Context(), "e"))
		h.hold(t, "token", "f")
		require.NotEmpty(t, h.assign(t.Context(), "token", h.match("m3", "nobody"))[0].Conflicts)
		require.Eventually(t, func() bool {
			swept, err := h.Sweep(t.Context(), h.queue, nil, 10)
			require.NoError(t, err)
			if len(swept.Expired) == 1 {
				swept, err = h.Sweep(t.Context(), h.queue, swept.Expired, 10)
				require.NoError(t, err)
			}
			return swept.Removed == 1
		}, rig.Patience, shortest/10)

		state, err := h.Describe(t.Context(), h.queue, 10)
		require.NoError(t, err)
		require.Len(t, state.Recent, 2)
		require.Equal(t, waits[:2], state.Recent[0].Waits)
		require.Equal(t, waits[2:], state.Recent[1].Waits, "the newest last")
		require.WithinDuration(t, state.Now, state.Recent[1].At, time.Minute)
		require.Equal(t, state.Now.Sub(h.ticket(t, "a").CreateTime), state.OldestWait)
		state.Now, state.OldestWait, state.Recent = time.Time{}, 0, nil
		require.Equal(t, matchmaking.QueueState{
			Searching: 1, Pending: 1, Outgoing: 3, Matched: 3, Cancelled: 1, Expired: 1, Conflicts: 1,
		}, state)
	})
}

func TestQueueDefinitions(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		ctx := t.Context()
		all, err := h.Definitions(ctx)
		require.NoError(t, err)
		require.Empty(t, all)
		for i, text := range []string{`{"a": 1}`, `{"a": 1}`, "{\"b\":\t2}"} {
			created, err := h.PutDefinition(ctx, matchmaking.PutRequest{Queue: "duel", Definition: []byte(text), Max: 1})
			require.NoError(t, err)
			require.Equal(t, i == 0, created)
		}
		_, err = h.PutDefinition(ctx, matchmaking.PutRequest{Queue: "ranked", Definition: []byte(`{}`), Max: 1})
		require.ErrorIs(t, err, matchmaking.ErrTooManyQueues)
		_, err = h.PutDefinition(ctx, matchmaking.PutRequest{Queue: "ranked", Definition: []byte(`{}`), Max: 2})
		require.NoError(t, err)
		all, err = h.Definitions(ctx)
		require.NoError(t, err)
		require.Equal(t, map[string][]byte{"duel": []byte("{\"b\":\t2}"), "ranked": []byte(`{}`)}, all)
		for range 2 {
			require.NoError(t, h.DeleteDefinition(ctx, "duel"))
		}
		all, err = h.Definitions(ctx)
		require.NoError(t, err)
		require.Equal(t, map[string][]byte{"ranked": []byte(`{}`)}, all)
		require.Equal(t, -1, h.count(t, "PTTL", definitionsKey(h.conn.Prefix())), "definitions stay")
	})
}
