package queues

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
)

func TestQueueCreate(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		before := time.Now().Add(-time.Second)
		r := h.request("a")
		r.Spec.SearchFields.DoubleArgs["odd"] = math.Inf(-1)
		r.Spec.Criteria = []matchmaking.Criterion{{Name: "skill", MinValue: 1, MaxValue: 2}}
		r.Spec.Extensions = map[string]json.RawMessage{"x": json.RawMessage(`{"a":[1,2]}`)}
		made, created, err := h.Create(t.Context(), r)
		require.NoError(t, err)
		require.True(t, created)
		require.Equal(t, "a", made.ID)
		require.Equal(t, h.queue, made.Queue)
		require.Equal(t, matchmaking.Searching, made.Status)
		require.Equal(t, r.Spec, made.Spec)
		require.Equal(t, longTTL, made.TTL)
		require.True(t, made.CreateTime.After(before))
		require.Equal(t, made.CreateTime.Truncate(time.Millisecond).Add(longTTL), made.Expires)

		require.Equal(t, made, h.ticket(t, "a"))
		again, created, err := h.Create(t.Context(), h.request("a"))
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, made, again, "a repeat gives the ticket as it was made first")

		k := h.k()
		require.Equal(t, 1, h.count(t, "ZCARD", k.waiting()))
		require.Equal(t, 1, h.count(t, "XLEN", k.changes()), "the repeat is no change")
		score, err := h.do(t, "ZSCORE", k.waiting(), "a").AsFloat64()
		require.NoError(t, err)
		require.Equal(t, made.CreateTime.UnixMicro(), int64(score))
		left := h.count(t, "PTTL", k.ticket("a"))
		require.InDelta(t, (longTTL + longKeep).Milliseconds(), left, 60_000)
		for _, key := range []string{k.waiting(), k.expiries(), k.changes()} {
			require.InDelta(t, (24*time.Hour + longTTL).Milliseconds(), h.count(t, "PTTL", key), 60_000, key)
		}
	})
}

func TestQueueCreateFindsATicketInEveryStatus(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.create(t, "searching", "pending", "cancelled", "matched")
		h.hold(t, "token", "pending", "matched")
		require.NoError(t, h.cancel(t.Context(), "cancelled"))
		h.assignOne(t, "token", "m1", "matched")
		r := h.request("expired")
		r.TTL = shortest
		_, _, err := h.Create(t.Context(), r)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return h.status(t, "expired") == matchmaking.Expired }, rig.Patience, shortest/10)

		for id, status := range map[string]matchmaking.Status{
			"searching": matchmaking.Searching, "pending": matchmaking.Pending, "cancelled": matchmaking.Cancelled,
			"matched": matchmaking.MatchFound, "expired": matchmaking.Expired,
		} {
			found, created, err := h.Create(t.Context(), h.request(id))
			require.NoError(t, err, id)
			require.False(t, created, id)
			require.Equal(t, status, found.Status)
			require.Equal(t, spec(id), found.Spec)
			require.Equal(t, h.ticket(t, id), found)
		}
		matched := h.ticket(t, "matched")
		require.Equal(t, "m1", matched.MatchID)
		require.Equal(t, &matchmaking.Assignment{
			TicketID: "matched", MatchID: "m1", Queue: h.queue, Connection: "127.0.0.1:7777",
		}, matched.Assignment)
		require.NotContains(t, h.claim(t, "other").IDs, "expired", "what has expired can't be claimed before it is swept")
		_, err = h.Ticket(t.Context(), h.queue, "nobody")
		require.ErrorIs(t, err, matchmaking.ErrNoTicket)
		_, err = h.Ticket(t.Context(), "elsewhere", "searching")
		require.ErrorIs(t, err, matchmaking.ErrNoTicket)
	})
}

func TestQueueFull(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		limited := func(id string) (bool, error) {
			r := h.request(id)
			r.MaxTickets = 2
			_, created, err := h.Create(t.Context(), r)
			return created, err
		}
		h.create(t, "a", "b")
		h.hold(t, "token", "a")
		state, err := h.Describe(t.Context(), h.queue, 0)
		require.NoError(t, err)
		require.Equal(t, []int{1, 1}, []int{state.Searching, state.Pending})
		before := h.dump(t, "c")
		_, err = limited("c")
		require.ErrorIs(t, err, matchmaking.ErrQueueFull)
		require.Equal(t, before, h.dump(t, "c"))
		created, err := limited("a")
		require.NoError(t, err, "a repeat needs no room")
		require.False(t, created)
		require.NoError(t, h.cancel(t.Context(), "a"))
		created, err = limited("c")
		require.NoError(t, err)
		require.True(t, created)
	})
}

