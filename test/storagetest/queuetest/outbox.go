package queuetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func outbox(t *testing.T, q *Queue) {
	require.Empty(t, q.outgoing(t, 0, 10))
	require.NoError(t, q.Delivered(t.Context(), q.Name, []string{"1-1"}))
	q.Add(t, "a", "b", "c")
	q.Hold(t, "token", "a", "b", "c")
	first := q.AssignOne(t, "token", "m1", "a", "b")
	second := q.AssignOne(t, "token", "m2", "c")
	entries := q.outgoing(t, 0, 10)
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
		require.Equal(t, q.Get(t, got.TicketID).Assignment, &content)
		got.Content, got.Age = nil, 0
		require.Equal(t, want, got, "in the order in which they were assigned")
	}
	require.Len(t, q.outgoing(t, 0, 2), 2)
	require.Empty(t, q.outgoing(t, time.Hour, 10))
	require.Eventually(t, func() bool { return len(q.outgoing(t, Shortest, 10)) == 3 }, storagetest.Patience,
		Shortest/10)
	require.GreaterOrEqual(t, q.outgoing(t, Shortest, 10)[2].Age, Shortest)

	for range 2 {
		require.NoError(t, q.Delivered(t.Context(), q.Name, []string{first.Entries[1], second.Entries[0]}))
	}
	require.NoError(t, q.Delivered(t.Context(), q.Name, nil))
	require.Len(t, q.outgoing(t, 0, 10), 1)
	require.NoError(t, q.Delivered(t.Context(), q.Name, first.Entries))
	require.Empty(t, q.outgoing(t, 0, 10))
}

// quiet assigns tickets with and without channels.
func quiet(t *testing.T, q *Queue) {
	t.Helper()
	q.AddQuiet(t, "early", "late")
	q.Add(t, "made")
	require.True(t, q.Get(t, "early").NoChannel)
	require.False(t, q.Get(t, "made").NoChannel)
	q.Hold(t, "token", "early", "made", "late")
	o := q.AssignMatches(t.Context(), "token", q.Match("m1", "early", "made", "late"))[0]
	require.Len(t, o.Waits, 3)
	entries := q.outgoing(t, 0, 10)
	require.Len(t, entries, 1)
	require.Equal(t, []string{"", entries[0].Entry, ""}, o.Entries)
	require.Equal(t, "made", entries[0].TicketID)
	require.True(t, q.Get(t, "early").NoChannel, "it is known after the match, too")
}

func describe(t *testing.T, q *Queue) {
	empty, err := q.Describe(t.Context(), q.Name, 10)
	require.NoError(t, err)
	require.Equal(t, matchmaking.QueueState{Now: empty.Now}, empty)
	require.WithinDuration(t, time.Now(), empty.Now, time.Hour)

	q.Add(t, "a", "b", "c", "d", "e", "f")
	q.AddShort(t, "short")
	q.Hold(t, "token", "b", "c", "d")
	waits := q.AssignOne(t, "token", "m1", "b", "c").Waits
	waits = append(waits, q.AssignOne(t, "token", "m2", "d").Waits...)
	require.NoError(t, q.CancelID(t.Context(), "e"))
	q.Hold(t, "token", "f")
	require.NotEmpty(t, q.AssignMatches(t.Context(), "token", q.Match("m3", "nobody"))[0].Conflicts)
	require.Eventually(t, func() bool {
		swept, err := q.Sweep(t.Context(), q.Name, nil, 10)
		require.NoError(t, err)
		if len(swept.Expired) == 1 {
			swept, err = q.Sweep(t.Context(), q.Name, swept.Expired, 10)
			require.NoError(t, err)
		}
		return swept.Removed == 1
	}, storagetest.Patience, Shortest/10)

	state, err := q.Describe(t.Context(), q.Name, 10)
	require.NoError(t, err)
	require.Len(t, state.Recent, 2)
	require.Equal(t, waits[:2], state.Recent[0].Waits)
	require.Equal(t, waits[2:], state.Recent[1].Waits, "the newest last")
	require.WithinDuration(t, state.Now, state.Recent[1].At, time.Minute)
	require.Equal(t, state.Now.Sub(q.Get(t, "a").CreateTime), state.OldestWait)
	require.Equal(t, matchmaking.QueueState{
		Searching: 1, Pending: 1, Outgoing: 3, Matched: 3, Cancelled: 1, Expired: 1, Conflicts: 1,
	}, q.counts(t))
}

func definitions(t *testing.T, q *Queue) {
	ctx := t.Context()
	requireAll := func(want map[string][]byte) {
		t.Helper()
		all, err := q.Definitions(ctx)
		require.NoError(t, err)
		require.Equal(t, want, all)
	}
	put := func(queue, text string, maxQueues int) (created bool, err error) {
		return q.PutDefinition(ctx, matchmaking.PutRequest{Queue: queue, Definition: []byte(text), Max: maxQueues})
	}
	requireAll(map[string][]byte{})
	for i, text := range []string{`{"a": 1}`, `{"a": 1}`, "{\"b\":\t2}"} {
		created, err := put("duel", text, 1)
		require.NoError(t, err)
		require.Equal(t, i == 0, created)
	}
	require.ErrorIs(t, storagetest.ErrorOf(put("ranked", `{}`, 1)), matchmaking.ErrTooManyQueues)
	require.NoError(t, storagetest.ErrorOf(put("ranked", `{}`, 2)))
	requireAll(map[string][]byte{"duel": []byte("{\"b\":\t2}"), "ranked": []byte(`{}`)})
	for range 2 {
		require.NoError(t, q.DeleteDefinition(ctx, "duel"))
	}
	requireAll(map[string][]byte{"ranked": []byte(`{}`)})
}
