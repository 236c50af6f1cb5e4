package lease_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/test/storagetest/leasetest"
)

const (
	ttl    = 10 * time.Second
	margin = time.Second
)

var errDown = errors.New("the store is down")

// inBubble runs a test with a fake clock and a manager on a store.
func inBubble(t *testing.T, test func(t *testing.T, store *memory, m *lease.Manager)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		test(t, store, newManager(t, store))
	})
}

func newManager(t *testing.T, store lease.Store) *lease.Manager {
	t.Helper()
	m, err := lease.NewManager(store, lease.Options{TTL: ttl, Margin: margin})
	require.NoError(t, err)
	return m
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// neverRun returns a function whose call fails the test.
func neverRun(t *testing.T) func(context.Context, uint64) error {
	t.Helper()
	return func(context.Context, uint64) error {
		t.Error("the function was called")
		return nil
	}
}

func TestHoldRunsTheFunctionAndReleases(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		var fences []uint64
		mine := errors.New("mine")
		for range 3 {
			err := m.Hold(t.Context(), "job", func(ctx context.Context, fence uint64) error {
				require.NoError(t, ctx.Err())
				require.NotEmpty(t, store.token("job"))
				fences = append(fences, fence)
				return mine
			})
			require.Equal(t, mine, err)
			require.Empty(t, store.token("job"))
		}
		require.IsIncreasing(t, fences)
	})
}

func TestHoldRenewsWhileTheFunctionRuns(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		require.NoError(t, m.Hold(t.Context(), "job", func(ctx context.Context, _ uint64) error {
			sleep(ctx, 20*ttl)
			return ctx.Err()
		}))
		require.GreaterOrEqual(t, store.counted("renew"), 20*3-1)
	})
}

// The deadline counts from before a request is sent, and not from its reply.
func TestDeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		_, ok := lease.Deadline(t.Context())
		require.False(t, ok)
		sent, renewed := time.Now(), make(chan time.Time, 1)
		store.after = func(ctx context.Context, op, _ string) error {
			now := time.Now() // requests arrive at once
			sleep(ctx, time.Second)
			if op == "renew" {
				renewed <- now
			}
			return nil
		}
		require.NoError(t, m.Hold(t.Context(), "job", func(ctx context.Context, _ uint64) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			first, ok := lease.Deadline(ctx)
			require.True(t, ok)
			require.Equal(t, sent.Add(ttl-margin), first)
			sent = <-renewed
			synctest.Wait()
			second, _ := lease.Deadline(ctx)
			require.Equal(t, sent.Add(ttl-margin), second)
			return nil
		}))
	})
}

// Renewals of many leases that were acquired at different times are grouped.
func TestManyLeasesAreRenewedInFewCalls(t *testing.T) {
	t.Parallel()
	const leases, lives = 1000, 20
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		var all sync.WaitGroup
		for i := range leases {
			all.Go(func() {
				sleep(t.Context(), time.Duration(i)*ttl/leases)
				err := m.Hold(t.Context(), fmt.Sprint("job", i), func(ctx context.Context, _ uint64) error {
					sleep(ctx, lives*ttl)
					return ctx.Err()
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.LessOrEqual(t, store.counted("renew"), (lives+1)*3*2, "twice in an interval")
		require.LessOrEqual(t, store.renewed, leases*lives*3*2)
	})
}

func TestOptionsThatContradictEachOther(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]lease.Options{
		"too short a TTL":           {TTL: time.Millisecond},
		"too long an interval":      {TTL: ttl, Renew: ttl / 2},
		"too long a margin":         {TTL: ttl, Margin: ttl / 2},
		"a negative margin":         {Margin: -1},
		"a negative renew interval": {Renew: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := lease.NewManager(&memory{}, o)
			require.Error(t, err)
		})
	}
	_, err := lease.NewManager(&memory{}, lease.Options{})
	require.NoError(t, err)
}

func TestNames(t *testing.T) {
	t.Parallel()
	m := newManager(t, &memory{})
	for _, name := range []string{"", "{a}", "a b", ".a", "ä", strings.Repeat("a", lease.MaxNameBytes+1)} {
		require.ErrorIs(t, m.TryHold(t.Context(), name, neverRun(t)), lease.ErrName, name)
	}
	for _, name := range []string{"a", "lock:checkout:17", "A_b.c-d", strings.Repeat("a", lease.MaxNameBytes)} {
		require.NoError(t, m.TryHold(t.Context(), name, func(context.Context, uint64) error { return nil }), name)
	}
}

// harness is the store of these tests as the conformance suite needs it.
type harness struct{ *memory }

func (h harness) Store() lease.Store { return h.memory }

func (h harness) Forget(_ context.Context, name string) error {
	h.seize(name)
	return nil
}

// The store of these tests passes the conformance suite.
func TestConformanceOfTheStoreInMemory(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(testing.TB) leasetest.Harness { return harness{&memory{}} })
}

func TestTryHoldOfAHeldLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		store.grant("job", 3*time.Second)
		err := m.TryHold(t.Context(), "job", neverRun(t))
		require.ErrorIs(t, err, lease.ErrHeld)
		var held *lease.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, 3*time.Second, held.For)
		require.Zero(t, store.counted("release"), "it is known that nothing is to be released")

		require.NoError(t, m.Hold(t.Context(), "mine", func(ctx context.Context, _ uint64) error {
			calls := store.counted("acquire")
			require.ErrorIs(t, m.TryHold(ctx, "mine", neverRun(t)), lease.ErrHeld)
			require.Equal(t, calls, store.counted("acquire"), "the manager knows it")
			return nil
		}))
	})
}

// The context is canceled before another holder can have the lease: the deadline counts from before the request was
// sent.
func TestALeaseThatCannotBeRenewedIsLostBeforeItEnds(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]time.Duration{"acquired at once": 0, "acquired slowly": 4 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
				store.after = func(ctx context.Context, op, _ string) error {
					switch op {
					case "acquire":
						sleep(ctx, slow)
					case "renew":
						return errDown
					}
					return nil
				}
				sent := time.Now()
				store.before = func(_ context.Context, op, _ string) error {
					if op == "renew" {
						return errDown
					}
					return nil
				}
				err := m.Hold(t.Context(), "job", func(ctx context.Context, _ uint64) error {
					<-ctx.Done()
					require.Equal(t, ttl-margin, time.Since(sent))
					require.ErrorIs(t, context.Cause(ctx), lease.ErrLost)
					require.ErrorContains(t, context.Cause(ctx), errDown.Error())
					require.Positive(t, time.Until(store.entries["job"].until))
					return nil
				})
				require.ErrorIs(t, err, lease.ErrLost)
				require.Empty(t, store.token("job"), "released: no waiter has to wait for its end")
			})
		})
	}
}

// A renewal with a late reply counts from the time at which it was sent.
func TestASlowRenewalMovesTheDeadlineFromWhenItWasSent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		var sent time.Time
		store.before = func(ctx context.Context, op, _ string) error {
			if op != "renew" {
				return nil
			}
			if !sent.IsZero() {
				return errDown
			}
			sent = time.Now()
			sleep(ctx, time.Second)
			return nil
		}
		require.ErrorIs(t, m.Hold(t.Context(), "job", func(ctx context.Context, _ uint64) error {
			<-ctx.Done()
			return nil
		}), lease.ErrLost)
		require.Equal(t, ttl-margin, time.Since(sent))
	})
}

func TestALeaseThatTheStoreHasLost(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		began := time.Now()
		err := m.Hold(t.Context(), "job", func(ctx context.Context, _ uint64) error {
			store.seize("job")
			store.grant("job", time.Hour)
			<-ctx.Done()
			require.LessOrEqual(t, time.Since(began), ttl/3, "the next renewal is refused")
			renewals := store.counted("renew")
			<-time.After(ttl)
			require.Equal(t, renewals, store.counted("renew"), "no longer renewed")
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, lease.ErrLost)
		require.Equal(t, "another", store.token("job"))
	})
}

// The time that one part of the store needs for its refusal to answer isn't taken from the leases of another part.
func TestAPartOfTheStoreThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		store.before = func(ctx context.Context, op, name string) error {
			if op == "renew" && strings.HasPrefix(name, "sick") {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		var all sync.WaitGroup
		for i := range 100 {
			for kind, want := range map[string]error{"sick": lease.ErrLost, "well": nil} {
				all.Go(func() {
					sleep(t.Context(), time.Duration(i)*ttl/100)
					err := m.Hold(t.Context(), fmt.Sprint(kind, i), func(ctx context.Context, _ uint64) error {
						sleep(ctx, 5*ttl)
						return nil
					})
					if !errors.Is(err, want) {
						t.Errorf("%s%d: %v", kind, i, err)
					}
				})
			}
		}
		all.Wait()
	})
}

func TestALeaseWhoseGrantComesTooLate(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		store.after = func(_ context.Context, op, _ string) error {
			if op == "acquire" {
				<-time.After(ttl - margin)
			}
			return nil
		}
		require.ErrorIs(t, m.Hold(t.Context(), "job", neverRun(t)), lease.ErrLost)
		require.Empty(t, store.token("job"))
	})
}

