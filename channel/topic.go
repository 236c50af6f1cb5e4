package channel

import (
	"slices"
	"sync"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
)

// topic is a channel that is listened to. Its members are the fetches and the streams that wait on it. It decides which
// members an event wakes.
type topic struct {
	channel string

	mu        sync.Mutex
	confirmed bool          // listening was confirmed at least once
	first     chan struct{} // closed by the first confirmation; nil if no waiter awaits it, or afterwards
	members   []*member
	updates   uint64   // number of updates so far
	latest    update   // the furthest of them
	streams   int      // members that are of streams
	recent    []update // the last updates, one clock after the other, for streams that are awake meanwhile
	published Position // of the last EventPublished
}

// noChannel is the position of a channel that doesn't exist.
var noChannel = Position{Epoch: ulid.MustParse("7ZZZZZZZZZZZZZZZZZZZZZZZZZ")}

// update is a position that the channel has reached, and the message there if the event carried it.
type update struct {
	Position
	message *Message
}

// wakes reports whether an update is new to a member at a position, and returns the message if it is the next one.
func (u update) wakes(p Position) (bool, *Message) {
	switch {
	case u.Epoch != p.Epoch:
		return true, nil
	case clock.Behind(u.Clock, p.Clock):
		return u.ends(p), nil
	case u.Clock == p.Clock.Next():
		return true, u.message
	default:
		return true, nil
	}
}

// ends reports whether the channel is closed, and a member at a position has everything and doesn't know it.
func (u update) ends(p Position) bool {
	return u.Closed && !p.Closed && u.Epoch == p.Epoch && u.Clock == p.Clock
}

// replaces reports whether an update's message has the place of the one that write, if it is known, stored at a
// position: the channel has lost its history without a broken connection, as when an operator restores keys.
func (u update) replaces(p Position, write receipt.Write) bool {
	return u.Epoch == p.Epoch && u.Clock == p.Clock && u.message != nil && !write.IsZero() && u.message.Write != write
}

// handle is the topic's sink: the store calls it with one event after the other.
func (t *topic) handle(e Event) {
	switch e.Kind {
	case EventPublished:
		t.publish(update{Position: e.Position, message: e.Message})
	case EventUnsubscribed, EventSought:
		t.refetch(e.Subscriber)
	case EventDeleted:
		t.wakeAll()
	case EventClosed:
		t.close(e.Position)
	case EventConfirmed:
		t.confirm()
	}
}

// confirm unblocks the members that await the first confirmation, and makes all others read: events may have been lost,
// and a fail-over may have lost messages.
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

// confirmation returns a channel that the first confirmation closes; nil after it.
func (t *topic) confirmation() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == nil && !t.confirmed {
		t.first = make(chan struct{})
	}
	return t.first
}

// publish delivers a message to the members that sleep right before it, and wakes those that sleep further behind.
func (t *topic) publish(u update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.published
	t.published = u.Position
	if u.Epoch == before.Epoch && clock.Behind(u.Clock, before.Clock) {
		// A fail-over lost the last messages and their clocks are reused: no member's position can be trusted.
		t.wakeAllLocked()
		t.latest = update{Position: u.Position}
		return
	}
	fetching := false
	for _, member := range t.members {
		if !member.asleep {
			fetching = true
		} else if u.replaces(member.at, member.write) {
			member.deliver(nil)
		} else if woken, m := u.wakes(member.at); woken {
			member.deliver(m)
		}
	}
	if !fetching {
		u.message, t.recent = nil, nil // no member needs them
	} else if t.streams > 0 {
		t.remember(u)
	}
	t.record(u)
}

