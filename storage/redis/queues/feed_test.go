package queues

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
)

func (h *hall) changes(t testing.TB, after string, limit int) matchmaking.Changes {
	t.Helper()
	found, err := h.Changes(t.Context(), matchmaking.ChangesRequest{Queue: h.queue, After: after, Limit: limit})
	require.NoError(t, err)
	return found
}

func (h *hall) snapshot(t testing.TB) matchmaking.Snapshot {
	t.Helper()
	found, err := h.Snapshot(t.Context(), h.queue)
	require.NoError(t, err)
	return found
}

// told gives changes in short: the ID of who came, with a dash in front of who was cancelled, a plus of who was released.
func told(changes []matchmaking.Change) []string {
	var found []string
	for _, c := range changes {
		switch {
		case c.Added != nil:
			found = append(found, c.Added.ID)
		case c.Released != "":
			found = append(found, "+"+c.Released)
		default:
			found = append(found, "-"+c.Cancelled)
		}
	}
	return found
}

func TestQueueChanges(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		start := h.snapshot(t)
		require.Equal(t, "0-0", start.After)
		require.Empty(t, start.Tickets)
		require.Empty(t, h.changes(t, start.After, 10).Changes)
		h.create(t, "a", "b")
		require.NoError(t, h.cancel(t.Context(), "a"))
		h.hold(t, "token", "b")
		h.assignOne(t, "token", "m1", "b")
		all := h.changes(t, start.After, 10)
		require.Equal(t, []string{"a", "b", "-a"}, told(all.Changes))
		added := *all.Changes[1].Added
		require.Equal(t, spec("b"), added.Spec)
		require.Equal(t, matchmaking.Searching, added.Status)
		found := h.ticket(t, "b")
		require.Equal(t, found.CreateTime, added.CreateTime)
		require.Equal(t, found.CreateTime.Truncate(time.Millisecond).Add(longTTL), added.Expires)
		require.Equal(t, longTTL, added.TTL)

		one := h.changes(t, start.After, 1)
		require.Equal(t, []string{"a"}, told(one.Changes))
		require.Equal(t, []string{"b", "-a"}, told(h.changes(t, one.After, 10).Changes))
		none := h.changes(t, all.After, 10)
		require.Empty(t, none.Changes)
		require.Equal(t, all.After, none.After)
		require.Equal(t, all.After, h.snapshot(t).After)
	})
}

// watch watches the queue until the test ends.
func (h *hall) watch(t *testing.T) <-chan bool {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	nudges, ended := make(chan bool, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		h.Watch(ctx, h.queue, func(free bool) { nudges <- free })
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return nudges
}

func TestQueueWatch(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		nudges := h.watch(t)
		require.True(t, <-nudges, "it begins")
		h.create(t, "a", "b", "c")
		h.hold(t, "rival.1", "b")
		require.NoError(t, h.Release(t.Context(), h.queue, "rival.1", []string{"b"}))
		require.NoError(t, h.cancel(t.Context(), "a"))
		require.NoError(t, h.cancel(t.Context(), "a"))
		for range 5 {
			require.False(t, <-nudges, "something changes")
		}
		require.NoError(t, h.lead(t.Context(), "boss", time.Hour))
		require.NoError(t, h.resign(t.Context(), "rival"))
		h.hold(t, h.claimToken(), "b")
		require.NoError(t, h.Release(t.Context(), h.queue, h.claimToken(), []string{"b"}))
		require.NoError(t, h.resign(t.Context(), "boss"))
		require.True(t, <-nudges, "the direction is free")
		require.Empty(t, nudges, "the director knows what it does itself")
	})
}

// A watch whose connection is cut is told so when it is back.
func TestQueueWatchIsInterrupted(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	h := newHall(t, rig.Connect(t, redis.Options{URL: n.URL()}), n.Client())
	nudges := h.watch(t)
	require.True(t, <-nudges)
	for range 10 {
		require.NoError(t, n.Do(t, "CLIENT", "KILL", "TYPE", "pubsub").Error())
		require.True(t, <-nudges)
	}
}

