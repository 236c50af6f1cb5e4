package queues

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/queuetest"
)

// Properties that the conformance suite can't check: when keys expire, and that ended tickets leave nothing behind.
func TestLivesOfKeys(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		const slack, day = 60_000, 24 * time.Hour
		k := h.k()
		ends := func(life time.Duration, keys ...string) {
			t.Helper()
			for _, key := range keys {
				require.InDelta(t, life.Milliseconds(), h.count(t, "PTTL", key), slack, key)
			}
		}
		h.Add(t, "a", "b", "c", "d")
		ends(queuetest.LongTTL+queuetest.LongKeep, k.ticket("a"))
		ends(day+queuetest.LongTTL, k.waiting(), k.expiries(), k.changes(), k.listening())
		h.Hold(t, "token", "b", "c", "d")
		ends(day+queuetest.LongHold, k.claims(), k.proposed())
		require.NoError(t, h.CancelID(t.Context(), "a"))
		require.ErrorIs(t, h.CancelID(t.Context(), "nobody"), matchmaking.ErrNoTicket)
		require.Equal(t, 0, h.count(t, "EXISTS", k.ticket("nobody")))
		ends(queuetest.LongKeep, k.ticket("a"))
		h.AssignOne(t, "token", "m1", "b", "c")
		ends(queuetest.LongKeep, k.ticket("b"), k.assignment("b"))
		require.Equal(t, h.count(t, "PEXPIRETIME", k.ticket("b")), h.count(t, "PEXPIRETIME", k.assignment("b")))
		ends(day, k.outbox(), k.matched(), k.stats())

		r := h.Request("e")
		require.NoError(t, storagetest.ErrorOf(h.Undo(t.Context(), h.Name, "e", r.Attempt)))
		ends(matchmaking.UndoneFor, k.ticket("e"))
		for range 20 {
			require.NoError(t, storagetest.ErrorOf2(h.Create(t.Context(), h.Request("f"))))
		}
		require.Less(t, h.count(t, "STRLEN", k.ticket("f")), 500, "attempts are bounded")
		require.NoError(t, h.CancelID(t.Context(), "d"))
		require.NoError(t, h.CancelID(t.Context(), "f"))
		for _, key := range []string{k.waiting(), k.expiries(), k.proposed(), k.claims(), k.listening()} {
			require.Equal(t, 0, h.count(t, "EXISTS", key), key)
		}
		require.NoError(t,
			storagetest.ErrorOf(h.PutDefinition(t.Context(),
				matchmaking.PutRequest{Queue: h.Name, Definition: []byte("{}"), Max: 1})))
		require.Equal(t, -1, h.count(t, "PTTL", definitionsKey(h.store.conn.Prefix())), "definitions stay")
	})
}

