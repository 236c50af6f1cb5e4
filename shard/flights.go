package shard

import (
	"slices"
	"sync"
)

// flights is the flights of one client whose calls go on. Its methods may be called by many goroutines.
type flights struct {
	fleet  *fleet
	o      *ClientOptions // of the fleet
	local  p95            // of calls of hosts in LocalDC
	closed chan struct{}  // closed by end

	mu     sync.Mutex
	over   bool
	active map[*flight]struct{} // that have calls
	// if MaxLate is set: those whose Get has returned, and some that have ended, at most 2*MaxLate; the oldest first
	late      []*flight
	lateCalls int // of late

	calls sync.WaitGroup // that have begun
}

func newFlights(f *fleet) *flights {
	return &flights{fleet: f, o: &f.o, closed: make(chan struct{}), active: map[*flight]struct{}{}}
}

// end cancels all calls, waits for them, and lets no further ones begin. It is called once.
func (c *flights) end() {
	c.mu.Lock()
	c.over = true
	close(c.closed)
	for f := range c.active {
		f.cancel()
	}
	c.mu.Unlock()
	c.calls.Wait()
}

// enter registers calls. It returns false if the client has ended.
func (c *flights) enter(f *flight, calls int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.active[f] = struct{}{}
	c.calls.Add(calls)
	return true
}

// returned records that a Get has returned while calls go on. It cancels the oldest of such calls if there are too
// many.
func (c *flights) returned(f *flight, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if calls == 0 {
		delete(c.active, f)
		return
	}
	if c.o.MaxLate == 0 {
		return
	}
	f.late = calls
	c.lateCalls += calls
	c.late = append(c.late, f)
	for len(c.late) > 0 && (c.lateCalls > c.o.MaxLate || c.late[0].late == 0) {
		oldest := c.late[0]
		c.late = c.late[1:]
		c.lateCalls -= oldest.late
		oldest.late = 0
		oldest.cancel()
	}
	if len(c.late) > 2*c.o.MaxLate { // at most half of them have late calls
		c.late = slices.DeleteFunc(c.late, func(f *flight) bool { return f.late == 0 })
	}
}

// landed records the end of a late call, and how many the flight has left.
func (c *flights) landed(f *flight, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.late > 0 {
		f.late--
		c.lateCalls--
	}
	if calls == 0 {
		delete(c.active, f)
	}
}
