package shardtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"golang.org/x/time/rate"
)

// Load reads without a pause, and records the first read that failed.
type Load struct {
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	reads int
	err   error
}

const readers = 2

// StartLoad lets two readers call read, at most perSecond times a second together, until the test ends. A read returns
// an error if it fails or its answer is wrong, and the error fails the test.
func StartLoad(t testing.TB, perSecond int, read func(ctx context.Context, random *rand.Rand) error) *Load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	l := &Load{cancel: cancel}
	limit := rate.NewLimiter(rate.Limit(perSecond), 1)
	for range readers {
		l.running.Go(func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), 0)) //nolint:gosec // keys of a test
			for limit.Wait(ctx) == nil {
				l.done(ctx, read(ctx, random))
			}
		})
	}
	t.Cleanup(func() {
		l.Stop()
		if _, err := l.state(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return l
}

// Stop ends the reads before the test ends.
func (l *Load) Stop() {
	l.cancel()
	l.running.Wait()
}

func (l *Load) done(ctx context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.reads++
	case ctx.Err() == nil && l.err == nil:
		l.err = fmt.Errorf("a read failed, after %d: %w", l.reads, err)
	}
}

func (l *Load) state() (reads int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads, l.err
}

// Loads are the loads of several clients.
type Loads []*Load

// Await waits until n more reads have begun and succeeded.
func (l *Load) Await(t testing.TB, n int) {
	t.Helper()
	Loads{l}.Await(t, n)
}

// Await waits until n more reads of each have begun and succeeded.
func (all Loads) Await(t testing.TB, n int) {
	t.Helper()
	enough := make([]int, len(all))
	for i, l := range all {
		before, _ := l.state()
		enough[i] = before + readers + n // some have begun already
	}
	for i, l := range all {
		await(t, func() error {
			reads, err := l.state()
			if err != nil {
				t.Fatalf("%v", err)
			}
			if reads < enough[i] {
				return fmt.Errorf("%d of %d reads", reads, enough[i])
			}
			return nil
		})
	}
}
