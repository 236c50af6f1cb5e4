package channel

import (
	"context"
	"time"
)

// waiter is one fetch that waits. It is used by one goroutine; the fields at the end belong to its topic too.
type waiter struct {
	topic      *topic
	subscriber string
	once       bool // see Query
	// wake has one place. A message is handed over, nil only wakes. It is filled under the topic's lock, and only
	// where the waiter is armed, which it then is no more: so a send never blocks.
	wake chan *Message

	// Guarded by the topic's lock.
	index   int      // in the topic's waiters
	at      Position // where it sleeps
	since   uint64   // what the topic had heard when the waiter prepared
	armed   bool     // it sleeps
	refetch bool     // since it prepared something happened that only a fetch can clear up
}

// settle waits a moment for a topic that is new to be listened to, after a fetch that found nothing: the next fetch then
// comes after the confirmation, which would make the waiter fetch once more. It only saves that: whatever happens, the
// waiter may go on.
func (w *waiter) settle(ctx context.Context, most time.Duration) {
	select {
	case <-w.topic.heeded:
		return
	default:
	}
	if w.topic.hub.drained.Load() {
		return
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-w.topic.heeded:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// settleWait is many times what Redis takes to confirm, even under load. While nothing is confirmed, as while a slot moves,
// waiters go on after it.
const settleWait = 250 * time.Millisecond

// prepare comes before every fetch: all that the topic hears from now on is judged in the next sleep.
func (w *waiter) prepare() {
	w.topic.mu.Lock()
	defer w.topic.mu.Unlock()
	w.since, w.refetch = w.topic.heard, false
}

// sleep waits until there is something new for a waiter whose fetch found nothing at a position. It returns the
// message where the next one came along as it is, or only true where the waiter has to prepare and fetch again.
// It returns false when the timer fires, ctx ends or the hub drains; then there is nothing left to sleep for.
func (w *waiter) sleep(ctx context.Context, timer <-chan time.Time, at Position) (woken bool, m *Message) {
	if w.topic.hub.drained.Load() {
		return false, nil
	}
	if woken, m := w.arm(at); woken {
		return w.woken(m)
	}
	select {
	case m := <-w.wake:
		return w.woken(m)
	case <-timer:
	case <-ctx.Done():
	}
	m = w.disarm()
	return m != nil, m
}

// woken is how a sleep ends that was ended by the topic: a drain is no reason to fetch again.
func (w *waiter) woken(m *Message) (bool, *Message) {
	return m != nil || !w.topic.hub.drained.Load(), m
}

// leave ends the waiter. Where it is the last one, and once, the topic doesn't linger.
func (w *waiter) leave() {
	w.topic.remove(w)
	w.topic.hub.exit(w.topic, w.once)
}

// arm puts the waiter to sleep, unless what happened since it prepared is news at its position.
func (w *waiter) arm(at Position) (woken bool, m *Message) {
	t := w.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.refetch {
		return true, nil
	}
	if t.heard != w.since {
		if woken, m := t.furthest.at(at); woken {
			return true, m
		}
	}
	w.at, w.armed = at, true
	return false, nil
}

// disarm ends the sleep from the waiter's side. A message that was handed over before that isn't lost.
func (w *waiter) disarm() *Message {
	w.topic.mu.Lock()
	defer w.topic.mu.Unlock()
	if !w.armed {
		return <-w.wake
	}
	w.armed = false
	return nil
}

// rouse wakes the waiter if it sleeps, and makes it fetch again if it is about to. The topic's lock is held.
func (w *waiter) rouse() {
	if w.armed {
		w.hand(nil)
		return
	}
	w.refetch = true
}

// hand wakes the waiter, which is armed, with a message or nil. The topic's lock is held.
func (w *waiter) hand(m *Message) {
	w.armed = false
	w.wake <- m
}
