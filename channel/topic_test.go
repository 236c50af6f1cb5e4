package channel

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
)

// backstop advances time until the backstop of testLimits reads the clock once.
func backstop() { pass(testLimits().Backstop) }

// Without waiters, the hub listens to a channel for as long as it has listened before, and for at most Limits.Linger.
func TestLinger(t *testing.T) {
	t.Parallel()
	limits := testLimits()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, limits)
		listening := func() int {
			_, _, n := store.seen()
			return n
		}
		brief := sleeping(t, h, "s", in1(0))
		pass(time.Second)
		brief.leave()
		pass(time.Second - 1)
		require.Equal(t, 1, listening())
		pass(1)
		require.Zero(t, listening(), "as long as it was waited on")

		long := sleeping(t, h, "s", in1(0))
		pass(10 * limits.Linger)
		long.leave()
		pass(limits.Linger - 1)
		require.Equal(t, 1, listening())
		sleeping(t, h, "s", in1(0)).leave()
		pass(limits.Linger - 1)
		require.Equal(t, 1, listening(), "the time is counted from the last one to leave")
		pass(1)
		require.Zero(t, listening())
		opened, reads, _ := store.seen()
		require.Equal(t, 2, opened)
		require.Zero(t, reads)
	})
}

// A topic whose last waiter leaves while the clock is read lingers no longer than others.
func TestLingerDuringARead(t *testing.T) {
	t.Parallel()
	limits := testLimits()
	limits.Backstop = limits.Linger / 2
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, limits)
		s := sleeping(t, h, "s", in1(0))
		release := store.hold()
		pass(limits.Linger)
		_, reads, _ := store.seen()
		require.Equal(t, 1, reads, "a read isn't repeated while it hangs")
		s.leave()
		pass(limits.Linger)
		release()
		_, reads, listening := store.seen()
		require.Equal(t, 1, reads)
		require.Zero(t, listening)
	})
}

func TestNoLinger(t *testing.T) {
	t.Parallel()
	limits := testLimits()
	limits.Linger = 0
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, limits)
		for range 3 {
			s := sleeping(t, h, "s", in1(0))
			pass(time.Hour)
			_, _, listening := store.seen()
			require.Equal(t, 1, listening)
			s.leave()
			pass(0)
			_, _, listening = store.seen()
			require.Zero(t, listening)
		}
	})
}

// positionCases are the effects of a read of the clock on a waiter at clock 7.
var positionCases = []struct {
	name           string
	position       Position
	err            error
	asleep, before outcome // read while it sleeps, or between its fetch and its sleep
}{
	{"where the waiter is", in1(7), nil, asleep, asleep},
	{"one ahead", in1(8), nil, refetch, refetch},
	{"far ahead", in1(7000), nil, refetch, refetch},
	// A clock that was read before the fetch is old; one that was read during its sleep means that a fail-over has lost
	// messages.
	{"behind", in1(6), nil, refetch, asleep},
	{"another life", in2(7), nil, refetch, refetch},
	{"gone", Position{}, ErrNoChannel.WithCause(errNoise), refetch, refetch},
	{"closed", closedAt(in1(7)).Position, nil, ended, ended},
	{"closed, one ahead", closedAt(in1(8)).Position, nil, refetch, refetch},
}

func TestReads(t *testing.T) {
	t.Parallel()
	for _, tt := range positionCases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, store := runningHub(t, testLimits())
				a, b, fetching := sleeping(t, h, "a", in1(7)), sleeping(t, h, "b", in1(7)), joined(t, h, "f")
				for _, s := range []*sleeper{a, b, fetching} {
					defer s.leave()
				}
				store.setPosition(tt.position, tt.err)
				backstop()
				require.Equal(t, tt.asleep, a.outcome())
				require.Equal(t, tt.asleep, b.outcome())
				require.Equal(t, tt.before, fetching.sleep(t, in1(7)).outcome())
				_, reads, _ := store.seen()
				require.Equal(t, 1, reads, "one read for all waiters")
			})
		})
	}
}

// A confirmation doesn't wait for a read of the clock that hangs.
func TestConfirmationDuringARead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, testLimits())
		s := sleeping(t, h, "s", in1(7))
		defer s.leave()
		store.setPosition(in1(7), nil)
		release := store.hold()
		backstop()
		store.emit(confirmed)
		require.Equal(t, refetch, s.outcome())
		s.w.prepare(only)
		s.sleep(t, in1(7))
		release()
		require.Equal(t, asleep, s.outcome())
		_, reads, _ := store.seen()
		require.Equal(t, 1, reads)
	})
}

