// Package leasetest is the conformance suite of lease.Store. Start from [Run].
package leasetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// ttl is so long that no lease ends by itself while a case runs.
const ttl = time.Hour

// Harness is a store of leases that no other case uses, and direct access to its data.
type Harness interface {
	// Store returns the store.
	Store() lease.Store
	// Forget removes all data of a lease, as its expiry does.
	Forget(ctx context.Context, name string) error
}

var cases = []storagetest.Case[*subject]{
	{Name: "a lease has one holder", Notice: "two holders run at once", Run: oneHolder},
	{Name: "a repeat for the same token is the same grant", Notice: "a lost reply makes a lease unusable for its TTL",
		Run: acquireTwice},
	{Name: "fences rise from holder to holder", Notice: "a write of an earlier holder is accepted", Run: risingFences},
	{Name: "a lease ends by itself", Notice: "a holder that dies keeps its lease permanently", Run: endsByItself},
	{Name: "a renewal prolongs the lease", Notice: "a holder loses a lease that it renews", Run: renewalProlongs},
	{Name: "a renewal brings nothing back", Notice: "a holder whose lease ended goes on", Run: renewalRevivesNothing},
	{Name: "leases are renewed independently", Notice: "a lost lease takes others with it", Run: renewMany},
	{Name: "only its holder releases a lease", Notice: "an earlier holder ends the lease of a later one",
		Run: releaseOfAnother},
	{Name: "watchers are notified of a release", Notice: "a waiter waits for the end of a lease that was released",
		Run: watchers},
	{Name: "a watch that was stopped is silent", Notice: "a waiter that gave up leaves something behind",
		Run: watchStops},
	{Name: "names are as long as they may be", Notice: "a lease with a long name can't be held", Run: longLeaseName},
	{Name: "holders exclude each other", Notice: "two holders run at once", Run: exclusion},
}

// Run runs all cases of a store of leases as parallel subtests of t, each on a harness of its own.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	t.Helper()
	storagetest.Run(t, cases, func(t testing.TB) *subject {
		h := open(t)
		return &subject{t: t, h: h, store: h.Store()}
	})
}

// subject is a store, with the calls that cases make. An unexpected error fails the case.
type subject struct {
	t     testing.TB
	h     Harness
	store lease.Store
}

// job is the lease of most cases.
const job = "lock:job.1-A_z"

// brief is a TTL whose end a case waits for.
const brief = 50 * time.Millisecond

func (s *subject) try(name, token string, ttl time.Duration) (uint64, error) {
	return s.store.Acquire(s.t.Context(), lease.Request{Name: name, Token: token, TTL: ttl})
}

func (s *subject) acquire(name, token string, ttl time.Duration) (fence uint64) {
	s.t.Helper()
	fence, err := s.try(name, token, ttl)
	require.NoError(s.t, err)
	require.Positive(s.t, fence)
	return fence
}

// remaining returns how long another token must wait for a lease.
func (s *subject) remaining(name string) time.Duration {
	s.t.Helper()
	_, err := s.try(name, "stranger", ttl)
	var held *lease.HeldError
	require.ErrorAs(s.t, err, &held)
	return held.For
}

func (s *subject) renew(name, token string, ttl time.Duration) error {
	s.t.Helper()
	errs := s.store.Renew(s.t.Context(), []lease.Request{{Name: name, Token: token, TTL: ttl}})
	require.Len(s.t, errs, 1)
	return errs[0]
}

func (s *subject) release(name, token string) {
	s.t.Helper()
	require.NoError(s.t, s.store.Release(s.t.Context(), name, token))
}

// acquireLater acquires a lease as soon as its holder's time has ended.
func (s *subject) acquireLater(name, token string, ttl time.Duration) (fence uint64) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		var err error
		fence, err = s.try(name, token, ttl)
		return err == nil
	}, storagetest.Patience, time.Millisecond)
	return fence
}

func oneHolder(s *subject) {
	s.acquire(job, "a", ttl)
	_, err := s.try(job, "b", ttl)
	require.ErrorIs(s.t, err, lease.ErrHeld)
	remaining := s.remaining(job)
	require.Positive(s.t, remaining)
	require.LessOrEqual(s.t, remaining, ttl)
	s.acquire("another", "b", ttl)
}

func acquireTwice(s *subject) {
	fence := s.acquire(job, "a", ttl/2)
	require.Equal(s.t, fence, s.acquire(job, "a", ttl))
	require.Greater(s.t, s.remaining(job), ttl/2, "a repeat renews")
}

func risingFences(s *subject) {
	var fences []uint64
	for i := range 5 {
		token := fmt.Sprint(i)
		fences = append(fences, s.acquire(job, token, ttl))
		s.release(job, token)
	}
	fences = append(fences, s.acquire(job, "brief", brief), s.acquireLater(job, "after an end", ttl))
	require.NoError(s.t, s.h.Forget(s.t.Context(), job))
	fences = append(fences, s.acquire(job, "after all is gone", ttl))
	require.IsIncreasing(s.t, fences)
}

