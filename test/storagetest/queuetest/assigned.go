package queuetest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// listenAssigned listens to the ends of the queue's tickets until the test ends, and returns after the confirmation.
func (q *Queue) listenAssigned(t *testing.T) <-chan matchmaking.TicketEnd {
	t.Helper()
	confirmed, ends := make(chan struct{}, 1), make(chan matchmaking.TicketEnd, 1000)
	t.Cleanup(q.ListenAssigned(q.Name, matchmaking.AssignedListener{
		Confirmed:   func() { confirmed <- struct{}{} },
		Interrupted: func() {},
		Ended: func(e matchmaking.TicketEnd) {
			e.ID, e.Content = strings.Clone(e.ID), strings.Clone(e.Content)
			ends <- e
		},
	}))
	<-confirmed
	return ends
}

func removedIsNotified(t *testing.T, q *Queue) {
	ends := q.listenAssigned(t)
	q.Add(t, "a", "b")
	created := q.Get(t, "a").CreateTime
	requireGone := func(id string, created time.Time) {
		t.Helper()
		e := <-ends
		require.True(t, e.Created.Equal(created))
		e.Created = time.Time{}
		require.Equal(t, matchmaking.TicketEnd{ID: id, Removed: true}, e)
	}
	for range 2 {
		require.NoError(t, q.CancelID(t.Context(), "a"))
	}
	requireGone("a", created)
	r := q.Request("c")
	made, _ := q.make(t, r)
	for range 2 {
		require.False(t, q.undo(t, "c", r.Attempt))
	}
	requireGone("c", made.CreateTime)

	created = q.Get(t, "b").CreateTime
	q.Hold(t, "token", "b")
	require.NoError(t, q.AssignMatches(t.Context(), "token", q.Match("m", "b"))[0].Err)
	require.Equal(t, "b", (<-ends).ID)
	for range 2 {
		require.NoError(t, q.DeleteID(t.Context(), "b"))
	}
	requireGone("b", created)
	require.Empty(t, ends)
}

// Listeners are notified once of each assigned ticket, with its assignment unless that is large, and of no others.
func assignedIsNotified(t *testing.T, q *Queue) {
	ends := q.listenAssigned(t)
	q.Add(t, "a", "b", "c", "d", "e")
	q.Hold(t, "token", "a", "b", "d", "e")
	large := q.Match("m4", "d", "e")
	large.Assignments[0].Content = []byte(`{"connection":"` + strings.Repeat("x", 64<<10) + `"}`)
	for range 2 {
		q.AssignMatches(t.Context(), "token", q.Match("m1", "b"), q.Match("m2", "c"), q.Match("m3", "a"))
		q.AssignMatches(t.Context(), "token", large)
	}
	require.NoError(t, q.CancelID(t.Context(), "c"))
	for _, want := range []matchmaking.TicketEnd{
		{ID: "b", Content: string(q.Match("m1", "b").Assignments[0].Content)},
		{ID: "a", Content: string(q.Match("m3", "a").Assignments[0].Content)},
		{ID: "d"}, {ID: "e"}, {ID: "c", Removed: true},
	} {
		want.Created = q.Get(t, want.ID).CreateTime
		e := <-ends
		e.Created = e.Created.UTC()
		require.Equal(t, want, e)
	}
	require.Empty(t, ends)
}

func states(t *testing.T, q *Queue) {
	q.Add(t, "waits", "held", "matched", "cancelled")
	q.AddShort(t, "expired")
	q.Hold(t, "token", "held", "matched")
	match := q.Match("m1", "matched")
	require.NoError(t, q.AssignMatches(t.Context(), "token", match)[0].Err)
	require.NoError(t, q.CancelID(t.Context(), "cancelled"))
	q.Expires(t, "expired")

	ids := []string{"nobody", "waits", "matched", "expired", "held", "cancelled", "waits"}
	found, err := q.States(t.Context(), q.Name, append(ids, storagetest.Numbered("none", 3000)...))
	require.NoError(t, err)
	require.Len(t, found, len(ids)+3000)
	for i, id := range ids {
		switch s := found[i]; id {
		case "waits", "held":
			require.True(t, s.Created.Equal(q.Get(t, id).CreateTime), id)
			require.Empty(t, s.Content)
			require.InDelta(t, LongTTL, s.Remaining, float64(time.Minute))
		case "matched":
			require.True(t, s.Created.Equal(q.Get(t, id).CreateTime), id)
			require.Equal(t, string(match.Assignments[0].Content), s.Content)
			require.Zero(t, s.Remaining)
		default:
			require.Zero(t, s, id)
		}
	}
	none, err := q.States(t.Context(), q.Name, nil)
	require.NoError(t, err)
	require.Empty(t, none)
}
