package grpcserver

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Arrivals limits the messages that arrive slowly. Their calls must have the tap Endable. All methods may be called by
// several goroutines.
type Arrivals struct {
	Limit   time.Duration // a message may take to arrive
	Slow    time.Duration // a message that takes longer is a slow one
	MaxSlow int           // slow messages at a time; of the client with the most, the oldest are refused
	Err     error         // with which calls are ended

	mu   sync.Mutex
	slow []*arrival // the oldest first
}

// arrival is a message that arrives. The lock of Arrivals guards what isn't known from the start.
type arrival struct {
	call     *endable
	clientOf func() string
	client   string      // the name of the client, of a slow message
	expiry   *time.Timer // of a slow message
	ended    bool        // it has arrived, or can't be read
}

// Receive calls read, which reads a message of a call with the context ctx. If the message is refused, Receive ends the
// call and returns Err. clientOf returns the name of the client. It is called only if the message is slow, while read
// is in progress, and by another goroutine.
func (a *Arrivals) Receive(ctx context.Context, clientOf func() string, read func() error) error {
	c, ok := ctx.Value(endableKey{}).(*endable)
	if !ok {
		return read()
	}
	m := &arrival{call: c, clientOf: clientOf}
	timer := time.AfterFunc(min(a.Slow, a.Limit), func() { a.add(m) })
	err := read()
	if !timer.Stop() {
		a.end(m)
	}
	if ended := Ended(ctx); err != nil && ended != nil {
		return ended
	}
	return err
}

// add adds a message that has become a slow one, and refuses the oldest of the client with the most if there are too
// many.
func (a *Arrivals) add(m *arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.ended {
		return
	}
	m.client = m.clientOf()
	m.expiry = time.AfterFunc(a.Limit-a.Slow, func() { m.call.cancel(ended{a.Err}) })
	a.slow = append(a.slow, m)
	if len(a.slow) <= a.MaxSlow {
		return
	}
	numbers, busiest := map[string]int{}, 0
	for _, other := range a.slow {
		numbers[other.client]++
		busiest = max(busiest, numbers[other.client])
	}
	i := slices.IndexFunc(a.slow, func(other *arrival) bool { return numbers[other.client] == busiest })
	a.slow[i].call.cancel(ended{a.Err})
	a.slow = slices.Delete(a.slow, i, i+1)
}

// end removes a message.
func (a *Arrivals) end(m *arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m.ended = true
	if m.expiry != nil {
		m.expiry.Stop()
	}
	if i := slices.Index(a.slow, m); i >= 0 {
		a.slow = slices.Delete(a.slow, i, i+1)
	}
}