func TestALeaseThatWasPerhapsGivenIsReleased(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		store.after = func(_ context.Context, op, _ string) error {
			if op == "acquire" {
				return errDown
			}
			return nil
		}
		require.ErrorIs(t, m.Hold(t.Context(), "job", neverRun(t)), errDown)
		require.Empty(t, store.token("job"))

		ctx, cancel := context.WithCancelCause(t.Context())
		store.after = func(_ context.Context, op, _ string) error {
			if op == "acquire" {
				cancel(errDown) // the caller has gone when the reply comes
			}
			return nil
		}
		require.ErrorIs(t, m.Hold(ctx, "job", neverRun(t)), errDown)
		require.Empty(t, store.token("job"))
	})
}

func TestALeaseThatTheStoreRefuses(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		idle := errors.New("idle")
		store.before = func(context.Context, string, string) error { return errors.Join(lease.ErrRefused, idle) }
		require.ErrorIs(t, m.Hold(t.Context(), "job", neverRun(t)), idle)
		require.Zero(t, store.counted("release"), "there is nothing to release")
	})
}

func TestAPanicReleasesTheLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		require.PanicsWithValue(t, "oh", func() {
			_ = m.Hold(t.Context(), "job", func(context.Context, uint64) error { panic("oh") })
		})
		require.Empty(t, store.token("job"))
		var ended sync.WaitGroup
		ended.Go(func() {
			_ = m.Hold(t.Context(), "job", func(context.Context, uint64) error {
				runtime.Goexit()
				return nil
			})
		})
		ended.Wait()
		require.Empty(t, store.token("job"))
	})
}

// A function keeps its lease until it returns, even after its context has ended.
func TestTheContextOfHoldEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := m.Hold(ctx, "job", func(ctx context.Context, _ uint64) error {
			cancel(errDown)
			<-ctx.Done()
			<-time.After(3 * ttl)
			require.NotEmpty(t, store.token("job"))
			require.Positive(t, time.Until(store.entries["job"].until))
			return context.Cause(ctx)
		})
		require.Equal(t, errDown, err)
		require.Empty(t, store.token("job"))
	})
}

func TestAReleaseThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		store.before = func(ctx context.Context, op, _ string) error {
			if op == "release" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		began := time.Now()
		require.NoError(t, m.Hold(t.Context(), "job", func(context.Context, uint64) error { return nil }))
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestAWaiterGetsAReleasedLeaseAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		token := store.grant("job", time.Hour)
		var got atomic.Bool
		var waiting sync.WaitGroup
		waiting.Go(func() {
			err := m.Hold(t.Context(), "job", func(context.Context, uint64) error {
				got.Store(true)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		<-time.After(3 * ttl)
		require.NoError(t, store.Release(t.Context(), "job", token))
		synctest.Wait()
		require.True(t, got.Load())
		waiting.Wait()
		require.Empty(t, store.watchers["job"])
	})
}

func TestAWaiterGetsTheLeaseOfADeadHolder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *memory, m *lease.Manager) {
		store.grant("job", ttl)
		began := time.Now()
		require.NoError(t, m.Hold(t.Context(), "job", func(context.Context, uint64) error { return nil }))
		require.GreaterOrEqual(t, time.Since(began), ttl)
		require.LessOrEqual(t, time.Since(began), ttl+ttl/10)
	})
}

// A waiter asks once per TTL of the lease, whatever the number of waiting calls in its process.
func TestWaitersCostTheStoreNextToNothing(t *testing.T) {
	t.Parallel()
	const lives, waiters = 100, 50
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		holder, other := newManager(t, store), newManager(t, store)
		require.NoError(t, holder.Hold(t.Context(), "job", func(ctx context.Context, _ uint64) error {
			ctx, cancel := context.WithCancelCause(ctx)
			var waiting sync.WaitGroup
			for range waiters {
				waiting.Go(func() {
					if err := other.Hold(ctx, "job", neverRun(t)); !errors.Is(err, errDown) {
						t.Error(err)
					}
				})
			}
			sleep(ctx, lives*ttl)
			cancel(errDown)
			waiting.Wait()
			return nil
		}))
		// A lease that is renewed every third of its TTL, or a little earlier, has at least two thirds left.
		require.LessOrEqual(t, store.counted("acquire"), 1+2+lives*3/2)
		require.Equal(t, 1, store.counted("watch"))
	})
}

func TestCallsOfAProcessTakeTurns(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *memory, m *lease.Manager) {
		var inside, runs atomic.Int32
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				err := m.Hold(t.Context(), "job", func(ctx context.Context, _ uint64) error {
					if inside.Add(1) != 1 {
						t.Error("two at a time")
					}
					sleep(ctx, time.Second)
					inside.Add(-1)
					runs.Add(1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 20, runs.Load())
	})
}
