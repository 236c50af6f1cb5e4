package locks_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records/locks"
	"github.com/tidemark-dev/tidemark/lease"
)

// fake is one lock in memory.
type fake struct {
	mu      sync.Mutex
	token   string
	held    lease.Holding
	counted map[locks.Outcome]int
	freed   map[*func()]struct{}
	grants  int                             // calls of Grant
	granted func(ctx context.Context) error // called after a grant, before its answer; nil: nothing
}

func (f *fake) Lock(o locks.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted[o]++
}

func (f *fake) Grant(ctx context.Context, r lease.Request) (lease.Holding, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.grants++
	if remaining := time.Until(f.held.Until); remaining > 0 && f.token != r.Token {
		return lease.Holding{}, &lease.HeldError{For: remaining}
	}
	if f.token != r.Token {
		f.held.Fence++
	}
	f.token, f.held.Until = r.Token, time.Now().Add(r.TTL)
	if f.granted != nil {
		return f.held, f.granted(ctx)
	}
	return f.held, nil
}

func (f *fake) Prolong(_ context.Context, r lease.Request) (lease.Holding, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.token != r.Token || time.Until(f.held.Until) <= 0 {
		return lease.Holding{}, lease.ErrLost
	}
	f.held.Until = time.Now().Add(r.TTL)
	return f.held, nil
}

func (f *fake) Release(_ context.Context, _, token string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.token != token {
		return lease.ErrLost
	}
	f.held.Until = time.Time{}
	for freed := range f.freed {
		(*freed)()
	}
	return nil
}

func (f *fake) Show(context.Context, string) (lease.Holding, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held, nil
}

func (f *fake) Watch(_ string, freed func()) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.freed == nil {
		f.freed = map[*func()]struct{}{}
	}
	f.freed[&freed] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.freed, &freed)
	}
}

func (f *fake) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.grants
}

var resize = locks.Name{Op: "resize", ID: "7"}

// inBubble runs a test with a clock of its own.
func inBubble(t *testing.T, test func(t *testing.T, f *fake, s *locks.Service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{counted: map[locks.Outcome]int{}}
		test(t, f, locks.New(locks.Options{Store: f, MaxWait: time.Minute, Metrics: f}))
	})
}

func acquire(t *testing.T, s *locks.Service) locks.Lock {
	t.Helper()
	l, err := s.Acquire(t.Context(), locks.Request{Name: resize})
	require.NoError(t, err)
	return l
}

func is(slug fault.Slug) error { return &fault.Error{Slug: slug} }

func TestALifeOfALock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, s *locks.Service) {
		ctx := t.Context()
		l := acquire(t, s)
		require.Equal(t, locks.DefaultTTL, time.Until(l.Until))
		require.NotContains(t, f.token, l.Token, "Redis has a hash only")
		require.Len(t, f.token, 43)

		_, err := s.Acquire(ctx, locks.Request{Name: resize})
		var held *fault.Error
		require.ErrorAs(t, err, &held)
		require.Equal(t, fault.SlugLockHeld, held.Slug)
		require.Equal(t, locks.DefaultTTL, held.RetryAfter)

		<-time.After(20 * time.Second)
		renewed, err := s.Renew(ctx, locks.Request{Name: resize, Token: l.Token, TTL: time.Minute})
		require.NoError(t, err)
		require.Equal(t,
			locks.Lock{Token: l.Token, Holding: lease.Holding{Fence: l.Fence, Until: time.Now().Add(time.Minute)}},
			renewed)
		shown, err := s.Show(ctx, resize)
		require.NoError(t, err)
		require.Equal(t, renewed.Holding, shown)

		const guess = "tml_AAAAAAAAAAAAAAAAAAAAAAAAAA"
		_, err = s.Renew(ctx, locks.Request{Name: resize, Token: guess})
		require.ErrorIs(t, err, locks.ErrLost)
		require.ErrorIs(t, s.Release(ctx, resize, guess), locks.ErrLost)
		require.ErrorIs(t, s.Release(ctx, resize, f.token), locks.ErrLost, "what Redis has isn't the token")
		require.NoError(t, s.Release(ctx, resize, l.Token))
		require.Greater(t, acquire(t, s).Fence, l.Fence)
		require.Equal(t, map[locks.Outcome]int{locks.Acquired: 2, locks.Held: 1, locks.Lost: 3}, f.counted)
	})
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	s := locks.New(locks.Options{Store: &fake{}, MaxWait: time.Minute})
	for _, tt := range []struct {
		r     locks.Request
		slug  fault.Slug
		field string
	}{
		{locks.Request{Name: locks.Name{ID: "7"}}, fault.SlugInvalidID, "op"},
		{locks.Request{Name: locks.Name{Op: "a", ID: "7\n"}}, fault.SlugInvalidID, "id"},
		{locks.Request{Name: resize, TTL: -1}, fault.SlugInvalidLock, "/ttl"},
		{locks.Request{Name: resize, TTL: time.Second - 1}, fault.SlugInvalidLock, "/ttl"},
		{locks.Request{Name: resize, TTL: time.Hour + 1}, fault.SlugInvalidLock, "/ttl"},
		{locks.Request{Name: resize, Wait: -1}, fault.SlugInvalidWait, "/wait"},
		{locks.Request{Name: resize, Wait: time.Minute + 1}, fault.SlugInvalidWait, "/wait"},
		{locks.Request{Name: resize, Token: "guessed"}, fault.SlugInvalidLock, "/token"},
		{locks.Request{Name: resize, Token: strings.Repeat("x", 129)}, fault.SlugInvalidLock, "/token"},
	} {
		for _, call := range []func(context.Context, locks.Request) (locks.Lock, error){s.Acquire, s.Renew} {
			_, err := call(t.Context(), tt.r)
			var refused *fault.Error
			require.ErrorAs(t, err, &refused, "%+v", tt.r)
			require.Equal(t, [2]string{string(tt.slug), tt.field}, [2]string{string(refused.Slug), refused.Field})
		}
	}
}