func TestQueueCancel(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.create(t, "a", "b", "c")
		h.hold(t, "token", "b", "c")
		for range 2 {
			require.NoError(t, h.cancel(t.Context(), "a"))
			require.NoError(t, h.cancel(t.Context(), "b"))
			require.NoError(t, h.cancel(t.Context(), "nobody"))
		}
		require.Equal(t, matchmaking.Cancelled, h.status(t, "a"))
		require.Equal(t, matchmaking.Cancelled, h.status(t, "b"))
		require.Equal(t, spec("b"), h.ticket(t, "b").Spec)
		k := h.k()
		for _, id := range []string{"a", "b"} {
			for _, key := range []string{k.waiting(), k.expiries(), k.proposed()} {
				require.Error(t, h.do(t, "ZSCORE", key, id).Error(), "%s isn't in %s any more", id, key)
			}
			require.Equal(t, 0, h.count(t, "HEXISTS", k.claims(), id))
			require.InDelta(t, longKeep.Milliseconds(), h.count(t, "PTTL", k.ticket(id)), 30_000)
		}
		require.Equal(t, 0, h.count(t, "EXISTS", k.ticket("nobody")))
		require.Equal(t, 5, h.count(t, "XLEN", k.changes()), "three came, two were cancelled")
		require.Equal(t, 2, h.count(t, "HGET", k.stats(), "cancelled"))

		h.assignOne(t, "token", "m1", "c")
		before := h.dump(t, "c")
		require.ErrorIs(t, h.cancel(t.Context(), "c"), matchmaking.ErrTicketMatched)
		require.Equal(t, before, h.dump(t, "c"))
		require.Equal(t, matchmaking.MatchFound, h.status(t, "c"))
	})
}

func TestQueueRenew(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.create(t, "a", "b", "c")
		require.NoError(t, h.cancel(t.Context(), "c"))
		k := h.k()
		made := h.ticket(t, "a")
		soon := strconv.FormatInt(made.Expires.Add(-longTTL/2).UnixMilli(), 10) // as if half of its life had passed
		require.NoError(t, h.do(t, "ZADD", k.expiries(), soon, "a").Error())
		require.NoError(t, h.do(t, "PEXPIREAT", k.ticket("a"), soon).Error())
		require.NoError(t, h.do(t, "PEXPIRE", k.waiting(), "1000").Error())
		for range 2 {
			require.NoError(t, h.Renew(t.Context(), h.queue, []string{"a", "b", "c", "nobody"}))
		}
		require.NoError(t, h.Renew(t.Context(), h.queue, nil))
		renewed := h.ticket(t, "a")
		require.False(t, renewed.Expires.Before(made.Expires))
		require.Equal(t, made.CreateTime, renewed.CreateTime)
		require.Equal(t, renewed.Expires.Add(longKeep).UnixMilli(), int64(h.count(t, "PEXPIRETIME", k.ticket("a"))))
		require.Greater(t, h.count(t, "PTTL", k.waiting()), 1000)
		require.Equal(t, matchmaking.Cancelled, h.status(t, "c"))
		require.Equal(t, 2, h.count(t, "ZCARD", k.expiries()))
		require.Equal(t, 0, h.count(t, "EXISTS", k.ticket("nobody")))
	})
}

func TestQueueRenewEndsWithTheTicketsLife(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		r := h.request("a")
		r.TTL, r.Life = longTTL, longTTL+time.Minute
		made, _, err := h.Create(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, r.Life, made.Life)
		k := h.k()
		created := made.CreateTime.Add(-5 * time.Minute) // as if so much of it had passed
		value, err := h.do(t, "GET", k.ticket("a")).ToString()
		require.NoError(t, err)
		_, rest, _ := strings.Cut(value, " ")
		old := "S" + strconv.FormatInt(created.UnixMicro(), 10) + " " + rest
		require.NoError(t, h.do(t, "SET", k.ticket("a"), old, "KEEPTTL").Error())

		require.NoError(t, h.Renew(t.Context(), h.queue, []string{"a"}))
		end := created.Truncate(time.Millisecond).Add(r.Life)
		require.Equal(t, end, h.ticket(t, "a").Expires, "it isn't renewed for longer than it has")
		require.Equal(t, end.Add(longKeep).UnixMilli(), int64(h.count(t, "PEXPIRETIME", k.ticket("a"))))
	})
}

