package queues

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/queuetest"
)

func TestQueueChangesThatAreLost(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		ask := func(after string, limit int) error {
			return storagetest.ErrorOf(h.Changes(t.Context(), matchmaking.ChangesRequest{After: after, Limit: limit}))
		}
		k := h.k()
		h.Add(t, "a")
		first := h.Whole(t).After
		h.Add(t, "b", "c")
		all := h.ChangesAfter(t, first, 10)
		require.Equal(t, []string{"b", "c"}, queuetest.ShortForm(all.Changes))
		require.NoError(t, ask("0-0", 10), "nothing was removed yet")

		entry, _, _ := strings.Cut(all.After, "/")
		require.NoError(t, h.do(t, "XTRIM", k.changes(), "MINID", entry).Error())
		for _, limit := range []int{1, 10} {
			require.ErrorIs(t, ask(first, limit), matchmaking.ErrChangesLost, "after the first")
			require.ErrorIs(t, ask("0-0", limit), matchmaking.ErrChangesLost, "from the beginning")
			require.NoError(t, ask(all.After, limit), "the last one is there")
		}
		h.Add(t, "d")
		require.NoError(t, ask(all.After, 10))
		require.NoError(t, ask(h.Whole(t).After, 10))

		require.NoError(t, h.do(t, "DEL", k.changes()).Error())
		require.ErrorIs(t, ask(all.After, 10), matchmaking.ErrChangesLost, "all are gone")
		require.NoError(t, ask("0-0", 10))
		h.Add(t, "e")
		require.ErrorIs(t, ask(all.After, 10), matchmaking.ErrChangesLost, "new ones don't hide that")
		require.NoError(t, ask(h.Whole(t).After, 10))
		require.NoError(t, h.do(t, "XTRIM", k.changes(), "MAXLEN", "0").Error())
		require.NoError(t, ask(h.Whole(t).After, 10), "an emptied stream has a point too")
	})
}

// TestLargeTicketsAreNotInTheChanges: their reader receives them nevertheless, one at a time, unless they were removed.
func TestLargeTicketsAreNotInTheChanges(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		for _, tag := range []string{"ends", strings.Repeat("x", 1<<20)} {
			r := h.Request(tag[:1])
			r.Spec = queuetest.Spec(strings.Repeat(tag, max(1, 20_000/len(tag))))
			_, _, err := h.Create(t.Context(), r)
			require.NoError(t, err)
		}
		h.Add(t, "small")
		require.NoError(t, h.do(t, "DEL", h.k().ticket("e")).Error())
		size, err := h.do(t, "MEMORY", "USAGE", h.k().changes()).AsInt64()
		require.NoError(t, err)
		require.Less(t, size, int64(10_000))
		changes := h.ChangesAfter(t, "0-0", 10).Changes
		require.Equal(t, []string{"x", "small"}, queuetest.ShortForm(changes))
		require.Equal(t, h.Get(t, "x"), *changes[0].Added)
	})
}

// follow returns a follower that isn't subscribed.
func (h *hall) follow(after string, limit int) *follower {
	r := matchmaking.ChangesRequest{Queue: h.Name, After: after, Limit: limit, Fields: matchmaking.FieldsAll}
	return newFollower(h.store, r)
}

func TestQueueChangesAreTrimmed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.Add(t, storagetest.Numbered("t", 1000)...)
		f := h.follow("0-0", 300)
		for read := 0; read < 1000; {
			f.trimmed = time.Time{} // as if a second had passed
			found, err := f.Next(t.Context(), 0)
			require.NoError(t, err)
			read += len(found.Changes)
		}
		require.Less(t, h.count(t, "XLEN", h.k().changes()), 500, "what was read is removed by and by")
		h.Add(t, "last")
		require.Equal(t, []string{"last"}, queuetest.ShortForm(h.ChangesAfter(t, f.request.After, 300).Changes))
	})
}

// More tickets than fit into a page were created in the same microsecond.
func TestQueueSnapshotOfEqualTimes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		ids := storagetest.Numbered("t", 2*pageSize+500)
		h.Add(t, ids...)
		at := strconv.FormatInt(h.Get(t, ids[0]).CreateTime.UnixMicro(), 10)
		var same []string
		for _, id := range ids[:2*pageSize+100] {
			same = append(same, at, id)
		}
		require.NoError(t, h.do(t, "ZADD", h.k().waiting(), same...).Error())
		found := map[string]bool{}
		for _, ticket := range h.Whole(t).Tickets {
			require.False(t, found[ticket.ID])
			found[ticket.ID] = true
		}
		require.Len(t, found, len(ids))
		clear(found)
		err := h.Waiting(t.Context(), matchmaking.WaitingRequest{Queue: h.Name},
			func(batch []*matchmaking.Ticket) error {
				for _, ticket := range batch {
					require.False(t, found[ticket.ID])
					found[ticket.ID] = true
				}
				return nil
			})
		require.NoError(t, err)
		require.Len(t, found, len(ids))
	})
}

func TestQueueSnapshotLeavesOutWhatItCannotRead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		h.Add(t, "a", "broken", "evicted", "b")
		require.NoError(t, h.do(t, "SET", h.k().ticket("broken"), "what?").Error())
		require.NoError(t, h.do(t, "DEL", h.k().ticket("evicted")).Error())
		s := h.Whole(t)
		require.Len(t, s.Tickets, 2)
		_, err := h.Ticket(t.Context(), h.Name, "broken")
		var internal *fault.Error
		require.True(t, errors.As(err, &internal))
		require.Equal(t, fault.Internal, internal.Kind)
		require.NoError(t, h.CancelID(t.Context(), "evicted"))
		require.Equal(t, 0, h.count(t, "EXISTS", h.k().ticket("evicted")),
			"cancelling leaves no half of a ticket behind")
	})
}
