package queues

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
)

func TestRides(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call func(r *rides, cancel func())
		rode bool
		took time.Duration
	}{
		"a call comes and succeeds": {func(r *rides, _ func()) {
			all := r.take("q")
			require.Equal(t, []string{"1-1"}, all[0].entries)
			close(all[0].done)
		}, true, time.Millisecond},
		"a call of another queue":   {func(r *rides, _ func()) { require.Empty(t, r.take("other")) }, false, rideWait},
		"a call comes and fails":    {func(r *rides, _ func()) { require.Len(t, r.take("q"), 1) }, false, rideWait},
		"no call comes":             {func(*rides, func()) {}, false, rideWait},
		"the caller doesn't wait":   {func(_ *rides, cancel func()) { cancel() }, false, time.Millisecond},
		"there is another that can": {func(r *rides, _ func()) { r.add("q", &ride{}) }, false, rideWait},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, began := &rides{}, time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Millisecond, func() { test.call(r, cancel) })
				require.Equal(t, test.rode, r.await(ctx, "q", []string{"1-1"}))
				require.Equal(t, test.took, time.Since(began))
				for _, left := range r.take("q") {
					require.Empty(t, left.entries, "nothing is left behind")
				}
			})
		})
	}
}

// Published entries are removed by the call that creates a ticket, and before the queue is described.
func TestPublishedEntriesAreRemovedOnTheWay(t *testing.T) {
	t.Parallel()
	m := rig.NewMeter(t, redistest.Options{})
	h := newHall(t, m.Conn, m.Node.Client())
	h.Add(t, "a", "b", "c")
	h.Hold(t, "token", "a", "b", "c")
	entries := h.AssignOne(t, "token", "m1", "a", "b", "c").Entries
	one, other := &ride{entries: entries[:1], done: make(chan struct{})}, &ride{entries: []string{"1-1", entries[1]}, done: make(chan struct{})}
	h.store.rides.add(h.Name, one)
	h.store.rides.add(h.Name, other)
	before := m.Tap.Count()
	h.Add(t, "d")
	require.Len(t, m.Tap.Sent(before), 1)
	<-one.done
	<-other.done
	require.Equal(t, 1, h.count(t, "XLEN", h.k().outbox()))
	last := &ride{entries: entries[2:], done: make(chan struct{})}
	h.store.rides.add(h.Name, last)
	state, err := h.Describe(t.Context(), h.Name, 0)
	require.NoError(t, err)
	require.Zero(t, state.Outgoing)
	<-last.done
}
