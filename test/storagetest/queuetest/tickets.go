package queuetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func create(t *testing.T, q *Queue) {
	before := time.Now().Add(-time.Second)
	r := q.Request("a")
	r.Spec = matchmaking.Spec{
		SearchFields: matchmaking.SearchFields{DoubleArgs: matchmaking.Doubles{"odd": math.Inf(-1)}},
		Criteria:     []matchmaking.Criterion{{Name: "skill", MinValue: 1, MaxValue: 2}},
		Extensions:   map[string]json.RawMessage{"x": json.RawMessage(`{"a":[1,2]}`)},
	}
	made, created := q.make(t, r)
	require.True(t, created)
	require.Equal(t, "a", made.ID)
	require.Equal(t, q.Name, made.Queue)
	require.Equal(t, matchmaking.Searching, made.Status)
	require.Equal(t, r.Spec, made.Spec)
	require.Equal(t, LongTTL, made.TTL)
	require.True(t, made.CreateTime.After(before))
	require.Equal(t, made.CreateTime.Truncate(time.Millisecond).Add(LongTTL), made.Expires)

	require.Equal(t, made, q.Get(t, "a"))
	again, created := q.make(t, q.Request("a"))
	require.False(t, created)
	require.Equal(t, made, again, "a repeat gives the ticket as it was made first")

	require.Equal(t, 1, q.counts(t).Searching)
	require.Equal(t, []string{"a"}, ShortForm(q.ChangesAfter(t, "0-0", 10).Changes), "the repeat is no change")

	owned := q.Request("b")
	owned.Owner = "ann"
	q.make(t, owned)
	require.Equal(t, "ann", q.Get(t, "b").Owner)
}

// With many concurrent attempts, one per ID creates the ticket, the limit of waiting tickets holds, and a player that
// leaves at the same moment has left, or finds no ticket.
func createAtOnce(t *testing.T, q *Queue) {
	const limit, attempts = 100, 3
	ids := storagetest.Numbered("t", 2*limit)
	var mu sync.Mutex
	made, found, refused := map[string]matchmaking.Ticket{}, map[string]matchmaking.Ticket{}, 0
	attempt := func(id string) error {
		r := q.Request(id)
		r.MaxTickets = limit
		ticket, created, err := q.Create(t.Context(), r)
		mu.Lock()
		defer mu.Unlock()
		switch _, twice := made[id]; {
		case errors.Is(err, matchmaking.ErrQueueFull):
			refused++
			return nil
		case created && twice:
			return fmt.Errorf("%s was created twice", id)
		case created:
			made[id] = ticket
		}
		found[id] = ticket
		return err
	}
	var g errgroup.Group
	for _, id := range ids {
		for range attempts {
			g.Go(func() error { return attempt(id) })
		}
	}
	require.NoError(t, g.Wait())
	require.Len(t, made, limit)
	require.Equal(t, made, found)
	require.Equal(t, attempts*limit, refused)
	require.Equal(t, limit, q.counts(t).Searching)
	require.Len(t, q.ChangesAfter(t, "0-0", 1000).Changes, limit)

	for id := range made {
		r := q.Request("again-" + id)
		for _, end := range []func() error{
			func() error { return storagetest.ErrorOf2(q.Create(t.Context(), r)) },
			func() error { return q.CancelID(t.Context(), id) },
			func() error { return storagetest.ErrorOf(q.Undo(t.Context(), q.Name, r.ID, r.Attempt)) },
		} {
			g.Go(func() error { return storagetest.Ignoring(end(), matchmaking.ErrUndone) })
		}
	}
	require.NoError(t, g.Wait())
	require.Equal(t, matchmaking.QueueState{Cancelled: limit}, q.counts(t))
}