// With a token of the caller a repeat is the same grant.
func TestATokenOfTheCaller(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, s *locks.Service) {
		r := locks.Request{Name: resize, Token: "0123456789abcdef"}
		f.granted = func(context.Context) error { return fault.ErrUnavailable }
		_, err := s.Acquire(t.Context(), r)
		require.ErrorIs(t, err, fault.ErrUnavailable)
		f.granted = nil
		l, err := s.Acquire(t.Context(), r)
		require.NoError(t, err)
		require.EqualValues(t, 1, l.Fence, "it still had the lock")
	})
}

// A release wakes one of many waiters. Regardless of their number, the store is called about once for each release.
func TestWaiters(t *testing.T) {
	t.Parallel()
	const waiters = 1000
	inBubble(t, func(t *testing.T, f *fake, s *locks.Service) {
		first := acquire(t, s)
		got, all := make(chan locks.Lock), sync.WaitGroup{}
		for range waiters {
			all.Go(func() {
				l, err := s.Acquire(t.Context(), locks.Request{Name: resize, Wait: time.Minute})
				if err == nil {
					got <- l
				} else if !errors.Is(err, is(fault.SlugLockHeld)) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		require.Equal(t, waiters, s.Waiting())
		before := f.asked()
		last := first
		for range 100 {
			require.NoError(t, s.Release(t.Context(), resize, last.Token))
			next := <-got
			synctest.Wait() // every waiter that was woken has called
			require.Greater(t, next.Fence, last.Fence)
			last = next
		}
		require.LessOrEqual(t, f.asked()-before, 300)
		s.Drain()
		all.Wait()
		require.Zero(t, s.Waiting())
		require.Empty(t, f.freed, "nothing is watched any more")
		start := time.Now()
		_, err := s.Acquire(t.Context(), locks.Request{Name: resize, Wait: time.Minute})
		require.ErrorIs(t, err, is(fault.SlugLockHeld))
		require.Equal(t, start, time.Now(), "after a drain nothing waits")
	})
}

// A waiter gets a lock whose holder has crashed, unless its wait is too short.
func TestAWaitEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *fake, s *locks.Service) {
		acquire(t, s)
		start := time.Now()
		_, err := s.Acquire(t.Context(), locks.Request{Name: resize, Wait: 10 * time.Second})
		var held *fault.Error
		require.ErrorAs(t, err, &held)
		require.Equal(t, 20*time.Second, held.RetryAfter)
		require.Equal(t, 10*time.Second, time.Since(start))
		l, err := s.Acquire(t.Context(), locks.Request{Name: resize, Wait: time.Minute})
		require.NoError(t, err)
		require.EqualValues(t, 2, l.Fence)
		require.Less(t, time.Since(start), 33*time.Second)
	})
}

// A caller that disconnects while it waits costs nothing, and a lock granted to a disconnected caller is released.
func TestACallerThatHasGone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, s *locks.Service) {
		l := acquire(t, s)
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := s.Acquire(ctx, locks.Request{Name: resize, Wait: time.Minute})
			ended <- err
		}()
		synctest.Wait()
		asked := f.asked()
		leave()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Equal(t, asked, f.asked())
		require.NoError(t, s.Release(t.Context(), resize, l.Token))

		for _, lost := range []error{nil, fault.ErrUnavailable} {
			ctx, leave := context.WithCancel(t.Context())
			f.granted = func(context.Context) error {
				leave()
				return lost
			}
			_, err := s.Acquire(ctx, locks.Request{Name: resize})
			require.Error(t, err)
			shown, err := s.Show(t.Context(), resize)
			require.NoError(t, err)
			require.Zero(t, shown.Until, "it is free")
		}
	})
}