// TestQueueTicketsOutOfTheQueueEnd: maxTickets doesn't count what was taken out of the queue, so that its key ends
// soon, and no call prolongs it.
func TestQueueTicketsOutOfTheQueueEnd(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		const slack, day = 60_000, 24 * time.Hour
		unlimited := matchmaking.Unlimited.Std()
		for id, v := range map[string]struct{ ttl, keep, want, cancelled time.Duration }{
			"long life": {2 * time.Hour, 10 * time.Minute, 20 * time.Minute, 10 * time.Minute},
			"long keep": {time.Hour, 3 * time.Hour, 4 * time.Hour, 3 * time.Hour},
			"longer":    {time.Hour, 9 * day, time.Hour + day, day},
			"unlimited": {unlimited, unlimited, 2 * day, day},
		} {
			id = strings.ReplaceAll(id, " ", "-")
			key := h.k().ticket(id)
			r := h.Request(id)
			r.TTL, r.Keep = v.ttl, v.keep
			require.NoError(t, storagetest.ErrorOf2(h.Create(t.Context(), r)))
			require.NoError(t, h.DeindexID(t.Context(), id))
			ends := h.count(t, "PTTL", key)
			require.InDelta(t, v.want.Milliseconds(), ends, slack, id)
			found := h.Get(t, id)
			require.True(t, found.Deindexed, id)
			require.WithinDuration(t, found.CreateTime.Add(min(v.ttl, v.keep, day)), found.Expires, time.Minute, id)

			require.NoError(t, h.do(t, "PEXPIRE", key, "90000").Error()) // as if its life had ended before
			require.False(t, v.cancelled > 2*time.Minute && h.Get(t, id).Deindexed, id)
			require.NoError(t, h.Cancel(t.Context(), matchmaking.CancelRequest{Queue: h.Name, ID: id, Keep: v.keep}))
			require.NoError(t, h.DeleteID(t.Context(), id))
			require.LessOrEqual(t, h.count(t, "PTTL", key), 90_000, id)
			require.False(t, h.Get(t, id).Deindexed, id)

			for _, remove := range []func(id string) error{
				func(id string) error { return h.DeleteID(t.Context(), id) },
				func(id string) error {
					return h.Cancel(t.Context(), matchmaking.CancelRequest{Queue: h.Name, ID: id, Keep: v.keep})
				},
			} {
				r.ID, r.Attempt = ulid.Make().String(), ulid.Make().String()
				require.NoError(t, storagetest.ErrorOf2(h.Create(t.Context(), r)))
				require.NoError(t, remove(r.ID))
				require.InDelta(t, v.cancelled.Milliseconds(), h.count(t, "PTTL", h.k().ticket(r.ID)), slack, id)
			}
		}
	})
}

func TestQueueRenew(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.Add(t, "a", "b", "c")
		require.NoError(t, h.CancelID(t.Context(), "c"))
		k := h.k()
		created := h.Get(t, "a")
		// as if half of its life had passed
		soon := strconv.FormatInt(created.Expires.Add(-queuetest.LongTTL/2).UnixMilli(), 10)
		require.NoError(t, h.do(t, "ZADD", k.expiries(), soon, "a").Error())
		require.NoError(t, h.do(t, "PEXPIREAT", k.ticket("a"), soon).Error())
		require.NoError(t, h.do(t, "PEXPIRE", k.waiting(), "1000").Error())
		require.NoError(t, h.do(t, "PEXPIRE", k.listening(), "1000").Error())
		for range 2 {
			require.NoError(t, h.Renew(t.Context(), h.Name, []string{"a", "b", "c", "nobody"}))
		}
		require.NoError(t, h.Renew(t.Context(), h.Name, nil))
		renewed := h.Get(t, "a")
		require.False(t, renewed.Expires.Before(created.Expires))
		require.Equal(t, created.CreateTime, renewed.CreateTime)
		require.Equal(t, renewed.Expires.Add(queuetest.LongKeep).UnixMilli(),
			int64(h.count(t, "PEXPIRETIME", k.ticket("a"))))
		require.Greater(t, h.count(t, "PTTL", k.waiting()), 1000)
		require.Greater(t, h.count(t, "PTTL", k.listening()), 1000)
		require.Equal(t, matchmaking.Cancelled, h.Status(t, "c"))
		require.Equal(t, 2, h.count(t, "ZCARD", k.expiries()))
		require.Equal(t, 0, h.count(t, "EXISTS", k.ticket("nobody")))
	})
}

