// Package flight makes the calls of a Get: all hosts that have a key are asked, and the first answer counts.
//
// A [Control] has the flights of one client. A flight has the calls of one Get. It is run by the goroutine that called
// Get, which owns all of it but the results of calls. Each call has a goroutine of its own, which may outlive the Get:
// its answer is late then.

package shard

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// errEnded is the error of flights of a Control that was ended.
var errEnded = errors.New("ended")

// flightOptions configure a Control. All fields are needed but LocalDC.
type flightOptions struct {
	Table    *routeTable
	Observer flightObserver
	MaxKeys  int // of a call

	Timeout    time.Duration    // of an attempt
	ErrTimeout error            // the cause of the end of its context then
	Retries    int              // of a call that may pass
	MayPass    func(error) bool // reports whether a call that failed is worth a repeat
	RetryPause time.Duration    // the longest one, before a call is repeated that failed otherwise

	LocalDC  string        // whose hosts are asked first; "": all are at once
	MaxHedge time.Duration // how long they are waited for at most
	MaxLate  int           // late calls; 0: no bound
}

// attempt returns the context of an attempt.
func (o *flightOptions) attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, o.Timeout, o.ErrTimeout)
}

// flightObserver receives the events of flights. Many goroutines call its methods.
type flightObserver interface {
	First(h *peer, took time.Duration) // the first answer for some keys
	Failed(h *peer, err error)         // a call without a usable answer
	Late(h *peer)                      // an answer after the first
	NoShard(keys int)                  // keys that begin to wait for a host
}

// control has the flights of a client. Its methods may be called by many goroutines.
type control struct {
	o     flightOptions
	local p95           // of calls of hosts in LocalDC
	ended chan struct{} // closed by End

	mu      sync.Mutex
	over    bool
	flights map[*flight]struct{} // that have calls
	// if MaxLate is set: those whose Get has returned, and some that have ended, at most 2*MaxLate; the oldest first
	late  []*flight
	calls int            // of late
	all   sync.WaitGroup // calls
}

// newControl returns a Control.
func newControl(o flightOptions) *control {
	return &control{o: o, ended: make(chan struct{}), flights: map[*flight]struct{}{}}
}

// End cancels all calls, waits for them, and lets no further ones begin. It is called once.
func (c *control) End() {
	c.mu.Lock()
	c.over = true
	close(c.ended)
	for f := range c.flights {
		f.cancel()
	}
	c.mu.Unlock()
	c.all.Wait()
}

// enter registers calls. It returns false if the client has ended.
func (c *control) enter(f *flight, calls int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.flights[f] = struct{}{}
	c.all.Add(calls)
	return true
}

// returned records that a Get has returned while calls go on. It cancels the oldest of such calls if there are too
// many.
func (c *control) returned(f *flight, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if calls == 0 {
		delete(c.flights, f)
		return
	}
	if c.o.MaxLate == 0 {
		return
	}
	f.late = calls
	c.calls += calls
	c.late = append(c.late, f)
	for len(c.late) > 0 && (c.calls > c.o.MaxLate || c.late[0].late == 0) {
		oldest := c.late[0]
		c.late = c.late[1:]
		c.calls -= oldest.late
		oldest.late = 0
		oldest.cancel()
	}
	if len(c.late) > 2*c.o.MaxLate { // at most half of them have late calls
		c.late = slices.DeleteFunc(c.late, func(f *flight) bool { return f.late == 0 })
	}
}

// landed records the end of a late call, and how many the flight has left.
func (c *control) landed(f *flight, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.late > 0 {
		f.late--
		c.calls--
	}
	if calls == 0 {
		delete(c.flights, f)
	}
}

// isLocal reports whether a host is asked first.
func (c *control) isLocal(h *peer) bool { return c.o.LocalDC != "" && h.DC == c.o.LocalDC }
