package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/id"
)

// Loader returns a value from the source of truth, or ErrNotFound. Its context has no caller's deadline, since it
// serves all callers.
type Loader[T any] func(ctx context.Context) (T, error)

// ErrPanic is the error of a loader that panicked.
var ErrPanic = errors.New("the loader panicked")

// ErrLoadTimeout is the error of a loader that took longer than Options.LoadTimeout, or of a load that waited for that
// long because MaxLoads loaders were running.
var ErrLoadTimeout = &fault.Error{
	Kind: fault.Unavailable, Slug: fault.SlugOverloaded, Detail: "loading the value took too long",
	RetryAfter: time.Second,
}

// Load returns a value that is cached, or loads it. Of many callers in all processes, one runs its loader; all get its
// result, also an error. A value is loaded again in the background shortly before it ends. If Redis doesn't answer,
// each process loads for itself. Errors: ErrNotFound; the loader's; ErrPanic; ErrLoadTimeout; ctx's.
func (c *Cache[T]) Load(ctx context.Context, name string, load Loader[T]) (T, error) {
	if k, early := c.local.get(name); k != nil {
		if early {
			c.flights.background(ctx, name, c.o.LoadTimeout+claimSlack, func(ctx context.Context, _ *flight[T]) (T,
				error) {
				return c.again(ctx, name, load)
			})
		}
		return c.answer(k)
	}
	if err := c.check(name); err != nil {
		var none T
		return none, err
	}
	limit := 2*c.o.LoadTimeout + claimSlack // another process's loader, and then this one's
	return c.flights.join(ctx, name, limit, func(ctx context.Context, mine *flight[T]) (T, error) {
		return c.fill(ctx, name, mine, load)
	}).wait(ctx)
}

// fill reads a value, loads it, or waits for the process that is loading it.
func (c *Cache[T]) fill(ctx context.Context, name string, mine *flight[T], load Loader[T]) (value T, err error) {
	c.count(Miss)
	a := &attempt[T]{Cache: c, key: c.key(name), token: id.New(), mine: mine, load: load, mode: Fill}
	for again := true; again && err == nil; {
		value, again, err = a.try(ctx)
	}
	return value, err
}

// reloads is how often a value that was invalidated during its load is loaded again. Callers may have come after the
// invalidation.
const reloads = 2

// again loads a value that is about to end, unless another process does, or too many loaders run.
func (c *Cache[T]) again(ctx context.Context, name string, load Loader[T]) (value T, err error) {
	a := &attempt[T]{
		Cache: c, key: c.key(name), token: id.New(), mine: &flight[T]{}, load: load, mode: Refresh,
	}
	select {
	case c.loads <- struct{}{}:
	default:
		return value, nil
	}
	claimed, err := a.claim(ctx)
	if err != nil || claimed.Outcome != Granted {
		<-c.loads
		return value, err
	}
	if value, err = a.make(ctx); err == nil {
		c.count(Refreshed)
	}
	return value, err
}

// attempt is the state of getting one value.
type attempt[T any] struct {
	*Cache[T]
	key   Key
	token string
	mine  *flight[T]
	load  Loader[T]
	mode  Mode
	began time.Time // when the claim was about to be made

	superseded int // how often a loaded value was not stored because it had been invalidated; 0 once one was stored
}

// try gets the value, or waits until it may be there. It reports whether it must be called again.
func (a *attempt[T]) try(ctx context.Context) (value T, again bool, err error) {
	if a.down.is() {
		return a.alone(ctx)
	}
	entry, err := a.read(ctx)
	if err != nil {
		return a.withoutRedis(ctx, err)
	}
	if entry.Found {
		if value, err = a.take(a.key.ID, entry); err == nil {
			return value, false, nil
		}
		a.mode = Refresh // replaces the value that can't be decoded
	}
	if err := a.enter(ctx); err != nil {
		return value, false, err
	}
	claimed, err := a.claim(ctx)
	if err == nil && claimed.Outcome == Granted {
		value, err = a.make(ctx)
		again = err == nil && a.superseded > 0 && a.superseded <= reloads
		return value, again, err
	}
	if err != nil { // such as a full Redis, which can still be read
		a.count(NotStored)
		value, err = a.call(ctx)
		a.end(ctx, 0) // it may have been granted
		return value, false, err
	}
	<-a.loads
	switch claimed.Outcome {
	case Stored:
		a.count(HitRedis)
		value, err = a.o.Codec.Decode(claimed.Bytes)
		return value, false, err
	case Absent:
		a.keepAbsent(ctx)
		return value, false, ErrNotFound
	case Granted, Busy:
	}
	return value, true, a.await(ctx, claimed.Left)
}

func (a *attempt[T]) read(ctx context.Context) (Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	entries, err := a.store.Read(ctx, a.key.Kind, []string{a.key.ID})
	if err != nil {
		return Entry{}, err
	}
	return entries[0], nil
}

