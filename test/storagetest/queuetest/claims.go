package queuetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func claim(t *testing.T, q *Queue) {
	q.Add(t, "a", "b", "c", "d")
	require.NoError(t, q.CancelID(t.Context(), "d"))
	first := q.ClaimIDs(t, "one", "b", "d", "nobody", "a")
	require.Equal(t, []string{"b", "a"}, first.IDs)
	require.Equal(t, []string{"d", "nobody"}, first.NotWaiting)
	require.Empty(t, first.Held)
	require.Equal(t, first.Now.Truncate(time.Millisecond).Add(LongHold), first.Deadline)
	require.Equal(t, matchmaking.Pending, q.Status(t, "a"))

	second := q.ClaimIDs(t, "two", "a", "b", "c")
	require.Equal(t, []string{"c"}, second.IDs)
	require.Equal(t, map[string]time.Time{"a": first.Deadline, "b": first.Deadline}, second.Held)
	require.Empty(t, second.NotWaiting)

	again := q.ClaimIDs(t, "one", "a", "b")
	require.Equal(t, []string{"a", "b"}, again.IDs, "the same token holds them again")
	require.False(t, again.Deadline.Before(first.Deadline))
	require.Equal(t, again.Deadline, q.ClaimIDs(t, "two", "a").Held["a"], "until the new deadline")
}

func claimOfTheOldest(t *testing.T, q *Queue) {
	ids := storagetest.Numbered("t", 250)
	q.Add(t, ids...)
	oldest := func(token string, limit int) []string {
		claimed, err := q.Claim(t.Context(), matchmaking.ClaimRequest{Queue: q.Name, Token: token, Hold: LongHold,
			Limit: limit})
		require.NoError(t, err)
		require.Empty(t, claimed.Held)
		require.Empty(t, claimed.NotWaiting)
		return claimed.IDs
	}
	require.Equal(t, ids[:3], oldest("one", 3))
	require.Equal(t, ids[3:203], oldest("two", 200))
	require.Equal(t, ids[203:205], oldest("three", 2), "more than a page is held")
	require.Equal(t, ids[205:], oldest("four", 1000))
	require.Empty(t, oldest("five", 10))
	require.Empty(t, oldest("six", 0))
	require.NoError(t, q.Release(t.Context(), q.Name, "two", ids[100:101]))
	require.Equal(t, ids[100:101], oldest("five", 10))
}

// An unused claim expires.
func claimIsTakenOver(t *testing.T, q *Queue) {
	q.Add(t, "a", "b")
	short := matchmaking.ClaimRequest{Queue: q.Name, Token: "dead", Hold: Shortest, IDs: []string{"a", "b"}}
	claimed, err := q.Claim(t.Context(), short)
	require.NoError(t, err)
	var taken matchmaking.Claimed
	require.Eventually(t, func() bool {
		taken = q.ClaimIDs(t, "heir", "a")
		require.True(t, len(taken.IDs) == 0 || !taken.Now.Before(claimed.Deadline), "not before the deadline")
		return len(taken.IDs) == 1
	}, storagetest.Patience, Shortest/10)
	require.Equal(t, matchmaking.Searching, q.Status(t, "b"))

	outcomes := q.AssignMatches(t.Context(), "dead", q.Match("m1", "a", "b"))
	require.NoError(t, outcomes[0].Err)
	require.Equal(t, []matchmaking.Conflict{{ID: "a", Reason: "claim", Until: taken.Deadline},
		{ID: "b", Reason: "claim"}}, outcomes[0].Conflicts)
	require.NoError(t, q.Release(t.Context(), q.Name, "dead", []string{"a", "b"}))
	require.Equal(t, matchmaking.Pending, q.Status(t, "a"), "another token's claim can't be released")
	q.AssignOne(t, "heir", "m2", "a")
}

func release(t *testing.T, q *Queue) {
	q.Add(t, "a", "b", "c")
	q.Hold(t, "one", "a", "b")
	q.Hold(t, "two", "c")
	for range 2 {
		require.NoError(t, q.Release(t.Context(), q.Name, "one", []string{"a", "c", "nobody"}))
	}
	require.NoError(t, q.Release(t.Context(), q.Name, "one", nil))
	require.Equal(t, matchmaking.Searching, q.Status(t, "a"))
	require.Equal(t, matchmaking.Pending, q.Status(t, "b"))
	require.Equal(t, matchmaking.Pending, q.Status(t, "c"))
	q.Hold(t, "two", "a", "c")
}

