package channel

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/receipt"
)

// target is a subscriber that a fetch waits for.
type target struct {
	channel    string
	subscriber string
}

// wakeup is the wake-up of one target.
type wakeup struct {
	target  int      // its index
	message *Message // the next one after the target's position; nil if the channel has to be read
	closed  bool     // the channel was closed at the target's position: nothing has to be read
}

// waitRequest is the argument of hub.wait: a fetch, of one subscriber or of many.
type waitRequest struct {
	targets []target
	wait    time.Duration // more than 0
	// read reads the channels of some targets and sets their positions. It reports whether the fetch has ended, because
	// it has found something.
	read func(ctx context.Context, which []int) (ended bool, err error)
	at   []Position // one for each target
	// listenFirst makes the fetch listen before it reads. Otherwise, if not all channels are listened to yet, it reads
	// once before it listens, so that messages that exist are returned at once and without a subscription.
	listenFirst bool
}

// wait calls r.read until it ends the fetch, or something arrives, for r.wait at most. It returns the messages that
// arrived, each the next one of its target, and the ends of channels that were closed. It returns none if r.read ended
// the fetch, the time was over, ctx ended or the hub drained. The error is that of r.read.
func (h *hub) wait(ctx context.Context, r *waitRequest) ([]wakeup, error) {
	end := time.Now().Add(r.wait)
	timer := time.NewTimer(r.wait)
	defer timer.Stop()
	which := make([]int, len(r.targets))
	for i := range which {
		which[i] = i
	}
	if h.state.Load() == suspended {
		return nil, waitBriefly(ctx, r, which)
	}
	if !r.listenFirst && !h.listening(r.targets) {
		if ended, err := r.readAside(ctx, which); ended || err != nil || !h.isServing() {
			return nil, err
		}
	}
	w := h.join(r.targets)
	defer w.leave()
	w.awaitConfirmation(ctx, timer, end)
	for {
		w.prepare(which)
		if ended, err := r.readAside(ctx, which); ended || err != nil {
			return nil, err
		}
		woken := w.sleep(ctx, timer.C, r.at)
		if arrived := arrivals(woken); len(woken) == 0 || len(arrived) > 0 {
			return arrived, nil
		}
		which = which[:0]
		for _, wakeup := range woken {
			which = append(which, wakeup.target)
		}
	}
}

// readAside is read on another goroutine, so that this one, which waits, needs little stack.
func (r *waitRequest) readAside(ctx context.Context, which []int) (ended bool, err error) {
	failed := aside(func() (err error) {
		ended, err = r.read(ctx, which)
		return err
	})
	return ended, failed
}

// suspendedWait is how long a fetch waits at a hub that is suspended. Clients repeat a fetch at once that has returned
// nothing: without a pause they would do so as fast as they can until they find another server.
const suspendedWait = time.Second

// waitBriefly reads once, and then waits without listening.
func waitBriefly(ctx context.Context, r *waitRequest, which []int) error {
	if ended, err := r.read(ctx, which); ended || err != nil {
		return err
	}
	pause := time.NewTimer(min(r.wait, suspendedWait))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
	return nil
}

// waiter is a fetch that waits, or a stream. One goroutine at a time uses it, except for wakeUp and signal.
type waiter struct {
	hub     *hub
	members []member
	streams bool      // it is a stream, which sleeps again after a message
	socket  bool      // the stream is a subscription of a WebSocket
	since   time.Time // when it began to wait
	late    bool      // it never sleeps: when it joined the hub wasn't serving, and may not listen for it

	// Each wake-up and nudge calls notify or, if that is nil, sends to ready, which has room for one.
	notify func()
	ready  chan struct{}

	mu    sync.Mutex // taken after a topic's, never before
	woken []wakeup   // that weren't taken yet: one of each member at most
}

// newWaiter returns a waiter of a fetch or of a stream. notify must not block.
func newWaiter(h *hub, notify func()) *waiter {
	w := &waiter{hub: h, notify: notify}
	if notify == nil {
		w.ready = make(chan struct{}, 1)
	}
	return w
}

// wakeUp adds a wake-up.
func (w *waiter) wakeUp(u wakeup) {
	w.mu.Lock()
	w.woken = append(w.woken, u)
	w.mu.Unlock()
	w.signal()
}

