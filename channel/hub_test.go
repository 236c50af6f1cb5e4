package channel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
)

// eventCases are the effects of one event on a waiter, the subscriber "s", at a position.
var eventCases = []struct {
	name  string
	at    Position
	event Event
	want  outcome
}{
	{"the next message", in1(7), published(in1(8)), handed(8)},
	{"the first message", in1(0), published(in1(1)), handed(1)},
	{"the next message, across the wrap", in1(clock.Max), published(in1(clock.Min)), handed(clock.Min)},
	{"the next message, right after the wrap", in1(clock.Min), published(in1(clock.Min + 1)),
		handed(clock.Min + 1)},
	{"the next message, too large to come along", in1(7), publishedLarge(in1(8)), refetch},
	{"a gap", in1(7), published(in1(9)), refetch},
	{"a gap, too large to come along", in1(7), publishedLarge(in1(9)), refetch},
	{"a gap across the wrap", in1(clock.Max - 1), published(in1(clock.Min)), refetch},
	{"a message that the fetch saw", in1(7), published(in1(7)), asleep},
	{"another write of a message that the fetch saw", in1(7), Event{Kind: EventPublished, Position: in1(7),
		Message: &Message{ID: "m7", Clock: 7, Write: receipt.Write{2}}}, refetch},
	{"a message long before the fetch", in1(7), published(in1(-5)), asleep},
	{"a message that the fetch saw, too large to come along", in1(7), publishedLarge(in1(6)), asleep},
	{"a message that the fetch saw, before the wrap", in1(clock.Min), published(in1(clock.Max)), asleep},
	{"the next clock, in another life", in1(7), published(in2(8)), refetch},
	{"a clock behind, in another life", in1(7), published(in2(1)), refetch},
	{"the same clock, in another life", in1(7), published(in2(7)), refetch},
	{"the subscriber is removed", in1(7), unsubscribed("s"), refetch},
	{"another subscriber is removed", in1(7), unsubscribed("S"), asleep},
	{"a confirmation", in1(7), confirmed, refetch},
	{"the end", in1(7), closedAt(in1(7)), ended},
	{"the end, before the first message", in1(0), closedAt(in1(0)), ended},
	{"the last message, with the end", in1(7), closedAt(in1(8)), refetch},
	{"the end, further ahead", in1(7), closedAt(in1(9)), refetch},
	{"the end, before what the fetch saw", in1(7), closedAt(in1(6)), asleep},
	{"the end that the fetch saw", closedAt(in1(7)).Position, closedAt(in1(7)), asleep},
	{"the end of another life", in1(7), closedAt(in2(7)), refetch},
}

// An event counts while a waiter sleeps and between its fetch and its sleep, and never after the next prepare.
func TestEvents(t *testing.T) {
	t.Parallel()
	for _, tt := range eventCases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, store := runningHub(t, testLimits())
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
		{"the fetch saw all but the last", in1(8), []Event{published(in1(7)), published(in1(8)),
			published(in1(9))}, handed(9)},
		{"the fetch saw all", in1(9), []Event{published(in1(7)), published(in1(8)), published(in1(9))},
			asleep},
		{"the fetch missed two", in1(7), []Event{published(in1(8)), published(in1(9))}, refetch},
		{"a removal, then a message that the fetch saw", in1(8), []Event{unsubscribed("s"), published(in1(8))},
			refetch},
		{"a removal, then the next message", in1(7), []Event{unsubscribed("s"), published(in1(8))}, refetch},
		{"a message that the fetch saw, then a removal", in1(8), []Event{published(in1(8)), unsubscribed("s")},
			refetch},
		{"the next message, then another's removal", in1(7), []Event{published(in1(8)), unsubscribed("other")},
			handed(8)},
		{"a confirmation, then a message that the fetch saw", in1(8), []Event{confirmed, published(in1(8))},
			refetch},
		{"a confirmation, then the next message", in1(7), []Event{confirmed, published(in1(8))}, refetch},
		{"the next message, then a confirmation", in1(7), []Event{published(in1(8)), confirmed}, refetch},
		{"the next message, then a new life", in1(7), []Event{published(in1(8)), published(in2(1))}, refetch},
		{"the next message, then the end", in1(7), []Event{published(in1(8)), closedAt(in1(8))}, handed(8)},
		{"a message that the fetch saw, then the end", in1(8), []Event{published(in1(8)), closedAt(in1(8))}, ended},
		{"the end after another write of a message", in1(7), []Event{{Kind: EventPublished, Position: in1(7),
			Message: &Message{ID: "m7", Clock: 7, Write: receipt.Write{2}}}, closedAt(in1(7))}, refetch},
		{"a message that the store has lost, then the end", in1(8), []Event{published(in1(8)), closedAt(in1(7))}, refetch},
		{"an end that the store has lost, then a message", in1(7), []Event{closedAt(in1(7)), published(in1(8))}, handed(8)},
		{"the end, then a new life", in1(7), []Event{closedAt(in1(7)), published(in2(1))}, refetch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, store := runningHub(t, testLimits())
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
		h, store := runningHub(t, testLimits())
		lost, behind := sleeping(t, h, "lost", in1(8)), sleeping(t, h, "behind", in1(6))
		defer lost.leave()
		defer behind.leave()
		store.emit(published(in1(8)))
		require.Equal(t, asleep, lost.outcome())
		require.Equal(t, refetch, behind.outcome())

		fetching := joined(t, h, "fetching")
		defer fetching.leave()
		store.emit(published(in1(7))) // again, by a primary that hasn't got 7 and 8
		require.Equal(t, refetch, lost.outcome())
		require.Equal(t, refetch, fetching.sleep(t, in1(8)).outcome())

		lost.w.prepare(only)
		lost.sleep(t, in1(7))
		store.emit(published(in1(8)))
		require.Equal(t, handed(8), lost.outcome())
	})
}

