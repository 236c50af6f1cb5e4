package cache

import (
	"context"
	"sync"
	"time"
)

// flight is one attempt to get a value, on behalf of all callers of this process that want it.
type flight[T any] struct {
	done   chan struct{} // closed when value and err are set
	value  T
	err    error
	wake   chan struct{} // buffered (capacity 1): the value or its claim may have changed
	cancel context.CancelFunc

	loading bool // the loader has begun; under the lock of flights
}

// flights are the attempts of a cache. A flight whose value was invalidated while its loader ran isn't joined any more.
type flights[T any] struct {
	mu     sync.Mutex
	joined map[string]*flight[T] // those that callers can join
	early  map[string]bool       // values that are loaded in the background
	all    map[*flight[T]]struct{}
	closed bool
	wg     sync.WaitGroup
}

func newFlights[T any]() flights[T] {
	return flights[T]{joined: map[string]*flight[T]{}, early: map[string]bool{}, all: map[*flight[T]]struct{}{}}
}

// join returns the flight for an ID, and starts it if there is none. It ends by itself, whoever waits for it.
func (f *flights[T]) join(ctx context.Context, id string, limit time.Duration, run func(context.Context, *flight[T]) (T, error)) *flight[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if mine, ok := f.joined[id]; ok {
		return mine
	}
	mine := f.start(ctx, limit, run, func(mine *flight[T]) {
		if f.joined[id] == mine {
			delete(f.joined, id)
		}
	})
	if !f.closed {
		f.joined[id] = mine
	}
	return mine
}

// background starts a flight that nobody waits for, unless there is one for the ID.
func (f *flights[T]) background(ctx context.Context, id string, limit time.Duration, run func(context.Context, *flight[T]) (T, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.early[id] || f.closed {
		return
	}
	f.early[id] = true
	f.start(ctx, limit, run, func(*flight[T]) { delete(f.early, id) })
}

// start runs a flight in a goroutine. over is called under the lock when it has ended.
func (f *flights[T]) start(
	ctx context.Context, limit time.Duration, run func(context.Context, *flight[T]) (T, error), over func(*flight[T]),
) *flight[T] {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	mine := &flight[T]{done: make(chan struct{}), wake: make(chan struct{}, 1), cancel: cancel}
	if f.closed {
		cancel()
	}
	f.all[mine] = struct{}{}
	f.wg.Go(func() {
		defer cancel()
		mine.value, mine.err = run(ctx, mine)
		f.mu.Lock()
		delete(f.all, mine)
		over(mine)
		f.mu.Unlock()
		close(mine.done)
	})
	return mine
}

// begin marks that a flight's loader begins: a change from now on makes the flight one that isn't joined.
func (f *flights[T]) begin(mine *flight[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	mine.loading = true
}

// wake tells the flight of an ID that the value or its claim may have changed.
func (f *flights[T]) wake(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if mine, ok := f.joined[id]; ok {
		f.signal(id, mine)
	}
}

func (f *flights[T]) wakeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, mine := range f.joined {
		f.signal(id, mine)
	}
}

func (f *flights[T]) signal(id string, mine *flight[T]) {
	if mine.loading {
		delete(f.joined, id)
	}
	select {
	case mine.wake <- struct{}{}:
	default:
	}
}

func (f *flights[T]) close() {
	f.mu.Lock()
	f.closed = true
	for mine := range f.all {
		mine.cancel()
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