// close ends the waiting of the members that sleep at the last message of the channel, and wakes those that sleep
// further behind.
func (t *topic) close(p Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u, before := update{Position: p}, t.published
	t.published = p
	if p.Epoch == before.Epoch && p.Clock != before.Clock && clock.Behind(p.Clock, before.Clock) {
		t.wakeAllLocked() // as in publish
		t.latest = u
		t.updates++
		return
	}
	for _, member := range t.members {
		if !member.asleep {
			continue
		}
		if woken, _ := u.wakes(member.at); woken {
			member.wakeUp(wakeup{closed: u.ends(member.at)})
		}
	}
	if p.Epoch == t.latest.Epoch && p.Clock == t.latest.Clock {
		u.message = t.latest.message // for those that are reading
	}
	t.record(u)
}

// recentUpdates is how many messages a topic keeps for streams that write while others arrive. Each is at most as large
// as a notification.
const recentUpdates = 16

// remember keeps a message for the streams that are awake. The lock is held.
func (t *topic) remember(u update) {
	if n := len(t.recent); u.message == nil || n > 0 && t.recent[n-1].Next() != u.Position {
		t.recent = nil
	}
	switch {
	case u.message == nil:
	case len(t.recent) < recentUpdates:
		t.recent = append(t.recent, u)
	default:
		copy(t.recent, t.recent[1:])
		t.recent[len(t.recent)-1] = u
	}
}

// next returns the message after a position if it is one of the recent ones. The lock is held.
func (t *topic) next(at Position) *Message {
	next := at.Next()
	for i := range t.recent {
		if t.recent[i].Position == next {
			return t.recent[i].message
		}
	}
	return nil
}

// replaced reports whether one of the last updates replaces the message at a position. The lock is held.
func (t *topic) replaced(at Position, write receipt.Write) bool {
	return t.latest.replaces(at, write) ||
		slices.ContainsFunc(t.recent, func(u update) bool { return u.replaces(at, write) })
}

// refetch wakes a subscriber's members. Their next fetch finds that the subscriber does not exist, or where its mark is
// now.
func (t *topic) refetch(subscriber string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, member := range t.members {
		if member.subscriber == subscriber {
			member.refetch()
		}
	}
}

// seen returns the number of updates so far, for observe.
func (t *topic) seen() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.updates
}

// observe records a position read from the store, and wakes all members that sleep at another one. seen is the number
// of updates before the read.
func (t *topic) observe(p Position, seen uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := update{Position: p}
	if t.updates != seen {
		if p.Epoch != t.latest.Epoch { // either can be the later epoch
			t.wakeAllLocked()
			return
		}
		if newer, _ := u.wakes(t.latest.Position); !newer { // the latest update has woken the members already
			return
		}
	}
	for _, member := range t.members {
		switch {
		case !member.asleep || member.at == p:
		case u.ends(member.at):
			member.wakeUp(wakeup{closed: true})
		default:
			member.deliver(nil)
		}
	}
	t.recent = nil
	t.record(u)
}

// record keeps an update for the members that are reading now. The lock is held.
func (t *topic) record(u update) {
	t.updates++
	latest := &t.latest
	if u.Epoch != latest.Epoch || !clock.Behind(u.Clock, latest.Clock) ||
		u.Clock == latest.Clock && u.Closed != latest.Closed {
		*latest = u
		return
	}
	t.latest.message, t.recent = nil, nil // a fail-over may have lost it
}

// wakeAll makes all members read, or end if the hub has drained.
func (t *topic) wakeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wakeAllLocked()
}

func (t *topic) wakeAllLocked() {
	t.recent = nil
	for _, member := range t.members {
		member.refetch()
	}
}

func (t *topic) add(m *member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m.index, m.prepared = len(t.members), t.updates
	t.members = append(t.members, m)
	if m.waiter.streams {
		t.streams++
	}
}

// remove removes a member from the list. The last m takes its place.
func (t *topic) remove(m *member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := len(t.members) - 1
	moved := t.members[end]
	moved.index = m.index
	t.members[m.index], t.members[end] = moved, nil
	t.members = t.members[:end]
	if m.waiter.streams {
		t.streams--
	}
	if t.streams == 0 {
		t.recent = nil
	}
}