// Waiters receive the event's own message: it is shared, not copied.
func TestMessageIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, testLimits())
		a, b := sleeping(t, h, "a", in1(3)), sleeping(t, h, "b", in1(3))
		defer a.leave()
		defer b.leave()
		e := published(in1(4))
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
		"drain":   func(h *hub, _ *sleeper) { h.drain() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, store := runningHub(t, testLimits())
				s := sleeping(t, h, "s", in1(3))
				defer s.leave()
				end(h, s)
				require.Equal(t, nothing, s.outcome())
				store.emit(published(in1(4)))
				s.sleep(t, in1(4))
				if name == "drain" {
					require.Equal(t, nothing, s.outcome())
					return
				}
				require.Equal(t, asleep, s.outcome(), "an ended sleep leaves nothing behind")
			})
		})
	}
}

// If the timer fires or the context ends when a message is delivered, the message wins.
func TestMessageWinsOverTheTimer(t *testing.T) {
	t.Parallel()
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			h, store := runningHub(t, testLimits())
			message, empty := sleeping(t, h, "s", in1(3)), sleeping(t, h, "s", in1(2))
			defer message.leave()
			defer empty.leave()
			// The topic's lock holds both up where they end their sleep, or not yet.
			topic := message.w.members[0].topic
			topic.mu.Lock()
			message.timer <- time.Time{}
			empty.timer <- time.Time{}
			message.w.members[0].deliver(messageAt(4))
			empty.w.members[0].deliver(nil)
			topic.mu.Unlock()
			require.Equal(t, handed(4), message.outcome())
			require.Nil(t, empty.outcome().message)
			store.emit(published(in1(4)))
			require.Equal(t, asleep, message.sleep(t, in1(4)).outcome(), "nothing is left over")
		})
	}
}

// A hub that is suspended ends all sleeps, and lets waiters sleep again after resume; one that joined meanwhile, on a
// channel to which nothing listens, doesn't. After a drain it stays so.
func TestSuspend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, testLimits())
		s := sleeping(t, h, "s", in1(3))
		h.suspend()
		require.Equal(t, nothing, s.outcome())
		require.Equal(t, nothing, s.sleep(t, in1(3)).outcome())
		late := h.join([]target{{"elsewhere", "s"}})
		h.resume()
		late.prepare(only)
		require.Empty(t, late.sleep(t.Context(), nil, []Position{in1(3)}))
		late.leave()
		s.leave()
		again := sleeping(t, h, "s", in1(3))
		require.Equal(t, asleep, again.outcome())
		store.emit(published(in1(4)))
		require.Equal(t, handed(4), again.outcome())
		again.leave()

		h.drain()
		h.suspend()
		h.resume()
		last := sleeping(t, h, "s", in1(3))
		require.Equal(t, nothing, last.outcome())
		last.leave()
	})
}

func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, testLimits())
		s, fetching := sleeping(t, h, "s", in1(3)), joined(t, h, "f")
		defer s.leave()
		defer fetching.leave()
		h.drain()
		h.drain()
		require.Equal(t, nothing, s.outcome())
		require.Equal(t, nothing, fetching.sleep(t, in1(3)).outcome())
		late := sleeping(t, h, "l", in1(3))
		require.Equal(t, nothing, late.outcome())
		late.leave()
		elsewhere := h.join([]target{{"elsewhere", "s"}})
		elsewhere.prepare(only)
		require.Empty(t, elsewhere.sleep(t.Context(), nil, []Position{in1(3)}))
		elsewhere.leave()

		opened, _, _ := store.seen()
		require.Equal(t, 1, opened, "nothing is listened to for nobody")
		waiters, _ := h.count()
		require.Equal(t, 2, waiters)
	})
}

func TestEndOfRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFakeNotifier()
		h := newHub(store, testLimits(), nil)
		early := sleeping(t, h, "early", in1(3))
		require.Equal(t, asleep, early.outcome(), "who joins before run waits for it")

		stop := runHub(t, h)
		require.Equal(t, asleep, early.outcome())
		stop()
		require.Equal(t, nothing, early.outcome())
		_, _, listening := store.seen()
		require.Zero(t, listening)

		late := sleeping(t, h, "late", in1(3))
		require.Equal(t, nothing, late.outcome())
		early.leave()
		late.leave()
		waiters, channels := h.count()
		require.Zero(t, waiters)
		require.Zero(t, channels)
	})
}

func TestCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := runningHub(t, testLimits())
		expect := func(wantWaiters, wantChannels int) {
			t.Helper()
			waiters, channels := h.count()
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
		pass(0)
		expect(0, 0)
	})
}
