package queues

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
)

// Published entries are removed by the call that creates a ticket, and before the queue is described.
func TestPublishedEntriesAreRemovedOnTheWay(t *testing.T) {
	t.Parallel()
	m := storetest.NewMeter(t, redistest.Options{})
	h := newHall(t, m.Conn, m.Node.Client())
	h.Add(t, "a", "b", "c")
	h.Hold(t, "token", "a", "b", "c")
	entries := h.AssignOne(t, "token", "m1", "a", "b", "c").Entries
	one, other := h.store.rides.Add(h.Name, entries[:1]), h.store.rides.Add(h.Name, []string{"1-1", entries[1]})
	before := m.Tap.Count()
	h.Add(t, "d")
	require.Len(t, m.Tap.Sent(before), 1)
	<-one.Done
	<-other.Done
	require.Equal(t, 1, h.count(t, "XLEN", h.k().outbox()))
	last := h.store.rides.Add(h.Name, entries[2:])
	state, err := h.Describe(t.Context(), h.Name, 0)
	require.NoError(t, err)
	require.Zero(t, state.Outgoing)
	<-last.Done
}
