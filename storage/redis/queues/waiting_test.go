package queues

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// walk reads a queue's tickets in parts.
func (h *hall) walk(t *testing.T, fields matchmaking.Fields) (all []*matchmaking.Ticket) {
	t.Helper()
	err := h.Waiting(t.Context(), matchmaking.WaitingRequest{Queue: h.queue, Fields: fields}, func(some []*matchmaking.Ticket) error {
		require.LessOrEqual(t, len(some), contentsAtOnce)
		all = append(all, some...)
		return nil
	})
	require.NoError(t, err)
	return all
}

// TestQueueWaiting walks more tickets than a page has, also where more than that were made in the same microsecond.
func TestQueueWaiting(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, h *hall) {
		require.Empty(t, h.walk(t, matchmaking.FieldsAll))
		ids := numbered("t", pageSize+50)
		h.create(t, ids...)
		h.hold(t, "token", ids[7])
		same := func() {
			whole, err := h.Snapshot(t.Context(), h.queue)
			require.NoError(t, err)
			require.Len(t, whole.Tickets, len(ids))
			require.Equal(t, whole.Tickets, h.walk(t, matchmaking.FieldsAll))
			search, none := h.walk(t, matchmaking.FieldsSearch), h.walk(t, matchmaking.FieldsNone)
			for i, ticket := range whole.Tickets {
				require.Equal(t, ticket.SearchFields, search[i].SearchFields)
				require.Empty(t, search[i].Criteria)
				for _, found := range []*matchmaking.Ticket{search[i], none[i]} {
					require.Equal(t, ticket.ID, found.ID)
					require.Equal(t, ticket.CreateTime, found.CreateTime)
					require.Equal(t, ticket.Expires, found.Expires)
					require.Equal(t, ticket.Status, found.Status)
				}
			}
		}
		same()
		first := h.ticket(t, ids[0]).CreateTime
		for _, id := range ids[1:] {
			require.NoError(t, h.do(t, "ZADD", h.k().waiting(), decimal(first.UnixMicro()), id).Error())
		}
		found := map[string]bool{}
		for _, ticket := range h.walk(t, matchmaking.FieldsNone) {
			require.False(t, found[ticket.ID], "twice")
			found[ticket.ID] = true
		}
		require.Len(t, found, len(ids))

		enough := errors.New("enough")
		calls := 0
		err := h.Waiting(t.Context(), matchmaking.WaitingRequest{Queue: h.queue}, func([]*matchmaking.Ticket) error {
			calls++
			return enough
		})
		require.ErrorIs(t, err, enough)
		require.Equal(t, 1, calls)
	})
}
