package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// layers runs the parts of the service, each on top of those before it, and stops them in reverse order. It is
// used by one goroutine.
type layers struct {
	group  *errgroup.Group
	failed <-chan struct{} // closed when a part has failed
	stops  []func()
}

func newLayers(ctx context.Context) *layers {
	group, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	return &layers{group: group, failed: failed.Done()}
}

// run starts a part, whose run blocks until its context ends: that is when stop comes to it, not when ctx ends. A
// part that ends before is a failure.
func (l *layers) run(ctx context.Context, name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	l.group.Go(func() error {
		defer close(ended)
		err := run(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			return fmt.Errorf("%s: %w", name, err)
		case err != nil:
			return fmt.Errorf("stop the %s: %w", name, err)
		case ctx.Err() == nil:
			return fmt.Errorf("%s: ended by itself", name)
		}
		return nil
	})
	l.onStop(func() {
		cancel()
		<-ended
	})
}

// onStop makes stop call f before it stops the parts that were started before.
func (l *layers) onStop(f func()) { l.stops = append(l.stops, f) }

// wait returns when ctx ends or a part has failed.
func (l *layers) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-l.failed:
	}
}

// stop stops all parts, the last first, and gives the first failure.
func (l *layers) stop() error {
	for i := len(l.stops) - 1; i >= 0; i-- {
		l.stops[i]()
	}
	return l.group.Wait()
}
