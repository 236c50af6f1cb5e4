package frames

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	rate     = 1000            // spent per second
	minBurst = 500             // spent at once, at least
	resume   = 100             // what a connection that has waited may spend before it waits again
	patience = 5 * time.Second // for a connection that is always beyond the limit
)

// Outcome is the effect of the limit on a connection.
type Outcome string

// The outcomes. A connection is slowed before it is closed.
const (
	Slowed Outcome = "slowed"
	Closed Outcome = "closed"
)

// Budget is what the client of one connection may spend on frames. Spend is called by the goroutine that reads the
// connection; the other methods may be called by several.
type Budget struct {
	exceeded func(Outcome)
	burst    float64

	remaining float64      // what the connection may spend
	refilled  time.Time    // when remaining was last refilled
	beyond    time.Time    // since when the connection has always been beyond the limit; zero: it isn't
	slowed    bool         // it was beyond the limit
	earned    atomic.Int64 // since remaining was last refilled

	ending sync.Once
	ended  chan struct{}
}

// NewBudget returns the budget of a new connection, which may spend burst at once, or 500 if that is more. Spend calls
// exceeded at most once with each outcome.
func NewBudget(burst int, exceeded func(Outcome)) *Budget {
	size := float64(max(minBurst, burst))
	return &Budget{exceeded: exceeded, burst: size, remaining: size, refilled: time.Now(), ended: make(chan struct{})}
}

// Spend spends a price, and waits if that is beyond the limit. It returns false if the connection must be closed.
func (b *Budget) Spend(price int) bool {
	b.remaining -= float64(price)
	return b.remaining >= 0 || b.refill(time.Now())
}

// Earn adds to what may be spent.
func (b *Budget) Earn(price int) { b.earned.Add(int64(price)) }

// Ended returns a channel that End closes.
func (b *Budget) Ended() <-chan struct{} { return b.ended }

// End ends the waiting: the connection is closed.
func (b *Budget) End() { b.ending.Do(func() { close(b.ended) }) }

// refill refills what the connection may spend, and waits if that isn't enough. It returns false if the connection must
// be closed.
func (b *Budget) refill(now time.Time) bool {
	b.remaining += now.Sub(b.refilled).Seconds()*rate + float64(b.earned.Swap(0))
	b.remaining = min(b.remaining, b.burst)
	b.refilled = now
	if b.remaining >= resume {
		b.beyond = time.Time{}
	}
	if b.remaining >= 0 {
		return true
	}
	switch {
	case b.beyond.IsZero():
		b.beyond = now
	case now.Sub(b.beyond) > patience:
		b.exceeded(Closed)
		return false
	}
	if !b.slowed {
		b.slowed = true
		b.exceeded(Slowed)
	}
	// a frame of the largest possible size would make it wait for a minute
	pause := time.NewTimer(min(patience, time.Duration((resume-b.remaining)/rate*float64(time.Second))))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-b.ended:
	}
	b.remaining, b.refilled = resume, time.Now()
	return true
}