func TestQueueRenewDoesNotRevive(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		r := h.request("a")
		r.TTL = shortest
		_, _, err := h.Create(t.Context(), r)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return h.status(t, "a") == matchmaking.Expired }, rig.Patience, shortest/10)
		require.NoError(t, h.Renew(t.Context(), h.queue, []string{"a"}))
		require.NoError(t, h.cancel(t.Context(), "a"))
		require.Equal(t, matchmaking.Expired, h.status(t, "a"))

		swept, err := h.Sweep(t.Context(), h.queue, []string{"a"}, 10)
		require.NoError(t, err)
		require.Equal(t, 1, swept.Removed)
		require.Equal(t, matchmaking.Expired, h.status(t, "a"))
		require.Equal(t, 0, h.count(t, "ZCARD", h.k().waiting()))
		swept, err = h.Sweep(t.Context(), h.queue, []string{"a"}, 10)
		require.NoError(t, err)
		require.Zero(t, swept)
	})
}

// undo undoes an attempt to make the ticket "a", or all attempts with an epoch, and reports whether there is a ticket.
func (h *hall) undo(t *testing.T, attempt string) (there bool) {
	t.Helper()
	there, err := h.Undo(t.Context(), h.queue, "a", attempt)
	require.NoError(t, err)
	return there
}

func TestQueueUndo(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		first, second := h.request("a"), h.request("a")
		made, created, err := h.Create(t.Context(), first)
		require.NoError(t, err)
		require.True(t, created)
		again, created, err := h.Create(t.Context(), first)
		require.NoError(t, err)
		require.True(t, created, "the same attempt, whose answer was lost")
		require.Equal(t, made, again)

		require.True(t, h.undo(t, second.Attempt))
		require.Equal(t, matchmaking.Searching, h.status(t, "a"), "another attempt's")
		_, created, err = h.Create(t.Context(), second)
		require.NoError(t, err)
		require.False(t, created)
		require.True(t, h.undo(t, first.Attempt))
		require.Equal(t, matchmaking.Searching, h.status(t, "a"), "the later attempt has been answered")
		require.Equal(t, made, h.ticket(t, "a"))

		h.hold(t, "token", "a")
		for range 2 {
			require.False(t, h.undo(t, second.Attempt))
		}
		_, err = h.Ticket(t.Context(), h.queue, "a")
		require.ErrorIs(t, err, matchmaking.ErrNoTicket)
		for _, key := range []string{h.k().waiting(), h.k().expiries(), h.k().proposed(), h.k().claims()} {
			require.Equal(t, 0, h.count(t, "EXISTS", key), key)
		}
		require.ErrorIs(t, errorOf2(h.Create(t.Context(), second)), fault.ErrUnavailable, "a copy of it that was on its way")
		_, created, err = h.Create(t.Context(), h.request("a"))
		require.NoError(t, err)
		require.True(t, created)
	})
}

// An attempt that arrives after it was undone makes no ticket. Others do.
func TestQueueUndoComesFirst(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		late := []matchmaking.CreateRequest{h.request("a"), h.request("a")}
		for _, r := range late {
			require.False(t, h.undo(t, r.Attempt))
		}
		require.NoError(t, h.cancel(t.Context(), "a"))
		require.NoError(t, h.Renew(t.Context(), h.queue, []string{"a"}))
		for _, r := range late {
			require.ErrorIs(t, errorOf2(h.Create(t.Context(), r)), fault.ErrUnavailable)
		}
		_, err := h.Ticket(t.Context(), h.queue, "a")
		require.ErrorIs(t, err, matchmaking.ErrNoTicket)
		require.Equal(t, 0, h.count(t, "EXISTS", h.k().waiting()))
		left := time.Duration(h.count(t, "PTTL", h.k().ticket("a"))) * time.Millisecond
		require.Greater(t, left, matchmaking.UndoneFor-rig.Patience)
		require.LessOrEqual(t, left, matchmaking.UndoneFor)

		made, created, err := h.Create(t.Context(), h.request("a"))
		require.NoError(t, err)
		require.True(t, created)
		require.Equal(t, made, h.ticket(t, "a"))
		seen, err := h.Snapshot(t.Context(), h.queue)
		require.NoError(t, err)
		require.Len(t, seen.Tickets, 1)
	})
}