func createFindsATicketInEveryStatus(t *testing.T, q *Queue) {
	q.Add(t, "searching", "pending", "cancelled", "matched")
	q.Hold(t, "token", "pending", "matched")
	require.NoError(t, q.CancelID(t.Context(), "cancelled"))
	q.AssignOne(t, "token", "m1", "matched")
	q.AddShort(t, "expired")
	q.Expires(t, "expired")

	for id, status := range map[string]matchmaking.Status{
		"searching": matchmaking.Searching, "pending": matchmaking.Pending, "cancelled": matchmaking.Cancelled,
		"matched": matchmaking.MatchFound, "expired": matchmaking.Expired,
	} {
		found, created := q.make(t, q.Request(id))
		require.False(t, created, id)
		require.Equal(t, status, found.Status)
		require.Equal(t, Spec(id), found.Spec)
		require.Equal(t, q.Get(t, id), found)
	}
	matched := q.Get(t, "matched")
	require.Equal(t, "m1", matched.MatchID)
	require.Equal(t, &matchmaking.Assignment{
		TicketID: "matched", MatchID: "m1", Queue: q.Name, Connection: "127.0.0.1:7777",
	}, matched.Assignment)
	require.NotContains(t, q.ClaimIDs(t, "other").IDs, "expired",
		"what has expired can't be claimed before it is swept")
	q.requireNoTicket(t, "nobody")
	require.ErrorIs(t, storagetest.ErrorOf(q.Ticket(t.Context(), "elsewhere", "searching")), matchmaking.ErrNoTicket)
}

func full(t *testing.T, q *Queue) {
	limited := func(id string) (created bool, err error) {
		r := q.Request(id)
		r.MaxTickets = 2
		_, created, err = q.Create(t.Context(), r)
		return created, err
	}
	q.Add(t, "a", "b")
	q.Hold(t, "token", "a")
	require.Equal(t, matchmaking.QueueState{Searching: 1, Pending: 1}, q.counts(t))
	before := q.Picture(t, "c")
	require.ErrorIs(t, storagetest.ErrorOf(limited("c")), matchmaking.ErrQueueFull)
	require.Equal(t, before, q.Picture(t, "c"))
	created, err := limited("a")
	require.NoError(t, err, "a repeat needs no room")
	require.False(t, created)
	require.NoError(t, q.CancelID(t.Context(), "a"))
	created, err = limited("c")
	require.NoError(t, err)
	require.True(t, created)
}

func cancel(t *testing.T, q *Queue) {
	q.Add(t, "a", "b", "c")
	q.Hold(t, "token", "b", "c")
	for range 2 {
		require.NoError(t, q.CancelID(t.Context(), "a"))
		require.NoError(t, q.CancelID(t.Context(), "b"))
		require.ErrorIs(t, q.CancelID(t.Context(), "nobody"), matchmaking.ErrNoTicket)
	}
	require.Equal(t, matchmaking.Cancelled, q.Status(t, "a"))
	require.Equal(t, matchmaking.Cancelled, q.Status(t, "b"))
	require.Equal(t, Spec("b"), q.Get(t, "b").Spec)
	require.Equal(t, matchmaking.QueueState{Pending: 1, Cancelled: 2}, q.counts(t))
	require.Equal(t, []string{"a", "b", "c", "-a", "-b"}, ShortForm(q.ChangesAfter(t, "0-0", 10).Changes))
	q.requireNoTicket(t, "nobody")

	q.AssignOne(t, "token", "m1", "c")
	before := q.Picture(t, "c")
	require.ErrorIs(t, q.CancelID(t.Context(), "c"), matchmaking.ErrTicketMatched)
	require.Equal(t, before, q.Picture(t, "c"))
	require.Equal(t, matchmaking.MatchFound, q.Status(t, "c"))
}