// The direction of a queue is taken where there is something to do.
func TestQueueCampaign(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		take := func(token string) error { return h.lead(t.Context(), token, time.Hour) }
		require.ErrorIs(t, take("a"), matchmaking.ErrQueueIdle)
		require.Zero(t, h.count(t, "EXISTS", h.k().director()))
		h.create(t, "x")
		require.NoError(t, take("a"))
		first := h.fence
		require.NoError(t, take("a"))
		require.Equal(t, first, h.fence)
		require.ErrorIs(t, take("b"), lease.ErrHeld)
		h.hold(t, "a.1", "x")
		o := h.assignOne(t, "a.1", "m1", "x")
		require.ErrorIs(t, take("b"), lease.ErrHeld)
		require.NoError(t, h.resign(t.Context(), "a"))
		require.NoError(t, take("b"), "an assignment is on its way")
		require.Greater(t, h.fence, first)
		require.NoError(t, h.Delivered(t.Context(), h.queue, o.Entries))
		require.NoError(t, h.resign(t.Context(), "b"))
		require.ErrorIs(t, take("a"), matchmaking.ErrQueueIdle)
	})
}

func TestQueueChangesThatAreLost(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		ask := func(after string, limit int) error {
			return rig.ErrorOf(h.Changes(t.Context(), matchmaking.ChangesRequest{Queue: h.queue, After: after, Limit: limit}))
		}
		k := h.k()
		h.create(t, "a")
		first := h.snapshot(t).After
		h.create(t, "b", "c")
		all := h.changes(t, first, 10)
		require.Equal(t, []string{"b", "c"}, told(all.Changes))
		require.NoError(t, ask("0-0", 10), "nothing was removed yet")

		require.NoError(t, h.do(t, "XTRIM", k.changes(), "MINID", all.After).Error())
		for _, limit := range []int{1, 10} {
			require.ErrorIs(t, ask(first, limit), matchmaking.ErrChangesLost, "after the first")
			require.ErrorIs(t, ask("0-0", limit), matchmaking.ErrChangesLost, "from the beginning")
			require.NoError(t, ask(all.After, limit), "the last one is there")
		}
		h.create(t, "d")
		require.NoError(t, ask(all.After, 10))
		require.NoError(t, ask(h.snapshot(t).After, 10))

		require.NoError(t, h.do(t, "DEL", k.changes()).Error())
		require.ErrorIs(t, ask(all.After, 10), matchmaking.ErrChangesLost, "all are gone")
		require.NoError(t, ask("0-0", 10))
		h.create(t, "e")
		require.ErrorIs(t, ask(all.After, 10), matchmaking.ErrChangesLost, "new ones don't hide that")
		require.NoError(t, ask(h.snapshot(t).After, 10))
		require.NoError(t, h.do(t, "XTRIM", k.changes(), "MAXLEN", "0").Error())
		require.NoError(t, ask(h.snapshot(t).After, 10), "an emptied stream has a point too")
	})
}

// A reader that goes on where it was doesn't ask whether it missed something, unless it was held up.
func TestQueueChangesAfterAPause(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.create(t, "a", "b", "c")
		slow := h.changes(t, "0-0", 1)
		other := New(h.conn, Options{})
		fast, err := other.Changes(t.Context(), matchmaking.ChangesRequest{Queue: h.queue, After: "0-0", Limit: 10})
		require.NoError(t, err)
		require.NoError(t, h.do(t, "XTRIM", h.k().changes(), "MINID", fast.After).Error())
		h.mu.Lock()
		f := h.feeds[h.queue]
		f.read = f.read.Add(-2 * sure) // as if the process had been paused
		h.feeds[h.queue] = f
		h.mu.Unlock()
		_, err = h.Changes(t.Context(), matchmaking.ChangesRequest{Queue: h.queue, After: slow.After, Limit: 10})
		require.ErrorIs(t, err, matchmaking.ErrChangesLost)
	})
}

