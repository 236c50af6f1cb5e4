package redis

import "sync"

// subscription is one listener to a topic. It hears from one connection, and from two while the first one, which is
// retired, hands over to the next:
//
//	hears from current ─► enter(next): holds what next brings ─► goOver: hears from next ─► settle
//
// Between goOver and settle, next may still bring what the first one has brought before; that is dropped, unless the texts
// of messages don't tell them apart.
type subscription struct {
	topic   string
	message func(text string)
	repeats bool          // different messages may have the same text
	lost    chan struct{} // buffered (capacity 1): Redis has ended it

	mu            sync.Mutex
	current, next *subscriber
	seen          map[string]struct{} // what the first connection has brought during a hand-over
	held          []string            // what the next one has
}

// enter adds a connection to hear from.
func (sub *subscription) enter(at *subscriber) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.current == nil {
		sub.current = at
		return
	}
	sub.next, sub.seen = at, map[string]struct{}{}
}

// exit drops what a connection brings from now on.
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

// goOver makes the next connection the one to hear from. The first one must have brought all that Redis sent there
// before the topic was subscribed on the next one.
func (sub *subscription) goOver() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.current, sub.next = sub.next, nil
	for _, text := range sub.held {
		sub.tell(text)
	}
	sub.held = nil
}

// settle ends a hand-over. The next connection must have brought all that the first one has.
func (sub *subscription) settle() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.seen = nil
}

// deliver is called by the readers of connections.
func (sub *subscription) deliver(at *subscriber, text string) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	switch at {
	case sub.next:
		sub.held = append(sub.held, text)
	case sub.current:
		if sub.next != nil {
			sub.seen[text] = struct{}{}
			sub.message(text)
			return
		}
		sub.tell(text)
	}
}

// tell passes a message on, unless it was during the hand-over. The lock is held.
func (sub *subscription) tell(text string) {
	if _, before := sub.seen[text]; !before || sub.repeats {
		sub.message(text)
	}
}