// A deindexed ticket is in no queue, and can be read until its life ends, for at most as long as after that, or until
// it is cancelled or deleted.
func deindex(t *testing.T, q *Queue) {
	q.Add(t, "waiting", "held", "cancelled", "deleted", "assigned")
	q.AddShort(t, "short")
	waiting := q.Get(t, "waiting")
	q.Hold(t, "token", "held", "assigned")
	q.AssignOne(t, "token", "m1", "assigned")
	for range 2 {
		for _, id := range []string{"waiting", "held", "cancelled", "deleted", "short"} {
			require.NoError(t, q.DeindexID(t.Context(), id), id)
		}
		require.ErrorIs(t, q.DeindexID(t.Context(), "assigned"), matchmaking.ErrTicketMatched)
		require.ErrorIs(t, q.DeindexID(t.Context(), "nobody"), matchmaking.ErrNoTicket)
	}
	require.Equal(t, matchmaking.QueueState{Matched: 1, Outgoing: q.counts(t).Outgoing, Cancelled: 5}, q.counts(t))
	require.Equal(t, []string{"waiting", "held"}, q.ClaimIDs(t, "another", "waiting", "held").NotWaiting)
	waiting.Status, waiting.Deindexed = matchmaking.Cancelled, true
	kept := q.Get(t, "waiting")
	require.WithinDuration(t, waiting.CreateTime.Add(LongKeep), kept.Expires, LongKeep, "its life is shorter now")
	waiting.Expires = kept.Expires
	require.Equal(t, waiting, kept)
	require.True(t, q.Get(t, "held").Deindexed)
	found, created := q.make(t, q.Request("waiting"))
	require.False(t, created)
	require.Equal(t, waiting, found)

	for range 2 {
		require.NoError(t, q.CancelID(t.Context(), "cancelled"))
		require.NoError(t, q.DeleteID(t.Context(), "deleted"))
		for _, id := range []string{"cancelled", "deleted"} {
			require.NoError(t, q.DeindexID(t.Context(), id))
			ended := q.Get(t, id)
			require.Equal(t, matchmaking.Cancelled, ended.Status, id)
			require.False(t, ended.Deindexed, id)
		}
	}
	require.Eventually(t, func() bool { return !q.Get(t, "short").Deindexed }, storagetest.Patience, Shortest/10)
	require.Equal(t, matchmaking.Cancelled, q.Status(t, "short"))
}

// A waiting ticket is cancelled, an assigned one is removed, and one that has ended otherwise stays.
func deleteTicket(t *testing.T, q *Queue) {
	q.Add(t, "waiting", "held", "assigned", "other")
	q.Hold(t, "token", "held", "assigned", "other")
	q.AssignOne(t, "token", "m1", "assigned", "other")
	outgoing := q.counts(t).Outgoing
	for range 2 {
		for _, id := range []string{"waiting", "held", "assigned", "nobody"} {
			require.NoError(t, q.DeleteID(t.Context(), id), id)
		}
	}
	require.Equal(t, matchmaking.Cancelled, q.Status(t, "waiting"))
	require.Equal(t, matchmaking.Cancelled, q.Status(t, "held"))
	q.requireNoTicket(t, "assigned")
	require.Equal(t, matchmaking.MatchFound, q.Status(t, "other"))
	require.Equal(t, matchmaking.QueueState{Outgoing: outgoing, Matched: 2, Cancelled: 2}, q.counts(t),
		"its message is still sent")
	require.Empty(t, q.AssignOne(t, "token", "m1", "assigned", "other").Entries, "a repeat finds the match")
	q.Add(t, "assigned")
	require.Equal(t, matchmaking.Searching, q.Status(t, "assigned"), "the ID is free")
	require.NoError(t, q.CancelID(t.Context(), "assigned"))
	require.Equal(t, matchmaking.Cancelled, q.Status(t, "assigned"), "nothing of the earlier ticket is left")
}

func renewDoesNotRevive(t *testing.T, q *Queue) {
	q.AddShort(t, "a")
	q.Expires(t, "a")
	require.NoError(t, q.Renew(t.Context(), q.Name, []string{"a"}))
	require.NoError(t, q.CancelID(t.Context(), "a"))
	require.Equal(t, matchmaking.Expired, q.Status(t, "a"))

	for _, removed := range []int{1, 0} {
		swept, err := q.Sweep(t.Context(), q.Name, []string{"a"}, 10)
		require.NoError(t, err)
		require.Equal(t, matchmaking.Swept{Removed: removed}, swept)
		require.Equal(t, matchmaking.Expired, q.Status(t, "a"))
	}
}
