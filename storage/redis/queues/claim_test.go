package queues

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
)

func TestQueueClaim(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.create(t, "a", "b", "c", "d")
		require.NoError(t, h.cancel(t.Context(), "d"))
		first := h.claim(t, "one", "b", "d", "nobody", "a")
		require.Equal(t, []string{"b", "a"}, first.IDs)
		require.Equal(t, []string{"d", "nobody"}, first.Gone)
		require.Empty(t, first.Held)
		require.Equal(t, first.Now.Truncate(time.Millisecond).Add(longHold), first.Deadline)
		require.Equal(t, matchmaking.Pending, h.status(t, "a"))

		second := h.claim(t, "two", "a", "b", "c")
		require.Equal(t, []string{"c"}, second.IDs)
		require.Equal(t, map[string]time.Time{"a": first.Deadline, "b": first.Deadline}, second.Held)
		require.Empty(t, second.Gone)

		again := h.claim(t, "one", "a", "b")
		require.Equal(t, []string{"a", "b"}, again.IDs, "the same token holds them again")
		require.False(t, again.Deadline.Before(first.Deadline))
		require.Equal(t, again.Deadline, h.claim(t, "two", "a").Held["a"], "until the new deadline")
		k := h.k()
		require.InDelta(t, (24*time.Hour + longHold).Milliseconds(), h.count(t, "PTTL", k.claims()), 60_000)
		require.InDelta(t, (24*time.Hour + longHold).Milliseconds(), h.count(t, "PTTL", k.proposed()), 60_000)
	})
}

func TestQueueClaimOfTheOldest(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		ids := numbered("t", 250)
		h.create(t, ids...)
		oldest := func(token string, limit int) []string {
			claimed, err := h.Claim(t.Context(), matchmaking.ClaimRequest{Queue: h.queue, Token: token, Hold: longHold, Limit: limit})
			require.NoError(t, err)
			require.Empty(t, claimed.Held)
			require.Empty(t, claimed.Gone)
			return claimed.IDs
		}
		require.Equal(t, ids[:3], oldest("one", 3))
		require.Equal(t, ids[3:203], oldest("two", 200))
		require.Equal(t, ids[203:205], oldest("three", 2), "more than a page is held")
		require.Equal(t, ids[205:], oldest("four", 1000))
		require.Empty(t, oldest("five", 10))
		require.Empty(t, oldest("six", 0))
		require.NoError(t, h.Release(t.Context(), h.queue, "two", ids[100:101]))
		require.Equal(t, ids[100:101], oldest("five", 10))
	})
}

func TestQueueClaimOfMoreThanAScriptTakes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		ids := numbered("t", 2*maxIDs+1)
		h.create(t, ids[0], ids[maxIDs], ids[2*maxIDs])
		claimed := h.claim(t, "one", ids...)
		require.Equal(t, []string{ids[0], ids[maxIDs], ids[2*maxIDs]}, claimed.IDs)
		require.Len(t, claimed.Gone, len(ids)-3)
		require.NoError(t, h.Renew(t.Context(), h.queue, ids))
		require.NoError(t, h.Release(t.Context(), h.queue, "one", ids))
		require.Equal(t, matchmaking.Searching, h.status(t, ids[2*maxIDs]))
	})
}

// A claim that isn't used ends by itself.
func TestQueueClaimIsTakenOver(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.create(t, "a", "b")
		short := matchmaking.ClaimRequest{Queue: h.queue, Token: "dead", Hold: shortest, IDs: []string{"a", "b"}}
		claimed, err := h.Claim(t.Context(), short)
		require.NoError(t, err)
		var taken matchmaking.Claimed
		require.Eventually(t, func() bool {
			taken = h.claim(t, "heir", "a")
			require.True(t, len(taken.IDs) == 0 || !taken.Now.Before(claimed.Deadline), "not before the deadline")
			return len(taken.IDs) == 1
		}, rig.Patience, shortest/10)
		require.Equal(t, matchmaking.Searching, h.status(t, "b"))

		outcomes := h.assign(t.Context(), "dead", h.match("m1", "a", "b"))
		require.NoError(t, outcomes[0].Err)
		require.Equal(t, []matchmaking.Conflict{{ID: "a", Reason: "claim"}, {ID: "b", Reason: "claim"}}, outcomes[0].Conflicts)
		require.NoError(t, h.Release(t.Context(), h.queue, "dead", []string{"a", "b"}))
		require.Equal(t, matchmaking.Pending, h.status(t, "a"), "another token's claim can't be released")
		h.assignOne(t, "heir", "m2", "a")
	})
}

func TestQueueRelease(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.create(t, "a", "b", "c")
		h.hold(t, "one", "a", "b")
		h.hold(t, "two", "c")
		for range 2 {
			require.NoError(t, h.Release(t.Context(), h.queue, "one", []string{"a", "c", "nobody"}))
		}
		require.NoError(t, h.Release(t.Context(), h.queue, "one", nil))
		require.Equal(t, matchmaking.Searching, h.status(t, "a"))
		require.Equal(t, matchmaking.Pending, h.status(t, "b"))
		require.Equal(t, matchmaking.Pending, h.status(t, "c"))
		require.Equal(t, 2, h.count(t, "HLEN", h.k().claims()))
		h.hold(t, "two", "a", "c")
	})
}

