package shards_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"golang.org/x/time/rate"
)

// load reads without a pause, and remembers the first read that failed.
type load struct {
	mu    sync.Mutex
	reads int
	err   error
}

const readers = 2

// load lets two readers read, at most 25 times a second together, until the test ends. A read that fails, or whose
// answer is wrong, fails the test.
func (c client) load(t *testing.T) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	l := new(load)
	limit := rate.NewLimiter(25, 1)
	var running sync.WaitGroup
	for range readers {
		running.Go(func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), 0))
			for limit.Wait(ctx) == nil {
				l.done(ctx, c.read(ctx, random))
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if _, err := l.state(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func (l *load) done(ctx context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.reads++
	case ctx.Err() == nil && l.err == nil:
		l.err = fmt.Errorf("a read failed, after %d: %w", l.reads, err)
	}
}

func (l *load) state() (reads int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads, l.err
}

// loads are those of several clients.
type loads []*load

// await waits until n more reads have begun and succeeded.
func (l *load) await(t *testing.T, n int) {
	t.Helper()
	loads{l}.await(t, n)
}

// await waits until n more reads of each have begun and succeeded.
func (all loads) await(t *testing.T, n int) {
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
