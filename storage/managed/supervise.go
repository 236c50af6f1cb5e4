package managed

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// steadyAfter is how long a child must have run for its end not to count as
	// a further failure in a row.
	steadyAfter = 10 * time.Second

	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
)

// supervise runs one child after the other until ctx ends.
func (s *Server) supervise(ctx context.Context) error {
	// Linux ends the child when the thread that started it ends, so this thread
	// must live as long as the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	pause := &backoff.ExponentialBackOff{
		InitialInterval: firstPause, MaxInterval: longestPause,
		Multiplier: backoff.DefaultMultiplier, RandomizationFactor: backoff.DefaultRandomizationFactor,
	}
	run := func() (struct{}, error) {
		started := time.Now()
		err := s.runChild(ctx)
		switch {
		case ctx.Err() != nil:
			s.logStop(err)
			return struct{}{}, nil //nolint:nilerr // the stop was requested
		case !s.hasAnswered():
			return struct{}{}, backoff.Permanent(fmt.Errorf("start the managed redis in %s: %w", s.dataDir, err))
		case time.Since(started) >= steadyAfter:
			pause.Reset()
		}
		return struct{}{}, err
	}
	_, err := backoff.Retry(ctx, run, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, wait time.Duration) {
			s.log.Error("the managed redis ended by itself; it is started again", "error", err, "pause", wait)
		}))
	if ctx.Err() != nil {
		return nil // stopped in a pause
	}
	return err
}

func (s *Server) logStop(err error) {
	if err != nil && !errors.Is(err, context.Canceled) { // canceled: no child was running
		s.log.Warn("the managed redis did not end in good order", "error", err)
		return
	}
	s.log.Info("the managed redis has ended")
}

func (s *Server) hasAnswered() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}
