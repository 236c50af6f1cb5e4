package channel

import (
	"errors"
	"fmt"
	"time"
)

// Limits bounds what one request can ask for, and how the service waits.
type Limits struct {
	DefaultMax int           // messages that a fetch answers with where it names no max
	MaxMax     int           // the largest max that a fetch may ask for
	FetchBytes int           // bytes of contents that a fetch answers with, but always one message
	MaxBatch   int           // messages in one publish
	MaxWait    time.Duration // the longest wait of a fetch; a longer one is invalid
	Linger     time.Duration // how long a channel is listened to after its last waiter has gone
	Backstop   time.Duration // how often the clock of a channel with waiters is read, in case a notification was lost
}

// LargestBatch is the most that MaxBatch can be: a store takes a batch in one step, and a Lua script can't hand more
// keys to one command of Redis.
const LargestBatch = 3000

// DefaultLimits gives the limits that the service has where none are configured.
func DefaultLimits() Limits {
	return Limits{
		DefaultMax: 64,
		MaxMax:     1000,
		FetchBytes: 4 << 20,
		MaxBatch:   1000,
		MaxWait:    time.Minute,
		Linger:     30 * time.Second,
		Backstop:   5 * time.Second,
	}
}

// Check tells whether the limits can be used.
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
