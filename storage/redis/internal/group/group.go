// Package group lets many goroutines share calls: group commit. The first item is sent at once, and items that arrive
// during its call are sent together in the next one. Start from [New].
package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

var (
	// ErrClosed is the error of Do after Close.
	ErrClosed = errors.New("the group is closed")
	// ErrDropped is the error of Do if its value was in no call.
	ErrDropped = errors.New("dropped before its call had begun")
)

// Options configures a Group. All fields are required.
type Options[T, R any] struct {
	// Run makes one call with the items of a key, and returns a result for each, in order. Its error is that of all of
	// them. The key's next call begins after pause. ctx has the values of one caller's context, and ends with the
	// group.
	Run   func(ctx context.Context, key string, items []T) (results []R, pause time.Duration, err error)
	Size  func(T) int   // bytes of an item
	Items int           // of a call at most
	Bytes int           // of the items of a call at most; a larger item has a call of its own
	Limit time.Duration // of Do, which may take a hundredth more
}

// Group makes calls for many goroutines, for each key one at a time. A key without items has no goroutine and no
// memory.
type Group[T, R any] struct {
	o       Options[T, R]
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	lanes  map[string]*lane[T, R] // of the keys with calls
	limit  chan struct{}          // closed when the limit of the calls of Do since begun has passed
	begun  time.Time
}

// lane is the items of one key that no call has taken yet. Its goroutine makes the calls.
type lane[T, R any] struct {
	items  []*item[T, R]
	cancel context.CancelFunc
}

// item is an item and its outcome. Only its lane's goroutine writes result and err, before it closes done.
type item[T, R any] struct {
	value  T
	left   bool // its caller no longer waits; guarded by the group's lock, like taken
	taken  bool // its call has begun
	done   chan struct{}
	result R
	err    error
}

// New returns a group. Close it.
func New[T, R any](o Options[T, R]) *Group[T, R] {
	return &Group[T, R]{o: o, lanes: map[string]*lane[T, R]{}}
}

// Do returns the result for a value of a call that may have values of other callers for the key too. If ctx ends
// before the value's call has begun, the value is dropped; if it ends later, the outcome is unknown. Errors: that of
// Run, that of ctx or context.DeadlineExceeded after the limit, together with ErrDropped if the value was dropped, and
// ErrClosed.
func (g *Group[T, R]) Do(ctx context.Context, key string, value T) (result R, err error) {
	if err := ctx.Err(); err != nil {
		return result, fmt.Errorf("%w: %w", ErrDropped, err)
	}
	it := &item[T, R]{value: value, done: make(chan struct{})}
	limit, err := g.add(ctx, key, it)
	if err != nil {
		return result, err
	}
	select {
	case <-it.done:
		return it.result, it.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit:
		err = context.DeadlineExceeded
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if it.taken {
		return result, err
	}
	it.left = true
	return result, fmt.Errorf("%w: %w", ErrDropped, err)
}

// add adds an item, and returns a channel that is closed when its limit has passed.
func (g *Group[T, R]) add(ctx context.Context, key string, it *item[T, R]) (limit <-chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	l := g.lanes[key]
	if l == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		l = &lane[T, R]{cancel: cancel}
		g.lanes[key] = l
		g.running.Go(func() {
			defer cancel()
			g.drain(ctx, key, l)
		})
	}
	l.items = append(l.items, it)
	return g.limitFrom(time.Now()), nil
}

// limitFrom returns a channel that is closed when the limit has passed. It has been made up to a hundredth of the limit
// ago: a timer for each caller would cost more than the rest of Do.
func (g *Group[T, R]) limitFrom(now time.Time) <-chan struct{} {
	if g.limit == nil || now.Sub(g.begun) > g.o.Limit/100 {
		limit := make(chan struct{})
		time.AfterFunc(g.o.Limit+g.o.Limit/100, func() { close(limit) })
		g.limit, g.begun = limit, now
	}
	return g.limit
}

// drain makes calls until the key has no items.
func (g *Group[T, R]) drain(ctx context.Context, key string, l *lane[T, R]) {
	for {
		items := g.take(key, l)
		if len(items) == 0 {
			return
		}
		pause := g.call(ctx, key, items)
		if pause <= 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// take takes the items of the next call. If there are none it removes the lane.
func (g *Group[T, R]) take(key string, l *lane[T, R]) (items []*item[T, R]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken, bytes := 0, 0
	for _, it := range l.items {
		size := g.o.Size(it.value)
		if !it.left {
			if len(items) == g.o.Items || len(items) > 0 && bytes+size > g.o.Bytes {
				break
			}
			it.taken = true
			items, bytes = append(items, it), bytes+size
		}
		taken++
	}
	l.items = slices.Delete(l.items, 0, taken)
	if len(items) == 0 {
		delete(g.lanes, key)
	}
	return items
}

// call makes one call and passes the results to its callers. It returns the pause before the next call.
func (g *Group[T, R]) call(ctx context.Context, key string, items []*item[T, R]) (pause time.Duration) {
	values := make([]T, len(items))
	for i, it := range items {
		values[i] = it.value
	}
	results, pause, err := g.o.Run(ctx, key, values)
	if err == nil && len(results) != len(items) {
		err = fmt.Errorf("%d results of %d items", len(results), len(items))
	}
	for i, it := range items {
		if it.err = err; err == nil {
			it.result = results[i]
		}
		close(it.done)
	}
	return pause
}

// Close ends the contexts of the calls in progress, and returns when all have ended.
func (g *Group[T, R]) Close() {
	g.mu.Lock()
	g.closed = true
	for _, l := range g.lanes {
		l.cancel()
	}
	g.mu.Unlock()
	g.running.Wait()
}
