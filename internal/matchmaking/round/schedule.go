package round

import (
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// Schedule decides when the next round starts. After a round that found matches the next one starts a debounce later at
// most, so that under load many tickets share a claim. After one that found none it starts when twice the duration of
// that round has passed, so that the second ticket of a pair does not wait.
type Schedule struct {
	debounce  time.Duration
	notBefore time.Time // of the next round
	failures  *backoff.ExponentialBackOff
}

// NewSchedule returns a schedule whose first round is due at once.
func NewSchedule(debounce time.Duration) *Schedule {
	return &Schedule{debounce: debounce, failures: pace.NewBackoff()}
}

// foundRest is the pause after a round that found matches, as a multiple of the round's duration. A round takes longer
// the busier Redis and the server are, so that under load the debounce applies.
const foundRest = 4

// minTimed is the least time between rounds that only the passing of time has caused.
const minTimed = 5 * time.Millisecond

// Held records a round.
func (s *Schedule) Held(began, now time.Time, found, timed bool) {
	s.failures.Reset()
	took := now.Sub(began)
	switch {
	case found:
		s.notBefore = began.Add(min(s.debounce, foundRest*took))
	case timed:
		s.notBefore = began.Add(max(s.debounce, minTimed))
	default:
		s.notBefore = began.Add(min(s.debounce, 3*took))
	}
}

// Failed records a round that failed and must be held again.
func (s *Schedule) Failed(now time.Time) { s.notBefore = now.Add(s.failures.NextBackOff()) }

// Next returns when the next round is due, because tickets have become available, or because the match function may
// find more matches at that time without a change; zero: never.
func (s *Schedule) Next(changed bool, later time.Time) (at time.Time, ok bool) {
	switch {
	case changed:
		return s.notBefore, true
	case later.IsZero():
		return at, false
	case later.After(s.notBefore):
		return later, true
	default:
		return s.notBefore, true
	}
}
