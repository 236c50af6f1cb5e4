// Package group lets many goroutines share calls: group commit. The first items are sent at once, each by its caller,
// and items that arrive while as many calls are in progress as may be are sent together in the next one. Start from
// [New].
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
type Options[K comparable, T, R any] struct {
	// Run makes one call with the items of a key, and returns a result for each, in order. Its error is that of all of
	// them. Its place among the key's calls is free again after pause. ctx is the caller's if its item is sent at once.
	// Otherwise it has the values of one caller's context, and ends with the group.
	Run   func(ctx context.Context, key K, items []T) (results []R, pause time.Duration, err error)
	Calls int           // of a key in progress at most
	Size  func(T) int   // bytes of an item
	Items int           // of a call at most
	Bytes int           // of the items of a call at most; a larger item has a call of its own
	Limit time.Duration // of a call that others may share, and of waiting for it; both may take a hundredth more
}

// Group makes calls for many goroutines. A key without items has no goroutine and no memory.
type Group[K comparable, T, R any] struct {
	o       Options[K, T, R]
	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	lanes   map[K]*lane[T, R]                      // of the keys with calls
	cancels map[context.Context]context.CancelFunc // of the calls that no caller makes itself
	limit   chan struct{}                          // closed when the limit of the calls of Do since begun has passed
	started time.Time
}

// lane is the items of one key that no call has taken yet.
type lane[T, R any] struct {
	items []*item[T, R]
	calls int // in progress, each with those after it
}

// item is an item and its outcome. Only the goroutine that makes its call writes result and err, before it closes done.
type item[T, R any] struct {
	value    T
	canceled bool // its caller no longer waits; guarded by the group's lock, like taken
	taken    bool // its call has begun
	done     chan struct{}
	result   R
	err      error
	tell     func(R, error)  // of Begin, in place of done
	limit    <-chan struct{} // of Begin
}

// New returns a group. Close it.
func New[K comparable, T, R any](o Options[K, T, R]) *Group[K, T, R] {
	return &Group[K, T, R]{o: o, lanes: map[K]*lane[T, R]{}, cancels: map[context.Context]context.CancelFunc{}}
}

// Do returns the result for a value of a call that may have values of other callers for the key too. If ctx ends
// before the value's call has begun, the value is dropped; if it ends later, the outcome is unknown. Errors: that of
// Run, that of ctx or context.DeadlineExceeded after the limit, together with ErrDropped if the value was dropped, and
// ErrClosed.
func (g *Group[K, T, R]) Do(ctx context.Context, key K, value T) (result R, err error) {
	if err := ctx.Err(); err != nil {
		return result, fmt.Errorf("%w: %w", ErrDropped, err)
	}
	it, limit, err := g.add(key, value)
	if err != nil {
		return result, err
	}
	if it == nil {
		return g.lead(ctx, key, value)
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
	it.canceled = true
	return result, fmt.Errorf("%w: %w", ErrDropped, err)
}

// begunCalls is how many calls of a key Begin makes at a time while no other key has any. Then one is under way while the
// answer to the other arrives. If there are other keys, their calls are; with one call more items share the next one.
const begunCalls = 2

// Begin is Do without waiting: tell is called once with the outcome, by a goroutine that others wait for too, so it must
// return soon: the outcome of Do, or ErrDropped with context.DeadlineExceeded after the limit. If Begin returns an error,
// tell isn't called. Errors: ErrClosed.
func (g *Group[K, T, R]) Begin(key K, value T, tell func(R, error)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	l := g.laneOf(key)
	l.items = append(l.items, &item[T, R]{value: value, tell: tell, limit: g.limitFrom(time.Now())})
	if l.calls == 0 || l.calls < min(g.o.Calls, begunCalls) && len(g.lanes) == 1 {
		l.calls++
		g.start(context.Background(), key, l, 0) //nolint:forbidigo // it has no caller's values
	}
	return nil
}

// laneOf returns the lane of a key. The lock is held.
func (g *Group[K, T, R]) laneOf(key K) *lane[T, R] {
	l := g.lanes[key]
	if l == nil {
		l = &lane[T, R]{}
		g.lanes[key] = l
	}
	return l
}

// start starts a goroutine that makes calls after a pause. ctx is a caller's. The lock is held.
func (g *Group[K, T, R]) start(ctx context.Context, key K, l *lane[T, R], pause time.Duration) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g.cancels[ctx] = cancel
	if g.closed {
		cancel()
	}
	g.running.Go(func() {
		defer cancel()
		g.rest(ctx, pause)
		g.drain(ctx, key, l)
	})
}

