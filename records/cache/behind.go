package cache

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/lease"
)

const (
	writeBackoff    = 100 * time.Millisecond // before a value whose write failed is written again, at first
	maxWriteBackoff = 30 * time.Second
	writePage       = 32 // values that are read, and marked as written, at once
)

// Write is a value for the source of truth.
type Write[T any] struct {
	ID    string
	Value T
	// Fence rises with each process that becomes the writer. A source that refuses lower numbers than it has seen is
	// safe from a writer that was paused, and goes on when another has taken over.
	Fence uint64
	// Position rises with each value, and is the same when a value is written again.
	Position string
}

// WriteBehind is the write-behind strategy on a cache: a written value is first appended to a stream, and then cached.
// One process at a time writes the values to the source of truth, those of each ID in order, each at least once. It may
// be used by many goroutines.
type WriteBehind[T any] struct {
	cache  *Cache[T]
	queue  Queue
	leases *lease.Manager
	write  func(ctx context.Context, w Write[T]) error
}

// NewWriteBehind returns the strategy on a cache. write writes one value to the source of truth; it must return soon
// after its context has ended. A failed write is retried with growing pauses of up to 30 seconds until it succeeds;
// values of other IDs are written meanwhile. leases elects the writer.
func NewWriteBehind[T any](
	c *Cache[T], queue Queue, leases *lease.Manager, write func(ctx context.Context, w Write[T]) error,
) *WriteBehind[T] {
	return &WriteBehind[T]{cache: c, queue: queue, leases: leases, write: write}
}

// Write accepts a value. After it has returned nil, the value reaches the source of truth, even if all processes end
// before that. Errors: ErrBacklogFull; those of Cache.Put. After an error of package fault of kind Unavailable the
// value may have been accepted.
func (w *WriteBehind[T]) Write(ctx context.Context, name string, value T) error {
	c := w.cache
	if err := c.check(name); err != nil {
		return err
	}
	v, err := c.encode(name, id.New(), value)
	if err != nil {
		return err
	}
	// The older value is removed first, and the claim prevents others from loading it again. So a process that ends
	// after any of the steps leaves no older value in the cache; without the claim a reader finds the value in the
	// queue.
	if _, err := c.store.Claim(ctx, v.Key, c.claim(v.Token, Over)); err != nil {
		return err
	}
	if err := w.queue.Add(ctx, v); err != nil {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_ = c.store.End(ending, v.Key, v.Token, 0) // or the claim ends by itself
		return err
	}
	if c.store.Store(ctx, v) != nil { // it is accepted all the same
		_ = c.remove(ctx, name)
	}
	return nil
}

// Load is Cache.Load, except that a value in the queue takes precedence over the source of truth.
func (w *WriteBehind[T]) Load(ctx context.Context, name string, load Loader[T]) (T, error) {
	return w.cache.Load(ctx, name, func(ctx context.Context) (T, error) {
		data, found, err := w.queue.Pending(ctx, w.cache.key(name))
		if err != nil {
			var none T
			return none, err
		}
		if found {
			return w.cache.o.Codec.Decode(data)
		}
		return load(ctx)
	})
}

// Flush waits until the queue is empty: call it before the last Run ends. Errors: ctx's, and those of package fault.
func (w *WriteBehind[T]) Flush(ctx context.Context) error {
	changed, stop := w.watch()
	defer stop()
	for {
		first, err := w.queue.Read(ctx, w.cache.o.Kind, "", 1)
		if err != nil || len(first) == 0 {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *WriteBehind[T]) watch() (changed <-chan struct{}, stop func()) {
	signal := make(chan struct{}, 1)
	return signal, w.queue.Watch(w.cache.o.Kind, func() { pace.Signal(signal) })
}

// Run writes the values in the queue to the source of truth until ctx ends, while no other process does. Writes that
// ctx interrupts are repeated by the next writer. An empty queue costs Redis nothing.
func (w *WriteBehind[T]) Run(ctx context.Context) {
	changed, stop := w.watch()
	defer stop()
	pause := newWriteBackoff()
	for ctx.Err() == nil {
		first, err := w.queue.Read(ctx, w.cache.o.Kind, "", 1)
		if err == nil && len(first) > 0 {
			err = w.leases.Hold(ctx, "cache-writer."+w.cache.o.Kind.Name,
				func(ctx context.Context, fence uint64) error {
					return w.drain(ctx, fence, changed)
				})
		}
		if err == nil {
			pause.Reset()
			if len(first) == 0 {
				wait(ctx, changed, 0)
			}
			continue
		}
		w.cache.count(WriteFailed)
		wait(ctx, nil, pause.NextBackOff())
	}
}

func newWriteBackoff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = writeBackoff, maxWriteBackoff
	return b
}

// wait waits for a change, a duration, or the end of ctx. A duration of 0 means no limit.
func wait(ctx context.Context, changed <-chan struct{}, limit time.Duration) {
	var over <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-changed:
	case <-over:
	case <-ctx.Done():
	}
}

// drain writes the values in the queue until it is empty. Failed values are retried periodically; between the retries
// only new values are read.
func (w *WriteBehind[T]) drain(ctx context.Context, fence uint64, changed <-chan struct{}) error {
	pause, last := newWriteBackoff(), 0
	for {
		failed := map[string]bool{}
		at, err := w.pass(ctx, fence, "", failed)
		if err != nil || len(failed) == 0 {
			return err
		}
		if len(failed) < last {
			pause.Reset()
		}
		last = len(failed)
		again := time.Now().Add(pause.NextBackOff())
		for left := time.Until(again); left > 0; left = time.Until(again) {
			wait(ctx, changed, left)
			if at, err = w.pass(ctx, fence, at, failed); err != nil {
				return err
			}
		}
	}
}

// pass writes the values after a position, and returns the last one's. It adds the IDs whose values fail to failed. It
// skips later values of these IDs, so that the values of an ID are written in order.
func (w *WriteBehind[T]) pass(ctx context.Context, fence uint64, after string, failed map[string]bool) (last string,
	err error) {
	for ctx.Err() == nil {
		page, err := w.queue.Read(ctx, w.cache.o.Kind, after, writePage)
		if err != nil || len(page) == 0 {
			return after, err
		}
		if err := w.writePage(ctx, fence, page, failed); err != nil {
			return after, err
		}
		after = page[len(page)-1].Position
	}
	return after, ctx.Err()
}

func (w *WriteBehind[T]) writePage(ctx context.Context, fence uint64, page []Queued, failed map[string]bool) error {
	var written []Queued
	for _, q := range page {
		if failed[q.ID] || ctx.Err() != nil {
			continue
		}
		if err := w.guarded(ctx, fence, q); err != nil {
			w.cache.count(WriteFailed)
			failed[q.ID] = true
			continue
		}
		w.cache.count(Written)
		written = append(written, q)
	}
	if len(written) == 0 {
		return nil
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeFor) // it needn't be written again
	defer cancel()
	return w.queue.Done(ending, w.cache.o.Kind, written)
}

// guarded writes a value. A panic is an error.
func (w *WriteBehind[T]) guarded(ctx context.Context, fence uint64, q Queued) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("the writer panicked: %v\n%s", reason, debug.Stack())
		}
	}()
	value, err := w.cache.o.Codec.Decode(q.Bytes)
	if err != nil {
		return err
	}
	return w.write(ctx, Write[T]{ID: q.ID, Value: value, Fence: fence, Position: q.Position})
}