func (a *attempt[T]) claim(ctx context.Context) (Claimed, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a.began = time.Now()
	return a.store.Claim(ctx, a.key, a.Cache.claim(a.token, a.mode))
}

// enter waits until a loader may run.
func (a *attempt[T]) enter(ctx context.Context) error {
	select {
	case a.loads <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ErrLoadTimeout.WithCause(ctx.Err())
	}
}

// withoutRedis loads the value after Redis didn't answer.
func (a *attempt[T]) withoutRedis(ctx context.Context, err error) (value T, again bool, _ error) {
	if ctx.Err() != nil {
		return value, false, ErrLoadTimeout.WithCause(err)
	}
	a.down.report()
	return a.alone(ctx)
}

// alone loads the value without Redis.
func (a *attempt[T]) alone(ctx context.Context) (value T, again bool, err error) {
	a.count(Unreachable)
	if err = a.enter(ctx); err == nil {
		value, err = a.call(ctx)
	}
	return value, false, err
}

// await waits until the claim of another process has ended.
func (a *attempt[T]) await(ctx context.Context, left time.Duration) error {
	select {
	case <-a.mine.wake:
	default:
	}
	watched, err := a.store.Watch(ctx, a.key)
	if err != nil || !watched.Found || watched.Absent {
		// The claim is not in memory yet. Usually a notification is about to arrive and wake the flight.
		left = min(left, unseen)
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-a.mine.wake:
	case <-timer.C:
	case <-ctx.Done():
		return ErrLoadTimeout.WithCause(ctx.Err())
	}
	return nil
}

// unseen is how long a flight waits for a claim that it can't watch.
const unseen = 20 * time.Millisecond

// make loads the value under a claim, and stores it.
func (a *attempt[T]) make(ctx context.Context) (T, error) {
	// From here on the end of the claim is reported, and callers that come after an invalidation don't join the flight.
	// If the claim can't be watched, Redis is probably unreachable, and the store will fail too.
	_, _ = a.store.Watch(ctx, a.key)
	value, err := a.call(ctx)
	switch {
	case err == nil:
		a.keepInRedis(ctx, value)
	case errors.Is(err, ErrNotFound):
		a.end(ctx, max(0, a.o.NegativeTTL))
		if a.mode == Refresh {
			_ = a.remove(ctx, a.key.ID) // or it ends by itself
		}
	default:
		a.end(ctx, 0)
	}
	return value, err
}

// keepInRedis stores a loaded value. The callers get it in any case.
func (a *attempt[T]) keepInRedis(ctx context.Context, value T) {
	v, err := a.encode(a.key.ID, a.token, value)
	if err == nil {
		storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		v.Began = a.began
		err = a.store.Store(storing, v)
	}
	switch {
	case err == nil:
		a.superseded = 0
	case errors.Is(err, ErrSuperseded):
		a.superseded++
		a.count(Superseded)
		a.end(ctx, 0)
	default:
		a.count(NotStored)
		a.end(ctx, 0)
	}
}

// end ends the claim. If that fails, the claim expires.
func (a *attempt[T]) end(ctx context.Context, absent time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_ = a.store.End(ctx, a.key, a.token, absent)
}

func (a *attempt[T]) keepAbsent(ctx context.Context) {
	w, err := a.store.Watch(ctx, a.key)
	if err == nil && w.Absent {
		a.local.keep(a.key.ID, &kept[T]{absent: true, until: w.Until}, w.Fresh)
	}
}

// outcome is the result of a loader.
type outcome[T any] struct {
	value T
	err   error
}

// call runs the loader, and releases the slot that enter acquired when the loader returns: it may run longer than call.
func (a *attempt[T]) call(ctx context.Context) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, a.o.LoadTimeout)
	defer cancel()
	done := make(chan outcome[T], 1)
	go func() {
		o := outcome[T]{err: ErrPanic} // also if the loader ends its goroutine
		defer func() {
			<-a.loads
			done <- o
		}()
		o = guarded(ctx, a.load)
	}()
	var o outcome[T]
	select {
	case o = <-done:
	case <-ctx.Done():
		o.err = ctx.Err()
	}
	switch {
	case o.err == nil, errors.Is(o.err, ErrNotFound):
		a.count(Loaded)
	default:
		a.count(LoadFailed)
		if ctx.Err() != nil && errors.Is(o.err, ctx.Err()) {
			o.err = ErrLoadTimeout.WithCause(o.err)
		}
	}
	return o.value, o.err
}

// guarded runs a loader and converts its panic to an error.
func guarded[T any](ctx context.Context, load Loader[T]) (o outcome[T]) {
	defer func() {
		if reason := recover(); reason != nil {
			o.err = fmt.Errorf("%w: %v\n%s", ErrPanic, reason, debug.Stack())
		}
	}()
	o.value, o.err = load(ctx)
	return o
}
