package channel

import (
	"sync"

	"github.com/tidemark-dev/tidemark/clock"
)

// topic is one channel that is listened to, and its members, the fetches that wait on it. It decides whom an event
// concerns.
type topic struct {
	channel string

	mu        sync.Mutex
	confirmed bool          // listening was confirmed at least once
	first     chan struct{} // closed by the first confirmation; made when a waiter awaits it, and dropped then
	members   []*member
	updates   uint64   // how many updates there were
	latest    update   // the furthest of them
	published Position // of the last message that an event was about
}

// update is a position that the channel has reached, and the message there if the event carried it.
type update struct {
	Position
	message *Message
}

// wakes reports whether an update is new to a member at a position, and returns the message if it is the very next one.
func (u update) wakes(p Position) (bool, *Message) {
	switch {
	case u.Epoch != p.Epoch:
		return true, nil
	case clock.Behind(u.Clock, p.Clock):
		return false, nil
	case u.Clock == p.Clock.Next():
		return true, u.message
	default:
		return true, nil
	}
}

// handle is the topic's sink: the store calls it with one event after the other.
func (t *topic) handle(e Event) {
	switch e.Kind {
	case EventPublished:
		t.publish(update{Position: e.Position, message: e.Message})
	case EventUnsubscribed:
		t.unsubscribe(e.Subscriber)
	case EventConfirmed:
		t.confirm()
	}
}

// confirm unblocks the members that await the first confirmation, and makes all others fetch: only a read can tell a
// member what it missed, or what a fail-over lost.
func (t *topic) confirm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.confirmed = true
	if t.first != nil {
		close(t.first)
		t.first = nil
	}
	t.wakeAllLocked()
}

func (t *topic) isConfirmed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.confirmed
}

// confirmation returns a channel that the first confirmation closes; nil if that has been.
func (t *topic) confirmation() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == nil && !t.confirmed {
		t.first = make(chan struct{})
	}
	return t.first
}

// publish delivers a message to the members that sleep right before it, and wakes those that have missed something.
func (t *topic) publish(u update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.published
	t.published = u.Position
	if u.Epoch == before.Epoch && clock.Behind(u.Clock, before.Clock) {
		// A fail-over lost the last messages and their clocks are given out again: no member's position can be trusted.
		t.wakeAllLocked()
		t.latest = update{Position: u.Position}
		return
	}
	fetching := false
	for _, one := range t.members {
		if !one.asleep {
			fetching = true
		} else if woken, m := u.wakes(one.at); woken {
			one.deliver(m)
		}
	}
	if !fetching {
		u.message = nil // no member will ask for it
	}
	t.record(u)
}

// unsubscribe wakes a subscriber's members, whose next fetch finds that the subscriber is gone.
func (t *topic) unsubscribe(subscriber string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.members {
		if one.subscriber == subscriber {
			one.refetch()
		}
	}
}

// seen returns how many updates there were, for observe.
func (t *topic) seen() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.updates
}

// observe records a position read from the store, by a read that began after as many updates as seen, and wakes all
// sleepers that are elsewhere.
func (t *topic) observe(p Position, seen uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.updates != seen {
		switch {
		case p.Epoch != t.latest.Epoch: // either can be the later epoch
			t.wakeAllLocked()
			return
		case clock.Behind(p.Clock, t.latest.Clock): // an update since then is newer, and has woken whom it concerns
			return
		}
	}
	for _, one := range t.members {
		if one.asleep && one.at != p {
			one.deliver(nil)
		}
	}
	t.record(update{Position: p})
}

// record keeps an update for the members that fetch at this moment. The lock is held.
func (t *topic) record(u update) {
	t.updates++
	if u.Epoch != t.latest.Epoch || !clock.Behind(u.Clock, t.latest.Clock) {
		t.latest = u
		return
	}
	t.latest.message = nil // a fail-over may have lost it
}

// wakeAll makes all members fetch, or end if the hub has drained.
func (t *topic) wakeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wakeAllLocked()
}

func (t *topic) wakeAllLocked() {
	for _, one := range t.members {
		one.refetch()
	}
}

func (t *topic) add(one *member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one.index, one.prepared = len(t.members), t.updates
	t.members = append(t.members, one)
}

// remove takes a member out of the list. The last one takes its place.
func (t *topic) remove(one *member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := len(t.members) - 1
	moved := t.members[end]
	moved.index = one.index
	t.members[one.index], t.members[end] = moved, nil
	t.members = t.members[:end]
}
