package cache

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// flight is one attempt to get a value, on behalf of all callers of this process that want it.
type flight[T any] struct {
	done   chan struct{} // closed when value and err are set
	value  T
	err    error
	wake   chan struct{} // buffered (capacity 1): the value or its claim may have changed
	cancel context.CancelFunc
}

// flights are the attempts of a cache. A flight isn't joined any more once its value, or the claim on it, has changed:
// its result may be outdated.
type flights[T any] struct {
	mu     sync.Mutex
	joined map[string]*flight[T]          // the one that callers can join, by ID
	all    map[string]map[*flight[T]]bool // all, by ID
	early  map[string]bool                // IDs that are loaded in the background
	closed bool
	wg     sync.WaitGroup
}

func newFlights[T any]() flights[T] {
	return flights[T]{joined: map[string]*flight[T]{}, all: map[string]map[*flight[T]]bool{}, early: map[string]bool{}}
}

// run is the body of a flight.
type run[T any] func(context.Context, *flight[T]) (T, error)

// join returns the flight for an ID, and starts it if there is none. It runs to its end even if no caller waits for it.
func (f *flights[T]) join(ctx context.Context, id string, limit time.Duration, do run[T]) *flight[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	mine, ok := f.joined[id]
	if !ok {
		mine = f.start(ctx, id, limit, do)
		f.joined[id] = mine
	}
	return mine
}

// background starts a flight without callers, unless there is one for the ID.
func (f *flights[T]) background(ctx context.Context, id string, limit time.Duration, do run[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.early[id] || f.closed {
		return
	}
	f.early[id] = true
	f.start(ctx, id, limit, func(ctx context.Context, mine *flight[T]) (T, error) {
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.early, id)
		}()
		return do(ctx, mine)
	})
}

// start runs a flight in a goroutine. The caller holds the lock.
func (f *flights[T]) start(ctx context.Context, id string, limit time.Duration, do run[T]) *flight[T] {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	mine := &flight[T]{done: make(chan struct{}), wake: make(chan struct{}, 1), cancel: cancel}
	if f.closed {
		cancel()
	}
	if f.all[id] == nil {
		f.all[id] = map[*flight[T]]bool{}
	}
	f.all[id][mine] = true
	f.wg.Go(func() {
		defer cancel()
		mine.value, mine.err = do(ctx, mine)
		f.end(id, mine)
		close(mine.done)
	})
	return mine
}

func (f *flights[T]) end(id string, mine *flight[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.joined[id] == mine {
		delete(f.joined, id)
	}
	if delete(f.all[id], mine); len(f.all[id]) == 0 {
		delete(f.all, id)
	}
}

// wake notifies the flights of an ID that the value or its claim has changed.
func (f *flights[T]) wake(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signal(id)
}

func (f *flights[T]) wakeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.all {
		f.signal(id)
	}
}

func (f *flights[T]) signal(id string) {
	delete(f.joined, id)
	for mine := range f.all[id] {
		pace.Signal(mine.wake)
	}
}

func (f *flights[T]) close() {
	f.mu.Lock()
	f.closed = true
	for _, some := range f.all {
		for mine := range some {
			mine.cancel()
		}
	}
	f.mu.Unlock()
	f.wg.Wait()
}

// wait returns the outcome of a flight, or the error of ctx.
func (mine *flight[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-mine.done:
		return mine.value, mine.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
