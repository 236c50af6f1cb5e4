package pubsub

import (
	"context"
	"sync"
)

// subscription is one listener of a topic. It receives messages from one connection, and from two during a hand-over
// from a retired one to the next:
//
//	enter(current) ─► enter(next): hold the messages of next ─► switchOver: pass them on ─► finish
//
// Between switchOver and finish, next may deliver messages that current has delivered already. They are dropped, unless
// different messages may have the same text.
type subscription struct {
	topic    string
	listener Listener

	mu            sync.Mutex // held while the listener is called
	current, next *subscriber
	lost          bool                // Redis has ended the subscription on current
	before        bool                // it was confirmed at least once
	seen          map[string]struct{} // texts that current delivered during a hand-over
	held          []string            // texts that next delivered during a hand-over
	cancel        context.CancelFunc  // ends attend; nil: attend doesn't run
	stopped       bool
}

// plan is the next step of attend for a subscription.
type plan int

const (
	planNothing   plan = iota
	planSubscribe      // it is on no connection
	planLeave          // its connection has ended, or the subscription on it
	planSwitch         // its connection is retired
)

// attend records that attend runs from now on, with its cancel function. It returns false if attend runs already, or
// has nothing to do.
func (sub *subscription) attend(cancel context.CancelFunc) bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.cancel != nil || sub.todo() == planNothing {
		return false
	}
	sub.cancel = cancel
	return true
}

// plan returns the next step, and its connection. If that is nothing, attend must end.
func (sub *subscription) plan() (*subscriber, plan) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	what := sub.todo()
	if what == planNothing {
		sub.cancel = nil
	}
	return sub.current, what
}

// todo returns the next step. The caller holds the lock.
func (sub *subscription) todo() plan {
	if sub.stopped {
		return planNothing
	}
	if sub.current == nil {
		return planSubscribe
	}
	switch {
	case sub.lost || sub.current.failure.Load() != nil:
		return planLeave
	case sub.current.retired.Load():
		return planSwitch
	default:
		return planNothing
	}
}

// stop ends the subscription and returns the connections to leave.
func (sub *subscription) stop() []*subscriber {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.stopped = true
	if sub.cancel != nil {
		sub.cancel()
	}
	var leave []*subscriber
	for _, at := range []*subscriber{sub.current, sub.next} {
		if at != nil {
			leave = append(leave, at)
		}
	}
	return leave
}

// enter adds a connection, unless the subscription is stopped.
func (sub *subscription) enter(at *subscriber) bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	switch {
	case sub.stopped:
		return false
	case sub.current == nil:
		sub.current, sub.lost, sub.seen, sub.held = at, false, nil, nil
	default:
		sub.next, sub.seen = at, map[string]struct{}{}
	}
	return true
}

// exit removes a connection: its messages are dropped from now on.
func (sub *subscription) exit(at *subscriber) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	switch at {
	case sub.current:
		sub.current = nil
	case sub.next:
		sub.next = nil
	}
}

// lose records that Redis has ended the subscription on a connection.
func (sub *subscription) lose(at *subscriber) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.lost = sub.lost || at == sub.current || at == sub.next
}

// switchOver makes next the current connection. The one before must have delivered all messages that Redis sent before
// the topic was subscribed on next.
func (sub *subscription) switchOver() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.current, sub.next = sub.next, nil
	for _, text := range sub.held {
		sub.pass(text)
	}
	sub.held = nil
}

// finish ends a hand-over. The current connection must have delivered all messages that the one before it has.
func (sub *subscription) finish() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.seen = nil
}

// confirmed calls the listener.
func (sub *subscription) confirmed() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.before = true
	if !sub.stopped {
		sub.listener.Confirmed()
	}
}

// interrupted calls the listener.
func (sub *subscription) interrupted(err error) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if !sub.stopped && sub.listener.Interrupted != nil {
		sub.listener.Interrupted(err)
	}
}

// deliver handles a message of a connection, whose reader calls it.
func (sub *subscription) deliver(at *subscriber, text string) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	switch {
	case sub.stopped:
	case at == sub.next:
		sub.held = append(sub.held, text)
	case at == sub.current && sub.next != nil:
		sub.seen[text] = struct{}{}
		sub.listener.Message(text)
	case at == sub.current:
		sub.pass(text)
	}
}

// pass passes a message on, unless it was passed on during the hand-over. The caller holds the lock.
func (sub *subscription) pass(text string) {
	if _, before := sub.seen[text]; !before || sub.listener.Repeats {
		sub.listener.Message(text)
	}
}
