package shard

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// Source is the source of a node's values.
type Source[K any, ID comparable, V any] interface {
	// Run loads the values of an interval and calls serve with a Reader of them. Then it keeps the values up to date
	// until ctx ends. It may call serve again, with a Reader of newer values. If it can't continue, it returns an
	// error: it is run again after a pause, and the last Reader answers meanwhile.
	//
	// A Source whose values can become old while the node has no claim is also a Refresher.
	Run(ctx context.Context, in Interval, serve func(Reader[K, ID, V])) error
}

// Refresher is a Source whose values can be older than those of its origin, for example because it couldn't be reached.
type Refresher interface {
	// Refresh returns nil once the last Reader returns every change that was made before the call. It waits while that
	// can't be done, also while Run loads the values again. A node that has claimed its shard again calls it before it
	// answers; ctx ends with the claim. After an error it is called again.
	Refresh(ctx context.Context) error
}

// Reader returns the values of keys, which are all in the interval; keys without a value are left out. It may be called
// by many goroutines, also after the Run that made it has returned.
type Reader[K any, ID comparable, V any] func(ctx context.Context, keys []K) ([]Entry[ID, V], error)

// Pauses between two runs of a source. They double from the first to the last, and begin again after a run that was
// longer.
const (
	firstReload = 100 * time.Millisecond
	lastReload  = 10 * time.Second
)

var errSourceEnded = errors.New("the source has ended")

// load holds the loaded values of a shard.
type load[K any, ID comparable, V any] struct {
	Claimed // the first claim; a later one can have another incarnation
	reader  atomic.Pointer[Reader[K, ID, V]]
	ready   chan struct{} // closed once there is a reader
	stop    func()        // ends the source, and waits for it
}

// startLoad runs a source for a shard until stop is called.
func startLoad[K any, ID comparable, V any](ctx context.Context, s Source[K, ID, V], c Claimed,
	o *NodeOptions) *load[K, ID, V] {
	ctx, cancel := context.WithCancel(ctx)
	l := &load[K, ID, V]{Claimed: c, ready: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(func() { l.run(ctx, s, o) })
	l.stop = func() {
		cancel()
		running.Wait()
	}
	return l
}

// run runs the source repeatedly until ctx ends.
func (l *load[K, ID, V]) run(ctx context.Context, s Source[K, ID, V], o *NodeOptions) {
	wait := backoff.ExponentialBackOff{InitialInterval: firstReload, MaxInterval: lastReload, Multiplier: 2,
		RandomizationFactor: 0.25}
	var first sync.Once
	for ctx.Err() == nil {
		began, served := time.Now(), false
		err := s.Run(ctx, l.Interval, func(r Reader[K, ID, V]) {
			l.reader.Store(&r)
			first.Do(func() { close(l.ready) })
			if !served {
				served = true
				o.Observer.Loaded(time.Since(began), nil)
			}
		})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errSourceEnded
		}
		if !served {
			o.Observer.Loaded(time.Since(began), err)
		}
		if time.Since(began) > lastReload {
			wait.Reset()
		}
		again := wait.NextBackOff()
		o.Logger.WarnContext(ctx, "the source failed, and will be loaded again", slog.Any("error", err),
			slog.Duration("after", again))
		pace.Sleep(ctx, again)
	}
}