func sweep(t *testing.T, q *Queue) {
	q.Add(t, "stays")
	sweep := func(limit int, notified ...string) matchmaking.Swept {
		swept, err := q.Sweep(t.Context(), q.Name, notified, limit)
		require.NoError(t, err)
		return swept
	}
	expired := int64(3)
	claimed := q.Request("a")
	for claimed.TTL = Shortest; ; claimed.TTL *= 2 { // until it is claimed before it expires
		q.make(t, claimed)
		if len(q.ClaimIDs(t, "token", "a").IDs) == 1 {
			break
		}
		expired++
		require.Equal(t, matchmaking.Swept{Removed: 1}, sweep(2, "a"))
	}
	q.Expires(t, "a")
	q.AddShort(t, "b", "c")
	require.Eventually(t, func() bool { return len(sweep(10).Expired) == 3 }, storagetest.Patience, Shortest/10)
	require.Equal(t, matchmaking.Swept{Expired: []string{"a", "b"}}, sweep(2))
	require.Equal(t, matchmaking.Swept{Removed: 2, Expired: []string{"c"}}, sweep(2, "a", "b", "stays", "nobody"))
	require.Equal(t, matchmaking.Swept{Expired: []string{"c"}}, sweep(2, "a", "b"), "a repeat")
	require.Equal(t, matchmaking.Swept{Removed: 1}, sweep(2, "c"))
	require.Equal(t, matchmaking.QueueState{Searching: 1, Expired: expired}, q.counts(t))
	outcomes := q.AssignMatches(t.Context(), "token", q.Match("m1", "a"))
	require.Equal(t, []matchmaking.Conflict{{ID: "a", Reason: "gone"}}, outcomes[0].Conflicts)
}

// Only the holder of the lease can claim, also after the lease has expired.
func directorsLease(t *testing.T, q *Queue) {
	claim := func(fence uint64) error {
		r := matchmaking.ClaimRequest{Queue: q.Name, Token: "token", Fence: fence, Hold: LongHold, IDs: []string{"a"}}
		return storagetest.ErrorOf(q.Claim(t.Context(), r))
	}
	q.Add(t, "a")
	require.ErrorIs(t, claim(1), lease.ErrLost, "no director holds it")
	require.NoError(t, q.Lead(t.Context(), "one", Shortest))
	fence := q.Fence
	require.Eventually(t, func() bool { return claim(fence) != nil }, storagetest.Patience, Shortest/10)
	require.ErrorIs(t, claim(fence), lease.ErrLost)
	require.NoError(t, q.CancelID(t.Context(), "a"))
	q.Add(t, "b")
	require.NoError(t, q.Lead(t.Context(), "two", LongTTL))
	require.ErrorIs(t, claim(fence), lease.ErrLost)
	require.NoError(t, claim(q.Fence))
	require.ErrorIs(t, q.KeepLease(t.Context(), "one"), lease.ErrLost)
	require.ErrorIs(t, q.Resign(t.Context(), "one"), lease.ErrLost)
	require.NoError(t, q.KeepLease(t.Context(), "two"))
	require.NoError(t, q.Resign(t.Context(), "two"))
	require.ErrorIs(t, claim(q.Fence), lease.ErrLost)
}

// The claims of earlier directors end when the lease holder requests it, and no other claims do.
func takeOver(t *testing.T, q *Queue) {
	q.Add(t, "a", "b", "c", "d", "e")
	q.Hold(t, "7.7", "a")
	q.Hold(t, "8.1", "b")
	q.Hold(t, "somebody", "d")
	ids := []string{"a", "b", "c", "d", "e", "none"}
	require.ErrorIs(t, storagetest.ErrorOf(q.TakeOver(t.Context(), q.Name, 1, ids)), lease.ErrLost)
	require.Equal(t, matchmaking.Pending, q.Status(t, "a"))
	require.NoError(t, q.Lead(t.Context(), "boss", time.Hour))
	q.Hold(t, q.ClaimToken(), "c")
	for _, want := range [][]string{{"a", "b"}, nil} {
		freed, err := q.TakeOver(t.Context(), q.Name, q.Fence, ids)
		require.NoError(t, err)
		require.Equal(t, want, freed)
	}
	require.Equal(t, matchmaking.Searching, q.Status(t, "a"))
	require.Equal(t, matchmaking.Pending, q.Status(t, "c"))
	require.Equal(t, matchmaking.Pending, q.Status(t, "d"))
	o := q.AssignMatches(t.Context(), "7.7", q.Match("m1", "a"))
	require.Equal(t, []matchmaking.Conflict{{ID: "a", Reason: matchmaking.ConflictClaim}}, o[0].Conflicts)
}
