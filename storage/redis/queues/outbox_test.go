package queues

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestRemovals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call func(r *removals, cancel func())
		done bool
		took time.Duration
	}{
		"a call comes and succeeds": {func(r *removals, _ func()) {
			all := r.takeWaiting("q")
			require.Equal(t, []string{"1-1"}, all[0].entries)
			require.Empty(t, r.takeWaiting("q"), "each is taken once")
			finish(all)
		}, true, time.Millisecond},
		"a call of another queue": {func(r *removals, _ func()) { require.Empty(t, r.takeWaiting("other")) }, false,
			removalPatience},
		"a call comes and fails":    {func(r *removals, _ func()) { require.Len(t, r.takeWaiting("q"), 1) }, false, removalPatience},
		"no call comes":             {func(*removals, func()) {}, false, removalPatience},
		"the caller doesn't wait":   {func(_ *removals, cancel func()) { cancel() }, false, time.Millisecond},
		"there is another that can": {func(r *removals, _ func()) { r.add("q", nil) }, false, removalPatience},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, began := &removals{}, time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Millisecond, func() { test.call(r, cancel) })
				require.Equal(t, test.done, r.await(ctx, "q", []string{"1-1"}))
				require.Equal(t, test.took, time.Since(began))
				for _, waiting := range r.takeWaiting("q") {
					require.Empty(t, waiting.entries, "nothing is left behind")
				}
				began = time.Now()
				require.False(t, r.await(ctx, "q", make([]string, maxTogether+1)))
				require.Zero(t, time.Since(began), "many entries don't wait")
			})
		})
	}
}

// Published entries are removed by the call that creates a ticket, and before the queue is described.
func TestPublishedEntriesAreRemovedOnTheWay(t *testing.T) {
	t.Parallel()
	m := storetest.NewMeter(t, redistest.Options{})
	h := newHall(t, m.Conn, m.Node.Client())
	h.Add(t, "a", "b", "c")
	h.Hold(t, "token", "a", "b", "c")
	entries := h.AssignOne(t, "token", "m1", "a", "b", "c").Entries
	first, other := h.store.removals.add(h.Name, entries[:1]), h.store.removals.add(h.Name, []string{"1-1", entries[1]})
	before := m.Tap.Count()
	h.Add(t, "d")
	require.Len(t, m.Tap.Sent(before), 1)
	<-first.done
	<-other.done
	require.Equal(t, 1, h.count(t, "XLEN", h.k().outbox()))
	last := h.store.removals.add(h.Name, entries[2:])
	state, err := h.Describe(t.Context(), h.Name, 0)
	require.NoError(t, err)
	require.Zero(t, state.Outgoing)
	<-last.done
}
