package queuetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func changes(t *testing.T, q *Queue) {
	start := q.Whole(t)
	require.Equal(t, "0-0", start.After)
	require.Empty(t, start.Tickets)
	require.Empty(t, q.ChangesAfter(t, start.After, 10).Changes)
	q.Add(t, "a", "b")
	require.NoError(t, q.CancelID(t.Context(), "a"))
	q.Hold(t, "token", "b")
	q.AssignOne(t, "token", "m1", "b")
	all := q.ChangesAfter(t, start.After, 10)
	require.Equal(t, []string{"a", "b", "-a"}, ShortForm(all.Changes))
	added := *all.Changes[1].Added
	require.Equal(t, Spec("b"), added.Spec)
	require.Equal(t, matchmaking.Searching, added.Status)
	found := q.Get(t, "b")
	require.Equal(t, found.CreateTime, added.CreateTime)
	require.Equal(t, found.CreateTime.Truncate(time.Millisecond).Add(LongTTL), added.Expires)
	require.Equal(t, LongTTL, added.TTL)

	// Fields that aren't requested aren't returned.
	for fields, want := range map[matchmaking.Fields]matchmaking.Spec{
		matchmaking.FieldsSearch:   {SearchFields: Spec("b").SearchFields, Statistics: Spec("b").Statistics},
		matchmaking.FieldsMatching: {Statistics: Spec("b").Statistics},
	} {
		part, err := q.Changes(t.Context(), matchmaking.ChangesRequest{After: start.After, Limit: 10, Fields: fields})
		require.NoError(t, err)
		require.Equal(t, want, part.Changes[1].Added.Spec)
	}

	first := q.ChangesAfter(t, start.After, 1)
	require.Equal(t, []string{"a"}, ShortForm(first.Changes))
	require.Equal(t, []string{"b", "-a"}, ShortForm(q.ChangesAfter(t, first.After, 10).Changes))
	none := q.ChangesAfter(t, all.After, 10)
	require.Empty(t, none.Changes)
	require.Equal(t, all.After, none.After)
	require.Equal(t, all.After, q.Whole(t).After)
}

// readChanges reads changes until there are n, and returns them.
func readChanges(t *testing.T, f matchmaking.Follower, n int) (found []matchmaking.Change) {
	t.Helper()
	for len(found) < n {
		next, err := f.Next(t.Context(), time.Hour)
		require.NoError(t, err)
		found = append(found, next.Changes...)
	}
	return found
}

// A follower receives the changes after its position, each once and in order, with and without a director.
func follow(t *testing.T, q *Queue) {
	q.Add(t, "a", "b", "c")
	require.NoError(t, q.Lead(t.Context(), "boss", time.Hour))
	f := q.Follow(matchmaking.ChangesRequest{Queue: q.Name, After: q.Whole(t).After, Limit: 10,
		Fields: matchmaking.FieldsSearch})
	defer f.Stop()
	q.Add(t, "d")
	added, want := readChanges(t, f, 1)[0].Added, q.Get(t, "d")
	want.Spec = matchmaking.Spec{SearchFields: want.SearchFields, Statistics: want.Statistics}
	require.Equal(t, want, *added)

	q.Hold(t, "rival.1", "a", "b")
	require.NoError(t, q.Release(t.Context(), q.Name, "rival.1", []string{"a", "b"}))
	require.NoError(t, q.CancelID(t.Context(), "a"))
	undone, large := q.Request("undone"), q.Request("large")
	large.Spec = Spec(strings.Repeat("x", 100_000))
	for _, r := range []matchmaking.CreateRequest{undone, large} {
		q.make(t, r)
	}
	q.undo(t, undone.ID, undone.Attempt)
	require.NoError(t, q.Resign(t.Context(), "boss"))
	q.Add(t, "e")
	require.Equal(t, []string{"+a", "+b", "-a", "undone", "large", "-undone", "e"}, ShortForm(readChanges(t, f, 7)))

	require.NoError(t, q.Lead(t.Context(), "other", time.Hour))
	many := storagetest.Numbered("t", 300)
	var adding sync.WaitGroup
	for _, id := range many {
		adding.Go(func() { q.Add(t, id) })
	}
	found := readChanges(t, f, len(many))
	adding.Wait()
	require.ElementsMatch(t, many, ShortForm(found))
	require.True(t,
		slices.IsSortedFunc(found,
			func(a, b matchmaking.Change) int { return a.Added.CreateTime.Compare(b.Added.CreateTime) }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, storagetest.ErrorOf(f.Next(ctx, time.Hour)), context.Canceled)
}

func watch(t *testing.T, q *Queue) {
	nudges := q.Nudges(t)
	require.True(t, <-nudges, "it begins")
	q.Add(t, "a", "b", "c")
	q.Hold(t, "rival.1", "b")
	require.NoError(t, q.Release(t.Context(), q.Name, "rival.1", []string{"b"}))
	require.NoError(t, q.CancelID(t.Context(), "a"))
	require.NoError(t, q.CancelID(t.Context(), "a"))
	for range 5 {
		require.False(t, <-nudges, "something changes")
	}
	require.NoError(t, q.Lead(t.Context(), "boss", time.Hour))
	q.Add(t, "d")
	require.NoError(t, q.CancelID(t.Context(), "d"))
	require.ErrorIs(t, q.Resign(t.Context(), "rival"), lease.ErrLost)
	q.Hold(t, q.ClaimToken(), "b")
	require.NoError(t, q.Release(t.Context(), q.Name, q.ClaimToken(), []string{"b"}))
	require.NoError(t, q.Resign(t.Context(), "boss"))
	require.True(t, <-nudges, "the direction is free")
	require.Empty(t, nudges, "the director gets the changes otherwise, and knows what it does itself")
}

// The lease of a queue is granted only if the queue has work.
func campaign(t *testing.T, q *Queue) {
	lead := func(token string) error { return q.Lead(t.Context(), token, time.Hour) }
	require.ErrorIs(t, lead("a"), matchmaking.ErrQueueIdle)
	q.Add(t, "x")
	require.NoError(t, lead("a"))
	first := q.Fence
	require.NoError(t, lead("a"))
	require.Equal(t, first, q.Fence)
	require.ErrorIs(t, lead("b"), lease.ErrHeld)
	q.Hold(t, "a.1", "x")
	o := q.AssignOne(t, "a.1", "m1", "x")
	require.ErrorIs(t, lead("b"), lease.ErrHeld)
	require.NoError(t, q.Resign(t.Context(), "a"))
	require.NoError(t, lead("b"), "an assignment is on its way")
	require.Greater(t, q.Fence, first)
	second := q.Fence
	require.NoError(t, q.Delivered(t.Context(), q.Name, o.Entries))
	require.NoError(t, lead("b"), "a repeat, whose first reply was lost, finds the lease")
	require.Equal(t, second, q.Fence)
	require.NoError(t, q.Resign(t.Context(), "b"))
	require.ErrorIs(t, lead("a"), matchmaking.ErrQueueIdle)
}

func snapshot(t *testing.T, q *Queue) {
	ids := storagetest.Numbered("t", 2*1000+500)
	q.Add(t, ids...)
	claimed := q.ClaimIDs(t, "token", ids[7], ids[1000])
	require.NoError(t, q.CancelID(t.Context(), ids[8]))
	q.Hold(t, "token", ids[9])
	q.AssignOne(t, "token", "m1", ids[9])
	_, err := q.Claim(t.Context(), matchmaking.ClaimRequest{Queue: q.Name, Token: "dead", Hold: Shortest,
		IDs: ids[10:11]})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return q.Status(t, ids[10]) == matchmaking.Searching }, storagetest.Patience,
		Shortest/10)

	s := q.Whole(t)
	require.Len(t, s.Tickets, len(ids)-2)
	require.Equal(t, map[string]time.Time{ids[7]: claimed.Deadline, ids[1000]: claimed.Deadline}, s.Held)
	want := append(append([]string{}, ids[:8]...), ids[10:]...)
	for i, found := range s.Tickets {
		require.Equal(t, want[i], found.ID, "the oldest first")
	}
	require.Equal(t, q.Get(t, ids[7]), *s.Tickets[7])
	require.Equal(t, q.Get(t, ids[2000]), *s.Tickets[1998])
	require.Empty(t, q.ChangesAfter(t, s.After, 10).Changes)
}

