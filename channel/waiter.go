package channel

import (
	"context"
	"time"
)

// waiter is one fetch that waits: see Service.wait. It sleeps at the position that its last fetch found:
//
//	join ─► prepare ─► fetch ─► sleep ─┬─► a message   the next one after the position
//	           ▲                       ├─► woken       anything else that is new, and every confirmation
//	           └───────────────────────┘
//	                                   └─► not woken   the timer fired, the context ended, or the hub drained
//
// What happens between prepare and sleep counts as if the waiter had slept already, so no wake-up is lost. Only what
// happened since its prepare wakes a waiter, so it never spins. After each confirmation every waiter fetches once, from a
// later prepare: so it finds whatever it missed before, be it a message, a removal or a fail-over.
//
// A waiter is used by one goroutine. Its last fields are the topic's too.
type waiter struct {
	hub        *hub
	entry      *entry
	topic      *topic
	subscriber string
	// wake is buffered (capacity 1). It gets a message, or nil where the waiter has to fetch. The topic sends under its
	// lock, and only to a waiter that is asleep, which the waiter then no longer is: so the send never blocks.
	wake chan *Message

	// Guarded by the topic's lock.
	index    int      // in the topic's waiters
	at       Position // where it sleeps
	prepared uint64   // the topic's updates when the waiter prepared
	asleep   bool
	stale    bool // since it prepared something happened that only a fetch can clear up
}

// confirmationTimeout is many times what Redis takes to confirm, even under load. Without a confirmation, as while a slot
// moves, waiters proceed after it.
const confirmationTimeout = 250 * time.Millisecond

// awaitConfirmation waits for a new topic to be listened to. The confirmation makes every waiter fetch, so a fetch after
// it isn't repeated. It returns early when ctx ends or at end: the waiter may proceed in any case. The timer, which fires at
// end, is borrowed.
func (w *waiter) awaitConfirmation(ctx context.Context, timer *time.Timer, end time.Time) {
	confirmation := w.topic.confirmation()
	if confirmation == nil || w.hub.drained.Load() {
		return
	}
	timer.Reset(min(time.Until(end), confirmationTimeout))
	defer func() { timer.Reset(time.Until(end)) }()
	select {
	case <-confirmation:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// prepare precedes every fetch: updates from now on count in the next sleep.
func (w *waiter) prepare() {
	w.topic.mu.Lock()
	defer w.topic.mu.Unlock()
	w.prepared, w.stale = w.topic.updates, false
}

// sleep waits for an update after a fetch that found nothing at a position. It returns the message if the update carried
// the very next one; with true and no message the waiter must prepare and fetch again. It returns false when the timer
// fires, ctx ends or the hub drains.
func (w *waiter) sleep(ctx context.Context, timer <-chan time.Time, at Position) (woken bool, m *Message) {
	if w.hub.drained.Load() {
		return false, nil
	}
	if woken, m = w.fallAsleep(at); !woken {
		select {
		case m = <-w.wake:
			woken = true
		case <-timer:
			m = w.wakeUp()
		case <-ctx.Done():
			m = w.wakeUp()
		}
	}
	return m != nil || woken && !w.hub.drained.Load(), m // a drain is no reason to fetch again
}

// leave ends the waiter.
func (w *waiter) leave() {
	w.topic.remove(w)
	w.hub.exit(w.entry)
}

// fallAsleep puts the waiter to sleep, unless an update since its prepare is new at its position.
func (w *waiter) fallAsleep(at Position) (woken bool, m *Message) {
	t := w.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.stale {
		return true, nil
	}
	if t.updates != w.prepared {
		if woken, m := t.latest.wakes(at); woken {
			return true, m
		}
	}
	w.at, w.asleep = at, true
	return false, nil
}

// wakeUp ends the sleep from the waiter's side, and returns a message that was delivered in the meantime.
func (w *waiter) wakeUp() *Message {
	w.topic.mu.Lock()
	defer w.topic.mu.Unlock()
	if !w.asleep {
		return <-w.wake
	}
	w.asleep = false
	return nil
}

// refetch makes the waiter fetch again: it wakes it, or remembers it if the waiter is fetching. The topic's lock is held.
func (w *waiter) refetch() {
	if w.asleep {
		w.deliver(nil)
		return
	}
	w.stale = true
}

// deliver wakes the waiter, which is asleep, with a message or nil. The topic's lock is held.
func (w *waiter) deliver(m *Message) {
	w.asleep = false
	w.wake <- m
}