func endsByItself(s *subject) {
	s.acquire(job, "a", brief)
	s.acquireLater(job, "b", ttl)
	require.ErrorIs(s.t, s.renew(job, "a", ttl), lease.ErrLost)
	require.ErrorIs(s.t, s.store.Release(s.t.Context(), job, "a"), lease.ErrLost)
	require.NoError(s.t, s.renew(job, "b", ttl))
}

func renewalProlongs(s *subject) {
	fence := s.acquire(job, "a", ttl/2)
	require.NoError(s.t, s.renew(job, "a", ttl))
	require.Greater(s.t, s.remaining(job), ttl/2)
	require.Equal(s.t, fence, s.acquire(job, "a", ttl))
}

func renewalRevivesNothing(s *subject) {
	require.ErrorIs(s.t, s.renew(job, "a", ttl), lease.ErrLost, "never acquired")
	s.acquire(job, "a", ttl)
	s.release(job, "a")
	require.ErrorIs(s.t, s.renew(job, "a", ttl), lease.ErrLost, "released")
	s.acquire(job, "a", brief)
	s.acquireLater(job, "b", brief)
	require.Eventually(s.t, func() bool {
		errs := s.store.Renew(s.t.Context(), []lease.Request{{Name: job, Token: "b", TTL: brief / 10}})
		return errors.Is(errs[0], lease.ErrLost)
	}, storagetest.Patience, brief/5, "ended, although no other token has it")
	s.acquire(job, "c", ttl)
	require.NoError(s.t, s.h.Forget(s.t.Context(), job))
	require.ErrorIs(s.t, s.renew(job, "c", ttl), lease.ErrLost, "gone")
}

func renewMany(s *subject) {
	const many = 500
	requests := make([]lease.Request, many)
	for i := range requests {
		requests[i] = lease.Request{Name: fmt.Sprint("job", i), Token: fmt.Sprint(i), TTL: ttl}
		if i%3 > 0 {
			s.acquire(requests[i].Name, requests[i].Token, ttl/2)
		}
		if i%3 == 2 {
			requests[i].Token = "another"
		}
	}
	for i, err := range s.store.Renew(s.t.Context(), requests) {
		if i%3 != 1 {
			require.ErrorIs(s.t, err, lease.ErrLost, i)
			continue
		}
		require.NoError(s.t, err, i)
	}
	require.Greater(s.t, s.remaining("job1"), ttl/2)
	require.Empty(s.t, s.store.Renew(s.t.Context(), nil))
}

func releaseOfAnother(s *subject) {
	lost := func(token string) {
		s.t.Helper()
		require.ErrorIs(s.t, s.store.Release(s.t.Context(), job, token), lease.ErrLost)
	}
	lost("a stranger")
	s.acquire(job, "a", ttl)
	lost("b")
	require.NoError(s.t, s.renew(job, "a", ttl))
	s.release(job, "a")
	s.release(job, "a") // again, as after a lost reply
	s.acquire(job, "b", ttl)
	lost("a")
	require.NoError(s.t, s.renew(job, "b", ttl))
}

// watch begins to watch a lease, and returns when the watch has begun.
func (s *subject) watch(name string) (freed <-chan struct{}, stop func()) {
	s.t.Helper()
	return storagetest.Watch(s.t, func(freed func()) (stop func()) { return s.store.Watch(name, freed) })
}

func watchers(s *subject) {
	s.acquire(job, "a", ttl)
	first, _ := s.watch(job)
	second, _ := s.watch(job)
	s.release(job, "a")
	storagetest.Await(s.t, first)
	storagetest.Await(s.t, second)
	s.acquire(job, "b", ttl)
	s.release(job, "b")
	storagetest.Await(s.t, first)
}

func watchStops(s *subject) {
	stopped, stop := s.watch(job)
	stop()
	freed, _ := s.watch(job)
	s.acquire(job, "a", ttl)
	s.release(job, "a")
	storagetest.Await(s.t, freed)
	require.Empty(s.t, stopped)
}

func longLeaseName(s *subject) {
	name := strings.Repeat("x", lease.MaxNameBytes)
	require.NoError(s.t, lease.CheckName(name))
	s.acquire(name, "a", ttl)
	require.NoError(s.t, s.renew(name, "a", ttl))
	s.release(name, "a")
}

// exclusion lets managers compete for a lease, like managers of different processes.
func exclusion(s *subject) {
	const processes, runs = 8, 5
	ctx, cancel := context.WithTimeout(s.t.Context(), storagetest.Patience)
	defer cancel()
	var mu sync.Mutex
	inside, done, last := 0, 0, uint64(0)
	enter := func(fence uint64) {
		mu.Lock()
		defer mu.Unlock()
		inside++
		if inside > 1 || fence <= last {
			s.t.Errorf("%d holders at once, fence %d after %d", inside, fence, last)
		}
		last = fence
	}
	exit := func() {
		mu.Lock()
		defer mu.Unlock()
		inside--
		done++
	}
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			m, err := lease.NewManager(s.store, lease.Options{TTL: ttl})
			for i := 0; i < runs && err == nil; i++ {
				err = m.Hold(ctx, job, func(_ context.Context, fence uint64) error {
					enter(fence)
					defer exit()
					return nil
				})
			}
			if err != nil {
				s.t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(s.t, processes*runs, done)
}