func TestQueueSweep(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.create(t, "stays")
		for _, id := range []string{"a", "b", "c"} {
			r := h.request(id)
			r.TTL = shortest
			_, _, err := h.Create(t.Context(), r)
			require.NoError(t, err)
		}
		h.hold(t, "token", "b")
		k := h.k()
		sweep := func(limit int, told ...string) matchmaking.Swept {
			swept, err := h.Sweep(t.Context(), h.queue, told, limit)
			require.NoError(t, err)
			return swept
		}
		require.Eventually(t, func() bool { return len(sweep(10).Expired) == 3 }, rig.Patience, shortest/10)
		require.Equal(t, matchmaking.Swept{Expired: []string{"a", "b"}}, sweep(2))
		require.Equal(t, 4, h.count(t, "ZCARD", k.waiting()), "nobody was told of them yet")
		require.Equal(t, matchmaking.Swept{Removed: 2, Expired: []string{"c"}}, sweep(2, "a", "b", "stays", "nobody"))
		require.Equal(t, matchmaking.Swept{Expired: []string{"c"}}, sweep(2, "a", "b"), "a repeat")
		require.Equal(t, matchmaking.Swept{Removed: 1}, sweep(2, "c"))
		require.Equal(t, 1, h.count(t, "ZCARD", k.waiting()))
		require.Equal(t, 1, h.count(t, "ZCARD", k.expiries()))
		require.Equal(t, 0, h.count(t, "EXISTS", k.proposed()))
		require.Equal(t, 0, h.count(t, "EXISTS", k.claims()))
		require.Equal(t, 3, h.count(t, "HGET", k.stats(), "expired"))
		outcomes := h.assign(t.Context(), "token", h.match("m1", "b"))
		require.Equal(t, []matchmaking.Conflict{{ID: "b", Reason: "gone"}}, outcomes[0].Conflicts)
	})
}

// Only who has the lease claims, also after the lease has ended by itself.
func TestQueueLease(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		claim := func(fence uint64) error {
			r := matchmaking.ClaimRequest{Queue: h.queue, Token: "token", Fence: fence, Hold: longHold, IDs: []string{"a"}}
			return rig.ErrorOf(h.Claim(t.Context(), r))
		}
		h.create(t, "a")
		require.ErrorIs(t, claim(1), lease.ErrLost, "nobody has it")
		require.NoError(t, h.lead(t.Context(), "one", shortest))
		one := h.fence
		require.Eventually(t, func() bool { return claim(one) != nil }, rig.Patience, shortest/10)
		require.ErrorIs(t, claim(one), lease.ErrLost)
		require.NoError(t, h.cancel(t.Context(), "a"))
		h.create(t, "b")
		require.NoError(t, h.lead(t.Context(), "two", longTTL))
		require.ErrorIs(t, claim(one), lease.ErrLost)
		require.NoError(t, claim(h.fence))
		require.ErrorIs(t, h.keepLease(t.Context(), "one"), lease.ErrLost)
		require.NoError(t, h.resign(t.Context(), "one"))
		require.NoError(t, h.keepLease(t.Context(), "two"))
		require.NoError(t, h.resign(t.Context(), "two"))
		require.ErrorIs(t, claim(h.fence), lease.ErrLost)
	})
}

// The claims of earlier directors end when the one that has the lease says so, and only those.
func TestQueueTakeOver(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.create(t, "a", "b", "c", "d", "e")
		h.hold(t, "dead.7", "a")
		h.hold(t, "older.1", "b")
		h.hold(t, "somebody", "d")
		ids := []string{"a", "b", "c", "d", "e", "none"}
		_, err := h.TakeOver(t.Context(), h.queue, 1, ids)
		require.ErrorIs(t, err, lease.ErrLost)
		require.Equal(t, matchmaking.Pending, h.status(t, "a"))
		require.NoError(t, h.lead(t.Context(), "boss", time.Hour))
		h.hold(t, h.claimToken(), "c")
		for _, want := range [][]string{{"a", "b"}, nil} {
			freed, err := h.TakeOver(t.Context(), h.queue, h.fence, ids)
			require.NoError(t, err)
			require.Equal(t, want, freed)
		}
		require.Equal(t, matchmaking.Searching, h.status(t, "a"))
		require.Equal(t, matchmaking.Pending, h.status(t, "c"))
		require.Equal(t, matchmaking.Pending, h.status(t, "d"))
		o := h.assign(t.Context(), "dead.7", h.match("m1", "a"))
		require.Equal(t, []matchmaking.Conflict{{ID: "a", Reason: matchmaking.ConflictClaim}}, o[0].Conflicts)
	})
}