// An attempt whose script arrives after a later one has made the ticket, and been answered, takes that ticket from nobody
// when it is undone.
func TestQueueUndoOfALateAttempt(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		late, answered := h.request("a"), h.request("a")
		made, created, err := h.Create(t.Context(), answered)
		require.NoError(t, err)
		require.True(t, created)
		for range 2 {
			_, created, err = h.Create(t.Context(), late)
			require.NoError(t, err)
			require.False(t, created)
			require.True(t, h.undo(t, late.Attempt))
			require.Equal(t, made, h.ticket(t, "a"))
		}
		require.False(t, h.undo(t, answered.Attempt))

		var attempts []string
		for range 20 {
			r := h.request("b")
			require.NoError(t, errorOf2(h.Create(t.Context(), r)))
			attempts = append(attempts, r.Attempt)
		}
		require.Less(t, h.count(t, "STRLEN", h.k().ticket("b")), 500, "attempts are bounded")
		for _, attempt := range attempts {
			there, err := h.Undo(t.Context(), h.queue, "b", attempt)
			require.NoError(t, err)
			require.True(t, there, "one that isn't kept may have been answered")
		}
		require.Equal(t, matchmaking.Searching, h.status(t, "b"))
	})
}

func TestQueueUndoLeavesWhatHasEnded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		r := h.request("a")
		require.NoError(t, errorOf2(h.Create(t.Context(), r)))
		h.create(t, "b")
		h.hold(t, "token", "a", "b")
		require.Empty(t, h.assignOne(t, "token", "m", "a", "b").Conflicts)
		require.True(t, h.undo(t, r.Attempt))
		require.Equal(t, matchmaking.MatchFound, h.status(t, "a"))
	})
}

// Attempts in one life of a ticket's channel make no ticket after it was found that there is none. Those in another do.
func TestQueueEpochs(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		request := func(epoch ulid.ULID) matchmaking.CreateRequest {
			r := h.request("a")
			r.Epoch = epoch
			return r
		}
		create := func(epoch ulid.ULID) error { return errorOf2(h.Create(t.Context(), request(epoch))) }
		find := func(epoch ulid.ULID) error { return rig.ErrorOf(h.Find(t.Context(), request(epoch))) }
		first, second := ulid.Make(), ulid.Make()
		for range 2 {
			require.ErrorIs(t, find(first), matchmaking.ErrNoTicket)
		}
		require.False(t, h.undo(t, second.String()))
		require.ErrorIs(t, create(first), matchmaking.ErrUndone)
		require.ErrorIs(t, create(second), matchmaking.ErrUndone)

		third := ulid.Make()
		require.NoError(t, create(third))
		require.Equal(t, third, h.ticket(t, "a").Epoch)
		require.NoError(t, find(third), "it is there")
		require.True(t, h.undo(t, third.String()), "an epoch takes no ticket out")
		require.Equal(t, matchmaking.Searching, h.status(t, "a"))

		h.hold(t, "token", "a")
		m := h.match("m", "a")
		m.Assignments[0].Epoch, m.Assignments[0].Created = third, h.ticket(t, "a").CreateTime.Add(-time.Microsecond)
		outcome := h.assign(t.Context(), "token", m)[0]
		require.NoError(t, outcome.Err)
		require.Equal(t, []matchmaking.Conflict{{ID: "a", Reason: matchmaking.ConflictGone}}, outcome.Conflicts, "that one is gone")
		m.Assignments[0].Created = h.ticket(t, "a").CreateTime
		require.Empty(t, h.assign(t.Context(), "token", m)[0].Conflicts)
		entries, err := h.Outgoing(t.Context(), h.queue, 0, 10)
		require.NoError(t, err)
		require.Equal(t, third, entries[0].Epoch)
	})
}