func TestQueueChangesAreTrimmed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.create(t, numbered("t", 1000)...)
		point := "0-0"
		for read := 0; read < 1000; {
			found := h.changes(t, point, 300)
			point = found.After
			read += len(found.Changes)
			h.mu.Lock()
			f := h.feeds[h.queue]
			f.trimmed = time.Time{} // as if a second had passed
			h.feeds[h.queue] = f
			h.mu.Unlock()
		}
		require.Less(t, h.count(t, "XLEN", h.k().changes()), 500, "what was read is removed by and by")
		h.create(t, "last")
		require.Equal(t, []string{"last"}, told(h.changes(t, point, 300).Changes))
	})
}

func TestQueueSnapshot(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		ids := numbered("t", 2*pageSize+500)
		h.create(t, ids...)
		claimed := h.claim(t, "token", ids[7], ids[pageSize])
		require.NoError(t, h.cancel(t.Context(), ids[8]))
		h.hold(t, "token", ids[9])
		h.assignOne(t, "token", "m1", ids[9])
		_, err := h.Claim(t.Context(), matchmaking.ClaimRequest{Queue: h.queue, Token: "dead", Hold: shortest, IDs: ids[10:11]})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return h.status(t, ids[10]) == matchmaking.Searching }, rig.Patience, shortest/10)

		s := h.snapshot(t)
		require.Len(t, s.Tickets, len(ids)-2)
		require.Equal(t, map[string]time.Time{ids[7]: claimed.Deadline, ids[pageSize]: claimed.Deadline}, s.Held)
		want := append(append([]string{}, ids[:8]...), ids[10:]...)
		for i, found := range s.Tickets {
			require.Equal(t, want[i], found.ID, "the oldest first")
		}
		require.Equal(t, h.ticket(t, ids[7]), *s.Tickets[7])
		require.Equal(t, h.ticket(t, ids[2000]), *s.Tickets[1998])
		require.Empty(t, h.changes(t, s.After, 10).Changes)
	})
}

// Tickets that were made in the same microsecond are more than a page.
func TestQueueSnapshotOfEqualTimes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		ids := numbered("t", 2*pageSize+500)
		h.create(t, ids...)
		at := strconv.FormatInt(h.ticket(t, ids[0]).CreateTime.UnixMicro(), 10)
		for _, id := range ids[:2*pageSize+100] {
			require.NoError(t, h.do(t, "ZADD", h.k().waiting(), at, id).Error())
		}
		found := map[string]bool{}
		for _, ticket := range h.snapshot(t).Tickets {
			require.False(t, found[ticket.ID])
			found[ticket.ID] = true
		}
		require.Len(t, found, len(ids))
	})
}

func TestQueueSnapshotLeavesOutWhatItCannotRead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.create(t, "a", "broken", "evicted", "b")
		require.NoError(t, h.do(t, "SET", h.k().ticket("broken"), "what?").Error())
		require.NoError(t, h.do(t, "DEL", h.k().ticket("evicted")).Error())
		s := h.snapshot(t)
		require.Len(t, s.Tickets, 2)
		_, err := h.Ticket(t.Context(), h.queue, "broken")
		var internal *fault.Error
		require.True(t, errors.As(err, &internal))
		require.Equal(t, fault.Internal, internal.Kind)
		require.NoError(t, h.cancel(t.Context(), "evicted"))
		require.Equal(t, 0, h.count(t, "EXISTS", h.k().ticket("evicted")), "cancelling leaves no half of a ticket behind")
	})
}

func TestQueueReleaseIsTold(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.create(t, "a", "b", "c")
		require.NoError(t, h.lead(t.Context(), "boss", time.Hour))
		after := h.snapshot(t).After
		h.hold(t, h.claimToken(), "a")
		h.hold(t, "rival.1", "b", "c")
		require.NoError(t, h.Release(t.Context(), h.queue, h.claimToken(), []string{"a", "b"}))
		require.NoError(t, h.Release(t.Context(), h.queue, "rival.1", []string{"a", "b"}))
		require.Equal(t, []string{"+b"}, told(h.changes(t, after, 10).Changes), "the director knows what it does itself")
	})
}
