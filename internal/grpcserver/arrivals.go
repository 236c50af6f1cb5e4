package grpcserver

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Arrivals limits the messages that arrive slowly. Their calls must have the tap Endable. All methods may be called by
// several goroutines.
type Arrivals struct {
	Limit time.Duration // a message may take to arrive
	Slow  time.Duration // a message that takes longer is a slow one
	Most  int           // slow messages at a time; of the client with the most, the oldest are refused
	Err   error         // with which calls are ended

	mu    sync.Mutex
	calls list.List // of arrival, the oldest first
	armed bool      // the timer of sweep is running
}

// arrival is a message that arrives.
type arrival struct {
	*endable

	client string
}

// Receive calls read, which reads a message of a client's call with the context ctx. If the message is refused, Receive
// ends the call and returns Err. The time of a message begins with its call, so Receive is for the first message of
// message.
func (a *Arrivals) Receive(ctx context.Context, client string, read func() error) error {
	c, ok := ctx.Value(endableKey{}).(*endable)
	if !ok {
		return read()
	}
	entry := a.begin(arrival{c, client})
	err := read()
	a.end(entry)
	if ended := Ended(ctx); err != nil && ended != nil {
		return ended
	}
	return err
}

func (a *Arrivals) begin(c arrival) *list.Element {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.armed {
		a.arm()
	}
	return a.calls.PushBack(c)
}

func (a *Arrivals) end(entry *list.Element) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls.Remove(entry)
}

// arm starts the timer of sweep. The lock is held.
func (a *Arrivals) arm() {
	a.armed = true
	time.AfterFunc(a.Slow/2, a.sweep)
}

// sweep refuses messages, and runs again as long as there are any.
func (a *Arrivals) sweep() {
	for _, c := range a.refused(time.Now()) {
		c.cancel(ended{a.Err})
	}
}

// refused returns the calls whose messages are to be refused, and starts the timer again if there are messages.
func (a *Arrivals) refused(now time.Time) (calls []*endable) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.armed = false; a.calls.Len() == 0 {
		return nil
	}
	a.arm()
	slow, number := map[string][]*endable{}, 0 // of each client, the oldest first
	for e := a.calls.Front(); e != nil; e = e.Next() {
		message := e.Value.(arrival)
		switch age := now.Sub(message.began); {
		case age > a.Limit:
			calls = append(calls, message.endable)
		case age > a.Slow:
			slow[message.client] = append(slow[message.client], message.endable)
			number++
		}
	}
	for ; number > a.Most; number-- {
		busiest := ""
		for client, all := range slow {
			if before := len(slow[busiest]); len(all) > before || len(all) == before && all[0].began.Before(slow[busiest][0].began) {
				busiest = client
			}
		}
		calls = append(calls, slow[busiest][0])
		slow[busiest] = slow[busiest][1:]
	}
	return calls
}