// add adds an item, and returns a channel that is closed when its limit has passed. If the key may have another call,
// it adds none: the caller makes that.
func (g *Group[K, T, R]) add(key K, value T) (it *item[T, R], limit <-chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, nil, ErrClosed
	}
	l := g.laneOf(key)
	if l.calls < g.o.Calls {
		l.calls++
		g.running.Add(1)
		return nil, nil, nil
	}
	it = &item[T, R]{value: value, done: make(chan struct{})}
	l.items = append(l.items, it)
	return it, g.limitFrom(time.Now()), nil
}

// lead makes a call with the caller's value alone. A goroutine makes the next one if others wait, or if there is a
// pause.
func (g *Group[K, T, R]) lead(ctx context.Context, key K, value T) (result R, err error) {
	defer g.running.Done()
	var results []R
	var pause time.Duration
	defer func() { g.follow(ctx, key, pause) }() // also if the call panics
	if results, pause, err = g.run(ctx, key, []T{value}); err == nil {
		result = results[0]
	}
	return result, err
}

// run makes one call.
func (g *Group[K, T, R]) run(ctx context.Context, key K, values []T) (results []R, pause time.Duration, err error) {
	results, pause, err = g.o.Run(ctx, key, values)
	if err == nil && len(results) != len(values) {
		err = fmt.Errorf("%d results of %d items", len(results), len(values))
	}
	return results, pause, err
}

// follow ends a call of lead. ctx is its caller's.
func (g *Group[K, T, R]) follow(ctx context.Context, key K, pause time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[key]
	if len(l.items) == 0 && pause <= 0 {
		g.done(key, l)
		return
	}
	g.start(ctx, key, l, pause)
}

// done frees a call's place. The lock is held.
func (g *Group[K, T, R]) done(key K, l *lane[T, R]) {
	if l.calls--; l.calls == 0 {
		delete(g.lanes, key)
	}
}

// limitFrom returns a channel that is closed when the limit has passed. It has been made up to a hundredth of the limit
// ago: a timer for each caller would cost more than the rest of Do.
func (g *Group[K, T, R]) limitFrom(now time.Time) <-chan struct{} {
	if g.limit == nil || now.Sub(g.started) > g.o.Limit/100 {
		limit := make(chan struct{})
		time.AfterFunc(g.o.Limit+g.o.Limit/100, func() {
			close(limit)
			g.expire(limit)
		})
		g.limit, g.started = limit, now
	}
	return g.limit
}

// expire drops the items of Begin whose limit has passed.
func (g *Group[K, T, R]) expire(limit <-chan struct{}) {
	g.mu.Lock()
	var expired []*item[T, R]
	for _, l := range g.lanes {
		for _, it := range l.items {
			if it.limit == limit {
				it.canceled = true
				expired = append(expired, it)
			}
		}
	}
	g.mu.Unlock()
	for _, it := range expired {
		it.tell(it.result, fmt.Errorf("%w: %w", ErrDropped, context.DeadlineExceeded))
	}
}

// drain makes calls until the key has no items.
func (g *Group[K, T, R]) drain(ctx context.Context, key K, l *lane[T, R]) {
	for {
		items := g.take(ctx, key, l)
		if len(items) == 0 {
			return
		}
		g.rest(ctx, g.call(ctx, key, items))
	}
}

// rest waits for a pause, or until ctx ends.
func (g *Group[K, T, R]) rest(ctx context.Context, pause time.Duration) {
	if pause <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// take takes the items of the next call of a goroutine with ctx. If there are none there is no next call.
func (g *Group[K, T, R]) take(ctx context.Context, key K, l *lane[T, R]) (items []*item[T, R]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken, bytes := 0, 0
	for _, it := range l.items {
		size := g.o.Size(it.value)
		if !it.canceled {
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
		delete(g.cancels, ctx)
		g.done(key, l)
	}
	return items
}

// call makes one call and passes the results to its callers. It returns the pause before the next call.
func (g *Group[K, T, R]) call(ctx context.Context, key K, items []*item[T, R]) (pause time.Duration) {
	values := make([]T, len(items))
	for i, it := range items {
		values[i] = it.value
	}
	ctx, cancel := context.WithTimeout(ctx, g.o.Limit)
	defer cancel()
	results, pause, err := g.run(ctx, key, values)
	for i, it := range items {
		if it.err = err; err == nil {
			it.result = results[i]
		}
		if it.tell != nil {
			it.tell(it.result, it.err)
			continue
		}
		close(it.done)
	}
	return pause
}

// Waiting returns the number of items that no call has taken.
func (g *Group[K, T, R]) Waiting() (items int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.lanes {
		items += len(l.items)
	}
	return items
}

// Close ends the contexts of the shared calls in progress, and returns when all calls have ended. Those that callers
// make for themselves end with their contexts.
func (g *Group[K, T, R]) Close() {
	g.mu.Lock()
	g.closed = true
	for _, cancel := range g.cancels {
		cancel()
	}
	g.mu.Unlock()
	g.running.Wait()
}