// signal ends the sleep.
func (w *waiter) signal() {
	if w.notify != nil {
		w.notify()
		return
	}
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// takeWoken appends the wake-ups since the last call.
func (w *waiter) takeWoken(to []wakeup) []wakeup {
	w.mu.Lock()
	defer w.mu.Unlock()
	to = append(to, w.woken...)
	clear(w.woken)
	w.woken = w.woken[:0]
	return to
}

// member is a waiter on one topic.
type member struct {
	entry      *entry
	topic      *topic
	subscriber string
	number     int     // among the waiter's members
	waiter     *waiter // whose streams, socket and since others may read: they never change
	// sleeping is set from fallAsleep until the waiter takes the member's wake-up, or ends its sleep. Only who uses
	// the waiter uses it.
	sleeping bool
	// write is the one that stored the message at the position; zero: it isn't known. Who uses the waiter sets it
	// while the member is awake.
	write receipt.Write

	// Guarded by the topic's lock.
	index    int      // in the topic's members
	at       Position // where it sleeps
	prepared uint64   // the topic's updates when the member prepared
	asleep   bool     // the next wake-up ends it
	stale    bool     // an event since it prepared makes it read again
}

// confirmationTimeout is how long a new waiter waits for a confirmation before it proceeds without, such as while a
// slot moves. Redis needs a fraction of it even under load.
const confirmationTimeout = 250 * time.Millisecond

// awaitConfirmation waits until new topics are listened to. A confirmation makes every member read: a waiter that has
// awaited it reads once. It returns early when ctx ends or at end; the waiter may proceed in any case. It uses the
// timer, which fires at end, for its own timeout meanwhile.
func (w *waiter) awaitConfirmation(ctx context.Context, timer *time.Timer, end time.Time) {
	borrowed := false
	for i := range w.members {
		confirmation := w.members[i].topic.confirmation()
		if confirmation == nil || w.isOver() {
			continue
		}
		if !borrowed {
			borrowed = true
			timer.Reset(min(time.Until(end), confirmationTimeout))
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

// prepare must be called before each read of channels: updates from now on end the next sleep.
func (w *waiter) prepare(which []int) {
	for _, i := range which {
		w.members[i].prepare()
	}
}

// sleep waits for updates after the positions at which the channels had no messages. It returns the wake-ups; members
// without a message must prepare and be read again. It returns none when the timer fires, ctx ends or the hub drains.
func (w *waiter) sleep(ctx context.Context, timer <-chan time.Time, at []Position) []wakeup {
	if w.isOver() {
		return nil
	}
	var all []wakeup
	for i, p := range at {
		if woken, by := w.members[i].fallAsleep(p); woken {
			all = append(all, by)
		}
	}
	if len(all) == 0 {
		select {
		case <-w.ready:
		case <-timer:
		case <-ctx.Done():
		}
	}
	w.endSleep()
	all = w.takeWoken(all)
	select { // no wake-up comes any more
	case <-w.ready:
	default:
	}
	if w.isOver() { // a drain is no reason to read again
		return arrivals(all)
	}
	return all
}

// endSleep ends the sleep of all members.
func (w *waiter) endSleep() {
	for i := range w.members {
		w.members[i].endSleep()
	}
}

// isOver reports whether the waiter may not sleep any more.
func (w *waiter) isOver() bool { return w.late || !w.hub.isServing() }

// arrivals returns the wake-ups after which nothing has to be read, in the same array.
func arrivals(all []wakeup) []wakeup {
	n := 0
	for _, wakeup := range all {
		if wakeup.message != nil || wakeup.closed {
			all[n] = wakeup
			n++
		}
	}
	return all[:n]
}

// leave removes the waiter from its topics and from the hub.
func (w *waiter) leave() {
	for i := range w.members {
		w.members[i].topic.remove(&w.members[i])
	}
	w.hub.exit(w)
}

// prepare forgets the updates up to now, which the next read sees.
func (m *member) prepare() {
	m.topic.mu.Lock()
	defer m.topic.mu.Unlock()
	m.prepared, m.stale = m.topic.updates, false
}

// fallAsleep puts the member to sleep, unless an update since its prepare is new at its position.
func (m *member) fallAsleep(at Position) (woken bool, by wakeup) {
	t := m.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	by.target = m.number
	if m.stale {
		return true, by
	}
	if t.updates != m.prepared {
		if t.replaced(at, m.write) {
			return true, by
		}
		if woken, by.message = t.latest.wakes(at); woken {
			if by.closed = t.latest.ends(at); by.message == nil {
				by.message = t.next(at)
			}
			return true, by
		}
	}
	m.at, m.asleep, m.sleeping = at, true, true
	return false, by
}

// isStale reports whether an event since the last prepare makes the member read again.
func (m *member) isStale() bool {
	m.topic.mu.Lock()
	defer m.topic.mu.Unlock()
	return m.stale
}

// endSleep ends the member's sleep, if it sleeps.
func (m *member) endSleep() {
	if !m.sleeping {
		return
	}
	m.sleeping = false
	m.topic.mu.Lock()
	defer m.topic.mu.Unlock()
	m.asleep = false
}

// refetch makes the waiter read the channel again, now if it is asleep, or else after its current read. The topic's
// lock is held.
func (m *member) refetch() {
	if m.asleep {
		m.deliver(nil)
		return
	}
	m.stale = true
}

// deliver wakes the member, which is asleep, with a message or nil. The topic's lock is held.
func (m *member) deliver(message *Message) { m.wakeUp(wakeup{message: message}) }

// wakeUp wakes the member, which is asleep. The topic's lock is held.
func (m *member) wakeUp(u wakeup) {
	m.asleep, u.target = false, m.number
	m.waiter.wakeUp(u)
}
