package channel

import (
	"context"
	"time"
)

// waiter is one fetch that waits: see the package comment. It is used by one goroutine.
type waiter struct {
	hub     *hub
	members []member
	wake    chan waitResult // buffered, with room for each member
}

// member is a waiter's part in one topic. Its last fields are the topic's too.
type member struct {
	entry      *entry
	topic      *topic
	subscriber string
	number     int // among the waiter's members
	// wake gets a message, or nil where the channel has to be read. The topic sends under its lock, and only for a
	// member that is asleep, which the member then no longer is: so the send never blocks.
	wake chan<- waitResult

	// Guarded by the topic's lock.
	index    int      // in the topic's members
	at       Position // where it sleeps
	prepared uint64   // the topic's updates when the member prepared
	asleep   bool
	stale    bool // since it prepared something happened that only a read can clear up
}

// confirmationTimeout is many times what Redis takes to confirm, even under load. Without a confirmation, as while a
// slot moves, waiters proceed after it.
const hubConfirmationTimeout = 250 * time.Millisecond

// awaitConfirmation waits for new topics to be listened to. The confirmation makes every member read, so a read after
// it isn't repeated. It returns early when ctx ends or at end: the waiter may proceed in any case. The timer, which
// fires at end, is borrowed.
func (w *waiter) awaitConfirmation(ctx context.Context, timer *time.Timer, end time.Time) {
	borrowed := false
	for i := range w.members {
		confirmation := w.members[i].topic.confirmation()
		if confirmation == nil || w.hub.drained.Load() {
			continue
		}
		if !borrowed {
			borrowed = true
			timer.Reset(min(time.Until(end), hubConfirmationTimeout))
			defer func() { timer.Reset(time.Until(end)) }()
		}
		select {
		case <-confirmation:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// prepare precedes every read of some channels: updates from now on count in the next sleep.
func (w *waiter) prepare(which []int) {
	for _, i := range which {
		w.members[i].prepare()
	}
}

// sleep waits for updates of channels that were read, each at its position, where nothing was found. It returns the
// members that were woken; those without a message must prepare and be read again. It returns none when the timer
// fires, ctx ends or the hub drains.
func (w *waiter) sleep(ctx context.Context, timer <-chan time.Time, at []Position) []waitResult {
	if w.hub.drained.Load() {
		return nil
	}
	var all []waitResult
	for i, p := range at {
		if woken, m := w.members[i].fallAsleep(p); woken {
			all = append(all, waitResult{Target: i, Message: m})
		}
	}
	if len(all) == 0 {
		select {
		case one := <-w.wake:
			all = append(all, one)
		case <-timer:
		case <-ctx.Done():
		}
	}
	for i := range w.members {
		w.members[i].wakeUp()
	}
	for len(w.wake) > 0 { // nothing is sent to members that are awake
		all = append(all, <-w.wake)
	}
	if w.hub.drained.Load() { // a drain is no reason to read again
		return messages(all)
	}
	return all
}

// messages returns those that have a message.
func messages(all []waitResult) []waitResult {
	n := 0
	for _, one := range all {
		if one.Message != nil {
			all[n] = one
			n++
		}
	}
	return all[:n]
}

// leave ends the waiter.
func (w *waiter) leave() {
	for i := range w.members {
		w.members[i].topic.remove(&w.members[i])
	}
	w.hub.exit(w)
}

func (m *member) prepare() {
	m.topic.mu.Lock()
	defer m.topic.mu.Unlock()
	m.prepared, m.stale = m.topic.updates, false
}

// fallAsleep puts the member to sleep, unless an update since its prepare is new at its position.
func (m *member) fallAsleep(at Position) (woken bool, message *Message) {
	t := m.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.stale {
		return true, nil
	}
	if t.updates != m.prepared {
		if woken, message := t.latest.wakes(at); woken {
			return true, message
		}
	}
	m.at, m.asleep = at, true
	return false, nil
}

// wakeUp ends the sleep from the waiter's side.
func (m *member) wakeUp() {
	m.topic.mu.Lock()
	defer m.topic.mu.Unlock()
	m.asleep = false
}

// refetch makes the waiter read the channel again: it wakes it, or remembers it if the waiter is reading. The topic's
// lock is held.
func (m *member) refetch() {
	if m.asleep {
		m.deliver(nil)
		return
	}
	m.stale = true
}

// deliver wakes the member, which is asleep, with a message or nil. The topic's lock is held.
func (m *member) deliver(message *Message) {
	m.asleep = false
	m.wake <- waitResult{Target: m.number, Message: message}
}
