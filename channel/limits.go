package channel

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
)

// Limits bounds single requests, and configures how fetches wait.
type Limits struct {
	DefaultMax int           // messages that a fetch returns if it names no max
	MaxMax     int           // the largest max that a fetch may ask for
	FetchBytes int           // bytes of contents that a fetch returns; at least one message
	MaxBatch   int           // messages in one publish
	MaxWait    time.Duration // the longest wait that a fetch may ask for
	Linger     time.Duration // how long a channel is listened to after its last waiter, at most: see Service.Waiting
	Backstop   time.Duration // interval between reads of the clock of a channel with waiters, in case an event was lost
}

// LargestBatch is the largest possible MaxBatch: a Lua script can't pass more keys to one command of Redis.
const LargestBatch = 3000

// DefaultLimits returns the limits of a service without configuration.
func DefaultLimits() Limits {
	return Limits{
		DefaultMax: 64,
		MaxMax:     1000,
		FetchBytes: 4 << 20,
		MaxBatch:   250, // one script publishes all of them, and Redis serves nobody else meanwhile
		MaxWait:    time.Minute,
		Linger:     30 * time.Second,
		Backstop:   5 * time.Second,
	}
}

// Check returns an error if the limits are invalid.
func (l Limits) Check() error {
	switch {
	case l.MaxMax < 1:
		return fmt.Errorf("max fetch: %d isn't positive", l.MaxMax)
	case l.DefaultMax < 1 || l.DefaultMax > l.MaxMax:
		return fmt.Errorf("default fetch: %d isn't between 1 and %d", l.DefaultMax, l.MaxMax)
	case l.FetchBytes < 1:
		return fmt.Errorf("fetch bytes: %d isn't positive", l.FetchBytes)
	case l.MaxBatch < 1 || l.MaxBatch > LargestBatch:
		return fmt.Errorf("max batch: %d isn't between 1 and %d", l.MaxBatch, LargestBatch)
	case l.MaxWait < 0:
		return errors.New("max wait is negative")
	case l.Linger < 0:
		return errors.New("linger is negative")
	case l.Backstop <= 0:
		return errors.New("backstop isn't positive")
	}
	return nil
}

// bound checks a fetch's max, for which 0 is the default, and its wait.
func (l *Limits) bound(limit *int, wait time.Duration) error {
	if *limit == 0 {
		*limit = l.DefaultMax
	}
	if *limit < 1 || *limit > l.MaxMax {
		return invalid(fault.SlugInvalidMax, "max", "max is %d, it must be from 1 to %d", *limit, l.MaxMax)
	}
	if wait < 0 || wait > l.MaxWait {
		return invalid(fault.SlugInvalidWait, "wait", "wait is %s, it must be from 0s to %s", wait, l.MaxWait)
	}
	return nil
}
