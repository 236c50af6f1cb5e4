package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/clock"
)

// eventCases say what one event means to a waiter, the subscriber "s", at a position.
var eventCases = []struct {
	name  string
	at    Position
	event Event
	want  outcome
}{
	{"the next message", hubIn1(7), published(hubIn1(8)), handed(8)},
	{"the first message", hubIn1(0), published(hubIn1(1)), handed(1)},
	{"the next message, across the wrap", hubIn1(clock.Max), published(hubIn1(clock.Min)), handed(clock.Min)},
	{"the next message, right after the wrap", hubIn1(clock.Min), published(hubIn1(clock.Min + 1)),
		handed(clock.Min + 1)},
	{"the next message, too large to come along", hubIn1(7), publishedLarge(hubIn1(8)), refetch},
	{"a gap", hubIn1(7), published(hubIn1(9)), refetch},
	{"a gap, too large to come along", hubIn1(7), publishedLarge(hubIn1(9)), refetch},
	{"a gap across the wrap", hubIn1(clock.Max - 1), published(hubIn1(clock.Min)), refetch},
	{"a message that the fetch saw", hubIn1(7), published(hubIn1(7)), asleep},
	{"a message long before the fetch", hubIn1(7), published(hubIn1(-5)), asleep},
	{"a message that the fetch saw, too large to come along", hubIn1(7), publishedLarge(hubIn1(6)), asleep},
	{"a message that the fetch saw, before the wrap", hubIn1(clock.Min), published(hubIn1(clock.Max)), asleep},
	{"the next clock, in another life", hubIn1(7), published(in2(8)), refetch},
	{"a clock behind, in another life", hubIn1(7), published(in2(1)), refetch},
	{"the same clock, in another life", hubIn1(7), published(in2(7)), refetch},
	{"the subscriber is removed", hubIn1(7), unsubscribed("s"), refetch},
	{"another subscriber is removed", hubIn1(7), unsubscribed("S"), asleep},
	{"a confirmation", hubIn1(7), hubConfirmed, refetch},
}

// An event counts while a waiter sleeps and between its fetch and its sleep, and never after the next prepare.
func TestEvents(t *testing.T) {
	t.Parallel()
	for _, tt := range eventCases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, store := runningHub(t, testOptions())
				before, fetching := sleeping(t, h, "s", tt.at), joined(t, h, "s")
				prepared := joined(t, h, "s")
				for _, s := range []*sleeper{before, fetching, prepared} {
					defer s.leave()
				}
				store.emit(tt.event)
				require.Equal(t, tt.want, before.outcome())
				require.Equal(t, tt.want, fetching.sleep(t, tt.at).outcome())
				prepared.w.prepare(only)
				require.Equal(t, asleep, prepared.sleep(t, tt.at).outcome())
				late := sleeping(t, h, "s", tt.at)
				defer late.leave()
				require.Equal(t, asleep, late.outcome())
			})
		})
	}
}

func TestSeveralEventsBetweenFetchAndSleep(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		at     Position
		events []Event
		want   outcome
	}{
		{"the fetch saw all but the last", hubIn1(8), []Event{published(hubIn1(7)), published(hubIn1(8)),
			published(hubIn1(9))}, handed(9)},
		{"the fetch saw all", hubIn1(9), []Event{published(hubIn1(7)), published(hubIn1(8)), published(hubIn1(9))},
			asleep},
		{"the fetch missed two", hubIn1(7), []Event{published(hubIn1(8)), published(hubIn1(9))}, refetch},
		{"a removal, then a message that the fetch saw", hubIn1(8), []Event{unsubscribed("s"), published(hubIn1(8))},
			refetch},
		{"a removal, then the next message", hubIn1(7), []Event{unsubscribed("s"), published(hubIn1(8))}, refetch},
		{"a message that the fetch saw, then a removal", hubIn1(8), []Event{published(hubIn1(8)), unsubscribed("s")},
			refetch},
		{"the next message, then another's removal", hubIn1(7), []Event{published(hubIn1(8)), unsubscribed("other")},
			handed(8)},
		{"a confirmation, then a message that the fetch saw", hubIn1(8), []Event{hubConfirmed, published(hubIn1(8))},
			refetch},
		{"a confirmation, then the next message", hubIn1(7), []Event{hubConfirmed, published(hubIn1(8))}, refetch},
		{"the next message, then a confirmation", hubIn1(7), []Event{published(hubIn1(8)), hubConfirmed}, refetch},
		{"the next message, then a new life", hubIn1(7), []Event{published(hubIn1(8)), published(in2(1))}, refetch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, store := runningHub(t, testOptions())
				s := joined(t, h, "s")
				defer s.leave()
				for _, e := range tt.events {
					store.emit(e)
				}
				require.Equal(t, tt.want, s.sleep(t, tt.at).outcome())
			})
		})
	}
}

func TestClockThatWentBackWakesAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, testOptions())
		lost, behind := sleeping(t, h, "lost", hubIn1(8)), sleeping(t, h, "behind", hubIn1(6))
		defer lost.leave()
		defer behind.leave()
		store.emit(published(hubIn1(8)))
		require.Equal(t, asleep, lost.outcome())
		require.Equal(t, refetch, behind.outcome())

		fetching := joined(t, h, "fetching")
		defer fetching.leave()
		store.emit(published(hubIn1(7))) // again, by a primary that hasn't got 7 and 8
		require.Equal(t, refetch, lost.outcome())
		require.Equal(t, refetch, fetching.sleep(t, hubIn1(8)).outcome())

		lost.w.prepare(only)
		lost.sleep(t, hubIn1(7))
		store.emit(published(hubIn1(8)))
		require.Equal(t, handed(8), lost.outcome())
	})
}

// What is handed over is the event's own message: it is shared, not copied.
func TestMessageIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, testOptions())
		a, b := sleeping(t, h, "a", hubIn1(3)), sleeping(t, h, "b", hubIn1(3))
		defer a.leave()
		defer b.leave()
		e := published(hubIn1(4))
		store.emit(e)
		require.Same(t, e.Message, a.outcome().message)
		require.Same(t, e.Message, b.outcome().message)
	})
}

func TestEndsOfASleep(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*hub, *sleeper){
		"timer":   func(_ *hub, s *sleeper) { s.timer <- time.Time{} },
		"context": func(_ *hub, s *sleeper) { s.cancel() },
		"drain":   func(h *hub, _ *sleeper) { h.Drain() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, store := runningHub(t, testOptions())
				s := sleeping(t, h, "s", hubIn1(3))
				defer s.leave()
				end(h, s)
				require.Equal(t, nothing, s.outcome())
				store.emit(published(hubIn1(4)))
				s.sleep(t, hubIn1(4))
				if name == "drain" {
					require.Equal(t, nothing, s.outcome())
					return
				}
				require.Equal(t, asleep, s.outcome(), "an ended sleep leaves nothing behind")
			})
		})
	}
}

// Where the timer fires or the context ends at the moment at which a message is handed over, the message wins.
func TestMessageWinsOverTheTimer(t *testing.T) {
	t.Parallel()
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			h, store := runningHub(t, testOptions())
			message, empty := sleeping(t, h, "s", hubIn1(3)), sleeping(t, h, "s", hubIn1(2))
			defer message.leave()
			defer empty.leave()
			// The topic's lock holds both up where they end their sleep, or not yet.
			topic := message.w.members[0].topic
			topic.mu.Lock()
			message.timer <- time.Time{}
			empty.timer <- time.Time{}
			message.w.members[0].deliver(hubMessageAt(4))
			empty.w.members[0].deliver(nil)
			topic.mu.Unlock()
			require.Equal(t, handed(4), message.outcome())
			require.Nil(t, empty.outcome().message)
			store.emit(published(hubIn1(4)))
			require.Equal(t, asleep, message.sleep(t, hubIn1(4)).outcome(), "nothing is left over")
		})
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, testOptions())
		s, fetching := sleeping(t, h, "s", hubIn1(3)), joined(t, h, "f")
		defer s.leave()
		defer fetching.leave()
		h.Drain()
		h.Drain()
		require.Equal(t, nothing, s.outcome())
		require.Equal(t, nothing, fetching.sleep(t, hubIn1(3)).outcome())
		late := sleeping(t, h, "l", hubIn1(3))
		require.Equal(t, nothing, late.outcome())
		late.leave()
		elsewhere := h.join([]target{{"elsewhere", "s"}})
		elsewhere.prepare(only)
		require.Empty(t, elsewhere.sleep(t.Context(), nil, []Position{hubIn1(3)}))
		elsewhere.leave()

		opened, _, _ := store.seen()
		require.Equal(t, 1, opened, "nothing is listened to for nobody")
		waiters, _ := h.Count()
		require.Equal(t, 2, waiters)
	})
}

func TestEndOfRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeNotifier()
		h := newHub(store, testOptions(), nil)
		early := sleeping(t, h, "early", hubIn1(3))
		require.Equal(t, asleep, early.outcome(), "who joins before run waits for it")

		stop := runHub(t, h)
		require.Equal(t, asleep, early.outcome())
		stop()
		require.Equal(t, nothing, early.outcome())
		_, _, listening := store.seen()
		require.Zero(t, listening)

		late := sleeping(t, h, "late", hubIn1(3))
		require.Equal(t, nothing, late.outcome())
		early.leave()
		late.leave()
		waiters, channels := h.Count()
		require.Zero(t, waiters)
		require.Zero(t, channels)
	})
}

func TestCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := runningHub(t, testOptions())
		expect := func(wantWaiters, wantChannels int) {
			t.Helper()
			waiters, channels := h.Count()
			require.Equal(t, [2]int{wantWaiters, wantChannels}, [2]int{waiters, channels})
		}
		expect(0, 0)
		a, b, c := h.join([]target{{"x", "a"}}), h.join([]target{{"x", "b"}}), h.join([]target{{"y", "a"}})
		expect(3, 2)
		a.leave()
		expect(2, 2)
		c.leave()
		b.leave()
		expect(0, 2)
		hubPass(0)
		expect(0, 0)
	})
}
