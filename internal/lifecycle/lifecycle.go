// Package lifecycle runs the parts of a service, each on top of those that were started before it, and stops them in
// reverse order. Start at [New].
package lifecycle

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// Stack is the parts of a service that run. It is used by one goroutine.
type Stack struct {
	group  *errgroup.Group
	failed <-chan struct{} // closed when a part has failed
	stops  []func()
}

// New returns a stack without parts. The end of ctx stops nothing: only Stop does.
func New(ctx context.Context) *Stack {
	group, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	return &Stack{group: group, failed: failed.Done()}
}

// Run starts a part in a goroutine. run blocks until its context ends, which is when Stop reaches the part. A part that
// returns before that has failed, with or without an error.
func (s *Stack) Run(ctx context.Context, name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	s.group.Go(func() error {
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
	s.OnStop(func() {
		cancel()
		<-ended
	})
}

// OnStop makes Stop call f before it stops the parts that were started before.
func (s *Stack) OnStop(f func()) { s.stops = append(s.stops, f) }

// Wait returns when ctx ends or a part has failed.
func (s *Stack) Wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.failed:
	}
}

// Stop stops all parts, the last first, and returns the first failure.
func (s *Stack) Stop() error {
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
	return s.group.Wait()
}