// An event during a read of the clock may be newer than what was read.
func TestReadThatIsOvertaken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		read Position
		err  error
		at   clock.Clock // of a waiter that fetches meanwhile
		want outcome
	}{
		{"the read is older", in1(7), nil, 7, handed(8)},
		{"the read is older, the fetch is not", in1(7), nil, 8, asleep},
		{"the read knows as much", in1(8), nil, 8, asleep},
		{"the read is newer", in1(9), nil, 8, refetch},
		{"the read is newer, and so is the fetch", in1(9), nil, 9, asleep},
		{"the read is of another life", in2(8), nil, 8, refetch},
		{"the read found nothing", Position{}, ErrNoChannel, 8, refetch},
		{"the read found the end", closedAt(in1(8)).Position, nil, 8, ended},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, store := runningHub(t, testLimits())
				s := joined(t, h, "s")
				defer s.leave()
				store.setPosition(tt.read, tt.err)
				release := store.hold()
				backstop()
				store.emit(published(in1(8)))
				release()
				require.Equal(t, tt.want, s.sleep(t, in1(tt.at)).outcome())
			})
		})
	}
}

// A late notification, after the clock was read, doesn't move the position back.
func TestLateNotification(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, testLimits())
		s := joined(t, h, "s")
		defer s.leave()
		store.setPosition(in1(9), nil)
		backstop()
		store.emit(published(in1(8)))
		require.Equal(t, refetch, s.sleep(t, in1(8)).outcome())
	})
}

// A message isn't delivered any more if the clock was then read behind it: a fail-over lost it.
func TestReadBehindAMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, testLimits())
		s := joined(t, h, "s")
		defer s.leave()
		store.emit(published(in1(8)))
		store.setPosition(in1(7), nil)
		backstop()
		require.Equal(t, refetch, s.sleep(t, in1(7)).outcome())
		s.w.prepare(only)
		require.Equal(t, asleep, s.sleep(t, in1(7)).outcome())
	})
}

func TestBackstopRepairsALostNotification(t *testing.T) {
	t.Parallel()
	limits := testLimits()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, limits)
		store.setPosition(in1(7), nil)
		s, other := sleeping(t, h, "s", in1(7)), sleeping(t, h, "o", in1(7))
		defer s.leave()
		defer other.leave()
		pass(limits.Backstop)
		_, reads, _ := store.seen()
		require.Equal(t, 1, reads, "one read for all waiters")
		require.Equal(t, asleep, s.outcome())

		store.setPosition(in1(8), nil)
		pass(limits.Backstop)
		require.Equal(t, refetch, s.outcome())
		require.Equal(t, refetch, other.outcome())
	})
}

func TestBackstopIsSpreadOut(t *testing.T) {
	t.Parallel()
	limits := testLimits()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, limits)
		const channels = 400
		for i := range channels {
			w := h.join([]target{{fmt.Sprint(i), "s"}})
			defer w.leave()
		}
		pass(limits.Backstop * 3 / 4)
		_, before, _ := store.seen()
		pass(limits.Backstop / 8)
		_, middle, _ := store.seen()
		pass(limits.Backstop / 8)
		_, after, _ := store.seen()
		require.Less(t, before, channels/4)
		require.Greater(t, middle, channels/4)
		require.Less(t, middle, channels*3/4)
		require.Equal(t, channels, after)
	})
}

func TestBackstopWithoutWaiters(t *testing.T) {
	t.Parallel()
	limits := testLimits()
	limits.Linger = limits.Backstop
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, limits)
		s := sleeping(t, h, "s", in1(0))
		pass(limits.Backstop / 2)
		s.leave()
		pass(limits.Backstop/2 - 1)
		_, reads, listening := store.seen()
		require.Zero(t, reads)
		require.Equal(t, 1, listening)
	})
}

// While the clock can't be read no waiter is woken, and the read is repeated soon even if the backstop is rare.
func TestReadIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, testLimits())
		s := sleeping(t, h, "s", in1(7))
		defer s.leave()
		store.setPosition(Position{}, fault.ErrUnavailable.WithCause(errNoise))
		backstop()
		_, before, _ := store.seen()
		pass(10 * retryRead)
		_, reads, _ := store.seen()
		require.GreaterOrEqual(t, reads-before, 10)
		require.Less(t, reads-before, 15)
		require.Equal(t, asleep, s.outcome())

		store.setPosition(in1(8), nil)
		pass(retryRead)
		require.Equal(t, refetch, s.outcome())
		_, repaired, _ := store.seen()
		pass(time.Hour)
		_, after, _ := store.seen()
		require.Equal(t, repaired, after, "a read that succeeds is not repeated")
	})
}

// The clocks of many channels are read in batches, a few at a time.
func TestReadsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, testLimits())
		const channels = 3 * maxReads * readBatch
		for i := range channels {
			w := h.join([]target{{fmt.Sprint(i), "s"}})
			defer w.leave()
		}
		release := store.hold()
		backstop()
		_, reads, _ := store.seen()
		require.GreaterOrEqual(t, reads, maxReads)
		require.LessOrEqual(t, reads, maxReads*readBatch)
		release()
		_, reads, _ = store.seen()
		require.Equal(t, channels, reads)
	})
}

func TestEndDuringARead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, store := runningHub(t, testLimits())
		s := sleeping(t, h, "s", in1(7))
		defer s.leave()
		store.hold()
		backstop() // the bubble ends while the read hangs
		_, reads, _ := store.seen()
		require.Equal(t, 1, reads)
		require.Equal(t, asleep, s.outcome())
	})
}