func releaseIsAChange(t *testing.T, q *Queue) {
	q.Add(t, "a", "b", "c")
	require.NoError(t, q.Lead(t.Context(), "boss", time.Hour))
	after := q.Whole(t).After
	q.Hold(t, q.ClaimToken(), "a")
	q.Hold(t, "rival.1", "b", "c")
	require.NoError(t, q.Release(t.Context(), q.Name, q.ClaimToken(), []string{"a", "b"}))
	require.NoError(t, q.Release(t.Context(), q.Name, "rival.1", []string{"a", "b"}))
	require.Equal(t, []string{"+b"}, ShortForm(q.ChangesAfter(t, after, 10).Changes),
		"the director knows what it does itself")
}

// waiting reads more tickets than fit in a page.
func waiting(t *testing.T, q *Queue) {
	require.Empty(t, q.walk(t, matchmaking.FieldsAll))
	ids := storagetest.Numbered("t", 1000+50)
	q.Add(t, ids...)
	q.Hold(t, "token", ids[7])
	whole := q.Whole(t)
	require.Len(t, whole.Tickets, len(ids))
	require.Equal(t, whole.Tickets, q.walk(t, matchmaking.FieldsAll))
	free := q.read(t, matchmaking.WaitingRequest{Queue: q.Name, Fields: matchmaking.FieldsAll, Free: true})
	require.Equal(t, slices.Delete(slices.Clone(whole.Tickets), 7, 8), free)
	matching, err := q.Snapshot(t.Context(), matchmaking.WaitingRequest{Queue: q.Name,
		Fields: matchmaking.FieldsMatching})
	require.NoError(t, err)
	search, none := q.walk(t, matchmaking.FieldsSearch), q.walk(t, matchmaking.FieldsNone)
	for i, ticket := range whole.Tickets {
		require.Equal(t, ticket.SearchFields, search[i].SearchFields)
		require.Equal(t, matchmaking.Spec{Statistics: ticket.Statistics}, matching.Tickets[i].Spec)
		for _, found := range []*matchmaking.Ticket{search[i], none[i]} {
			require.Equal(t, ticket.ID, found.ID)
			require.Equal(t, ticket.CreateTime, found.CreateTime)
			require.Equal(t, ticket.Expires, found.Expires)
			require.Equal(t, ticket.Status, found.Status)
		}
	}
	enough := errors.New("enough")
	calls := 0
	err = q.Waiting(t.Context(), matchmaking.WaitingRequest{Queue: q.Name}, func([]*matchmaking.Ticket) error {
		calls++
		return enough
	})
	require.ErrorIs(t, err, enough)
	require.Equal(t, 1, calls)
}
