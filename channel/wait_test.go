package channel

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// manyWaiter is a fetch on the channels "a", "b" and "c", which finds only the messages in found.
type manyWaiter struct {
	store *fakeNotifier
	poll  waitRequest
	reads [][]int
	found []int // targets whose next read finds something
	ended chan []wakeup
}

func newMany(t *testing.T, listenFirst bool) (*manyWaiter, *hub) {
	t.Helper()
	h, store := runningHub(t, testLimits())
	m := &manyWaiter{store: store, ended: make(chan []wakeup, 1)}
	m.poll = waitRequest{
		targets: []target{{"a", "s"}, {"b", "s"}, {"c", "s"}}, at: slices.Repeat([]Position{in1(7)}, 3),
		wait:        time.Minute,
		listenFirst: listenFirst, read: m.read,
	}
	return m, h
}

func (m *manyWaiter) read(_ context.Context, which []int) (bool, error) {
	m.reads = append(m.reads, slices.Clone(which))
	return slices.ContainsFunc(which, func(i int) bool { return slices.Contains(m.found, i) }), nil
}

func (m *manyWaiter) wait(ctx context.Context, h *hub) {
	go func() {
		woken, _ := h.wait(ctx, &m.poll)
		m.ended <- woken
	}()
	synctest.Wait()
}

// on sends an event of a channel, and doesn't wait for waiters to react.
func (m *manyWaiter) on(channel string, e Event) {
	m.store.mu.Lock()
	sink := m.store.sinks[channel]
	m.store.mu.Unlock()
	sink(e)
}

func (m *manyWaiter) confirm() {
	for _, channel := range []string{"a", "b", "c"} {
		m.on(channel, confirmed)
	}
	synctest.Wait()
}

// If no channel has a message, a fetch on many channels listens to all of them, and counts as one.
func TestManyChannels(t *testing.T) {
	t.Parallel()
	all := []int{0, 1, 2}
	for _, tt := range []struct {
		name   string
		events func(*manyWaiter)
		woken  []wakeup // nil: it still waits
		reads  [][]int  // after the confirmation
	}{
		{"nothing", func(*manyWaiter) {}, nil, nil},
		{"the next message of one", func(m *manyWaiter) { m.on("b", published(in1(8))) },
			[]wakeup{{target: 1, message: messageAt(8)}}, nil},
		{"a gap: only that channel is read again", func(m *manyWaiter) { m.on("b", published(in1(9))) }, nil,
			[][]int{{1}}},
		{"a removal on one, another's removal on another", func(m *manyWaiter) {
			m.on("c", unsubscribed("s"))
			m.on("a", unsubscribed("other"))
		}, nil, [][]int{{2}}},
		{"what the fetch saw", func(m *manyWaiter) { m.on("a", published(in1(7))) }, nil, nil},
		{"confirmations, one after the other", func(m *manyWaiter) {
			m.on("a", confirmed)
			synctest.Wait()
			m.on("c", confirmed)
		}, nil, [][]int{{0}, {2}}},
		{"the end of one, and the next message of another", func(m *manyWaiter) {
			m.on("b", closedAt(in1(7)))
			m.on("c", published(in1(8)))
		}, []wakeup{{target: 1, closed: true}, {target: 2, message: messageAt(8)}}, nil},
		{"a gap that is found", func(m *manyWaiter) {
			m.found = []int{2}
			m.on("c", published(in1(9)))
		}, []wakeup{}, [][]int{{2}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, h := newMany(t, false)
				m.wait(t.Context(), h)
				m.confirm()
				waiters, channels := h.count()
				require.Equal(t, [2]int{1, 3}, [2]int{waiters, channels})
				require.Equal(t, [][]int{all, all}, m.reads, "before it listens, and after all are confirmed")
				m.reads = nil
				tt.events(m)
				synctest.Wait()
				require.Equal(t, tt.reads, m.reads)
				if tt.woken == nil {
					require.Empty(t, m.ended)
					h.drain()
					require.Empty(t, <-m.ended)
				} else {
					require.ElementsMatch(t, tt.woken, <-m.ended)
				}
			})
		})
	}
}

// Messages that arrive on several channels while the fetch reads are all returned.
func TestManyChannelsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, h := newMany(t, true)
		m.poll.read = func(ctx context.Context, which []int) (bool, error) {
			if len(m.reads) == 0 {
				for _, channel := range []string{"a", "c"} {
					m.on(channel, published(in1(8)))
				}
			}
			return m.read(ctx, which)
		}
		m.wait(t.Context(), h)
		m.confirm()
		require.ElementsMatch(t, []wakeup{{target: 0, message: messageAt(8)}, {target: 2, message: messageAt(8)}}, <-m.ended)
		require.Len(t, m.reads, 1, "it listened first")
	})
}

func TestManyChannelsEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*hub, context.CancelFunc){
		"time":    func(*hub, context.CancelFunc) { pass(time.Minute) },
		"context": func(_ *hub, cancel context.CancelFunc) { cancel() },
		"drain":   func(h *hub, _ context.CancelFunc) { h.drain() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, h := newMany(t, false)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				m.wait(ctx, h)
				m.confirm()
				pass(time.Minute - time.Second)
				require.Empty(t, m.ended)
				end(h, cancel)
				require.Empty(t, <-m.ended)
				waiters, _ := h.count()
				require.Zero(t, waiters)
			})
		})
	}
}

// Without confirmations, as while slots move, a fetch on many channels proceeds after the time for one.
func TestManyChannelsThatAreNotListenedTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, h := newMany(t, false)
		m.wait(t.Context(), h)
		pass(confirmationTimeout)
		require.Len(t, m.reads, 2)
		h.drain()
		<-m.ended
	})
}
