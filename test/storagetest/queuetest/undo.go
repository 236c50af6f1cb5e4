package queuetest

import (
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func undo(t *testing.T, q *Queue) {
	first, second := q.Request("a"), q.Request("a")
	made, created := q.make(t, first)
	require.True(t, created)
	again, created := q.make(t, first)
	require.True(t, created, "the same attempt, whose answer was lost")
	require.Equal(t, made, again)

	require.True(t, q.undo(t, "a", second.Attempt))
	require.Equal(t, matchmaking.Searching, q.Status(t, "a"), "another attempt's")
	_, created = q.make(t, second)
	require.False(t, created)
	require.True(t, q.undo(t, "a", first.Attempt))
	require.Equal(t, matchmaking.Searching, q.Status(t, "a"), "the later attempt has been answered")
	require.Equal(t, made, q.Get(t, "a"))

	q.Hold(t, "token", "a")
	for range 2 {
		require.False(t, q.undo(t, "a", second.Attempt))
	}
	q.requireNoTicket(t, "a")
	require.Equal(t, matchmaking.QueueState{}, q.counts(t))
	require.ErrorIs(t, storagetest.ErrorOf2(q.Create(t.Context(), second)), fault.ErrUnavailable,
		"a copy of it that was on its way")
	_, created = q.make(t, q.Request("a"))
	require.True(t, created)
}

// An attempt that arrives after it was undone creates no ticket. Others do.
func undoComesFirst(t *testing.T, q *Queue) {
	late := []matchmaking.CreateRequest{q.Request("a"), q.Request("a")}
	for _, r := range late {
		require.False(t, q.undo(t, "a", r.Attempt))
	}
	require.ErrorIs(t, q.CancelID(t.Context(), "a"), matchmaking.ErrNoTicket)
	require.NoError(t, q.Renew(t.Context(), q.Name, []string{"a"}))
	for _, r := range late {
		require.ErrorIs(t, storagetest.ErrorOf2(q.Create(t.Context(), r)), fault.ErrUnavailable)
	}
	q.requireNoTicket(t, "a")

	made, created := q.make(t, q.Request("a"))
	require.True(t, created)
	require.Equal(t, made, q.Get(t, "a"))
	require.Len(t, q.Whole(t).Tickets, 1)
}

// The undo of an attempt whose script arrives after a later attempt has created the ticket and received the answer
// doesn't remove that ticket.
func undoOfALateAttempt(t *testing.T, q *Queue) {
	late, answered := q.Request("a"), q.Request("a")
	made, created := q.make(t, answered)
	require.True(t, created)
	for range 2 {
		_, created = q.make(t, late)
		require.False(t, created)
		require.True(t, q.undo(t, "a", late.Attempt))
		require.Equal(t, made, q.Get(t, "a"))
	}
	require.False(t, q.undo(t, "a", answered.Attempt))

	var attempts []string
	for range 20 {
		r := q.Request("b")
		q.make(t, r)
		attempts = append(attempts, r.Attempt)
	}
	for _, attempt := range attempts {
		require.True(t, q.undo(t, "b", attempt), "one that isn't kept may have been answered")
	}
	require.Equal(t, matchmaking.Searching, q.Status(t, "b"))
}

func undoLeavesWhatHasEnded(t *testing.T, q *Queue) {
	r := q.Request("a")
	q.make(t, r)
	q.Add(t, "b")
	q.Hold(t, "token", "a", "b")
	require.Empty(t, q.AssignOne(t, "token", "m", "a", "b").Conflicts)
	require.True(t, q.undo(t, "a", r.Attempt))
	require.Equal(t, matchmaking.MatchFound, q.Status(t, "a"))
}

// Attempts in one life of a ticket's channel create no ticket after Find has returned that there is none. Attempts in
// another life do.
func epochs(t *testing.T, q *Queue) {
	request := func(epoch ulid.ULID) matchmaking.CreateRequest {
		r := q.Request("a")
		r.Epoch = epoch
		return r
	}
	create := func(epoch ulid.ULID) error { return storagetest.ErrorOf2(q.Create(t.Context(), request(epoch))) }
	find := func(epoch ulid.ULID) error { return storagetest.ErrorOf(q.Find(t.Context(), request(epoch))) }
	first, second := ulid.Make(), ulid.Make()
	for range 2 {
		require.ErrorIs(t, find(first), matchmaking.ErrNoTicket)
	}
	require.False(t, q.vacate(t, "a", second))
	require.ErrorIs(t, create(first), matchmaking.ErrUndone)
	require.ErrorIs(t, create(second), matchmaking.ErrUndone)

	third := ulid.Make()
	require.NoError(t, create(third))
	require.Equal(t, third, q.Get(t, "a").Epoch)
	require.NoError(t, find(third), "it is there")
	require.True(t, q.vacate(t, "a", third), "it removes no ticket")
	require.Equal(t, matchmaking.Searching, q.Status(t, "a"))

	q.Hold(t, "token", "a")
	m := q.Match("m", "a")
	m.Assignments[0].Epoch, m.Assignments[0].Created = third, q.Get(t, "a").CreateTime.Add(-time.Microsecond)
	outcome := q.AssignMatches(t.Context(), "token", m)[0]
	require.NoError(t, outcome.Err)
	require.Equal(t, []matchmaking.Conflict{{ID: "a", Reason: matchmaking.ConflictNotWaiting}}, outcome.Conflicts,
		"that one is gone")
	m.Assignments[0].Created = q.Get(t, "a").CreateTime
	require.Empty(t, q.AssignMatches(t.Context(), "token", m)[0].Conflicts)
	require.Equal(t, third, q.outgoing(t, 0, 10)[0].Epoch)
}