func TestQueueRenewEndsWithTheTicketsLife(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		r := h.Request("a")
		r.TTL, r.Life = queuetest.LongTTL, queuetest.LongTTL+time.Minute
		ticket, _, err := h.Create(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, r.Life, ticket.Life)
		k := h.k()
		created := ticket.CreateTime.Add(-5 * time.Minute) // as if that much of it had passed
		value, err := h.do(t, "GET", k.ticket("a")).ToString()
		require.NoError(t, err)
		_, rest, _ := strings.Cut(value, " ")
		old := "S" + strconv.FormatInt(created.UnixMicro(), 10) + " " + rest
		require.NoError(t, h.do(t, "SET", k.ticket("a"), old, "KEEPTTL").Error())

		require.NoError(t, h.Renew(t.Context(), h.Name, []string{"a"}))
		end := created.Truncate(time.Millisecond).Add(r.Life)
		require.Equal(t, end, h.Get(t, "a").Expires, "it isn't renewed for longer than it has")
		require.Equal(t, end.Add(queuetest.LongKeep).UnixMilli(), int64(h.count(t, "PEXPIRETIME", k.ticket("a"))))
	})
}

func TestQueueClaimOfMoreThanAScriptTakes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		ids := storagetest.Numbered("t", 2*maxIDs+1)
		h.Add(t, ids[0], ids[maxIDs], ids[2*maxIDs])
		claimed := h.ClaimIDs(t, "one", ids...)
		require.Equal(t, []string{ids[0], ids[maxIDs], ids[2*maxIDs]}, claimed.IDs)
		require.Len(t, claimed.NotWaiting, len(ids)-3)
		require.NoError(t, h.Renew(t.Context(), h.Name, ids))
		require.NoError(t, h.Release(t.Context(), h.Name, "one", ids))
		require.Equal(t, matchmaking.Searching, h.Status(t, ids[2*maxIDs]))
	})
}

// A match may be of any size for the script. Permanent refusals of Redis are distinguished from temporary ones.
func TestQueueAssignOfManyTickets(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		ids := storagetest.Numbered("t", 5000)
		h.Add(t, ids...)
		require.Len(t, h.ClaimIDs(t, "token", ids...).IDs, len(ids))
		outcome := h.AssignOne(t, "token", "m", ids...)
		require.Len(t, outcome.Entries, len(ids))
		require.Equal(t, matchmaking.MatchFound, h.Status(t, ids[len(ids)-1]))

		h.Add(t, "a")
		h.Hold(t, "token", "a")
		require.NoError(t, h.do(t, "DEL", h.k().claims()).Error())
		require.NoError(t, h.do(t, "LPUSH", h.k().claims(), "not a claim").Error())
		outcome = h.AssignMatches(t.Context(), "token", h.Match("m2", "a"))[0]
		require.ErrorIs(t, outcome.Err, matchmaking.ErrNotAssigned)
		require.Equal(t, matchmaking.Pending, h.Status(t, "a"))
	})
}

// TestQueueForgetsTicketsWithChannels checks that the tickets with channels are removed from their set when they leave,
// in any way.
func TestQueueForgetsTicketsWithChannels(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		short, undone := h.Request("short"), h.Request("undone")
		short.TTL = queuetest.Shortest
		for _, r := range []matchmaking.CreateRequest{short, undone} {
			require.NoError(t, storagetest.ErrorOf2(h.Create(t.Context(), r)))
		}
		h.Add(t, "cancelled", "assigned", "released", "stays")
		h.AddQuiet(t, "quiet")
		k := h.k()
		require.Equal(t, 6, h.count(t, "SCARD", k.listening()))
		require.NoError(t, h.CancelID(t.Context(), "cancelled"))
		require.NoError(t, storagetest.ErrorOf(h.Undo(t.Context(), h.Name, "undone", undone.Attempt)))
		h.Hold(t, "token", "assigned", "released", "quiet")
		h.AssignOne(t, "token", "m1", "assigned", "quiet")
		require.NoError(t, h.Release(t.Context(), h.Name, "token", []string{"released"}))
		storetest.WaitFor(t, "the ticket to be swept", func() bool {
			swept, err := h.Sweep(t.Context(), h.Name, []string{"short"}, 10)
			require.NoError(t, err)
			return swept.Removed == 1
		})
		remaining, err := h.do(t, "SMEMBERS", k.listening()).AsStrSlice()
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"released", "stays"}, remaining)
	})
}
