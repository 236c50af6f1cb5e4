package channel

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark-dev/tidemark/clock"
)

// How long a topic waits before it tries again what failed.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// topic is one channel that has waiters or had some a short while ago. While it runs it holds the one listener
// of its channel.
type topic struct {
	hub     *hub
	channel string
	idle    chan struct{} // has one place: the last waiter has left
	heeded  chan struct{} // closed when listening was confirmed for the first time

	// Guarded by the hub's lock.
	users     int           // waiters that entered and didn't exit
	idleSince time.Time     // when users became 0
	linger    time.Duration // how long it is kept from then on

	mu        sync.Mutex
	waiters   []*waiter
	heard     uint64   // how many news there were
	furthest  news     // the furthest of them
	published Position // of the last message that was heard of
}

// news is what a topic hears: how far the channel has come, and the message there where it came along.
type news struct {
	Position
	message *Message
}

// at tells what the news are to a waiter at a position: nothing new, the message that comes next, or a reason to
// fetch.
func (n news) at(p Position) (woken bool, m *Message) {
	switch {
	case n.Epoch != p.Epoch:
		return true, nil
	case clock.Behind(n.Clock, p.Clock):
		return false, nil
	case n.Clock == p.Clock.Next():
		return true, n.message
	default:
		return true, nil
	}
}

func newTopic(h *hub, channel string) *topic {
	return &topic{hub: h, channel: channel, idle: make(chan struct{}, 1), heeded: make(chan struct{})}
}

// run keeps the topic until ctx ends, or nobody has waited for as long as it is to linger. Who joins while its
// listener ends gets a new one, so that a channel never has two.
func (t *topic) run(ctx context.Context) {
	for ctx.Err() == nil {
		listening, stop := context.WithCancel(ctx)
		var listener sync.WaitGroup
		listener.Go(func() { t.listen(listening) })
		t.attend(ctx)
		stop()
		listener.Wait()
		if ctx.Err() == nil && t.hub.retire(t) {
			return
		}
	}
}

// listen hears the channel's events until ctx ends.
func (t *topic) listen(ctx context.Context) {
	pauses := newPauses(lastPause)
	for {
		started := time.Now()
		err := t.hub.store.Listen(ctx, t.channel, t.hear)
		if ctx.Err() != nil {
			return
		}
		t.hub.log.LogAttrs(ctx, slog.LevelError, "listening to a channel ended by itself, it is started again",
			slog.String("channel", t.channel), slog.Any("error", err))
		if time.Since(started) > lastPause {
			pauses.Reset()
		}
		select {
		case <-time.After(pauses.NextBackOff()):
		case <-ctx.Done():
			return
		}
	}
}

// attend asks the store now and then where the channel stands, as a backstop, until ctx ends or the topic has
// lingered.
func (t *topic) attend(ctx context.Context) {
	pauses := newPauses(min(lastPause, t.hub.limits.Backstop))
	check := time.NewTimer(t.untilBackstop())
	defer check.Stop()
	linger := time.NewTimer(t.hub.limits.Linger)
	defer linger.Stop()
	for {
		select {
		case <-check.C:
			if t.check(ctx) {
				pauses.Reset()
				check.Reset(t.untilBackstop())
			} else {
				check.Reset(pauses.NextBackOff())
			}
		case <-t.idle:
			left, over := t.hub.lingered(t)
			if over {
				return
			}
			linger.Reset(max(left, 0))
		case <-linger.C:
			if _, over := t.hub.lingered(t); over {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// untilBackstop is a little less than Limits.Backstop, by chance, so that channels which were first waited for at
// the same time don't keep asking at the same time.
func (t *topic) untilBackstop() time.Duration {
	backstop := t.hub.limits.Backstop
	return backstop - rand.N(backstop/4+1) //nolint:gosec // chance to spread load, not to keep a secret
}

func newPauses(longest time.Duration) *backoff.ExponentialBackOff {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = min(firstPause, longest), longest
	return pauses
}

// check reads the channel's clock, where there is anybody to tell, and reports whether that was possible.
func (t *topic) check(ctx context.Context) bool {
	heard, somebody := t.listeners()
	if !somebody {
		return true
	}
	p, err := t.hub.store.Position(ctx, t.channel)
	switch {
	case err == nil:
		t.stands(p, heard)
	case errors.Is(err, ErrNoChannel):
		t.rouse()
	default:
		if ctx.Err() == nil {
			t.hub.log.LogAttrs(ctx, slog.LevelDebug, "a channel's clock can't be read, it is tried again",
				slog.String("channel", t.channel), slog.Any("error", err))
		}
		return false
	}
	return true
}

// listeners tells how many news there were, and whether anybody waits for more.
func (t *topic) listeners() (heard uint64, somebody bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heard, len(t.waiters) > 0
}

// hear is the sink of the topic's listener.
func (t *topic) hear(e Event) {
	switch e.Kind {
	case EventPublished:
		t.publish(news{Position: e.Position, message: e.Message})
	case EventUnsubscribed:
		t.unsubscribe(e.Subscriber)
	case EventConfirmed:
		t.heed()
		t.rouse() // whatever was missed, or lost by a fail-over, only a fetch can tell each of them
	}
}

// heed lets those go on who wait for the first confirmation. Only the listener calls it.
func (t *topic) heed() {
	select {
	case <-t.heeded:
	default:
		close(t.heeded)
	}
}

// publish hands a message to all who sleep right before it, and wakes all who have missed something.
func (t *topic) publish(n news) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.published
	t.published = n.Position
	if n.Epoch == before.Epoch && clock.Behind(n.Clock, before.Clock) {
		// A fail-over lost the last messages and their clocks are given out again: nobody's position can be trusted.
		t.rouseAll()
		t.furthest = news{Position: n.Position}
		return
	}
	fetching := false
	for _, w := range t.waiters {
		if !w.armed {
			fetching = true
		} else if woken, m := n.at(w.at); woken {
			w.hand(m)
		}
	}
	if !fetching {
		n.message = nil // nobody will ask for it
	}
	t.note(n)
}

// unsubscribe wakes the subscriber's waiters, so that they find out.
func (t *topic) unsubscribe(subscriber string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.waiters {
		if w.subscriber == subscriber {
			w.rouse()
		}
	}
}

// stands takes in where the channel was found to stand, by a read that began when so many news had been heard,
// and wakes all sleepers who are elsewhere.
func (t *topic) stands(p Position, heard uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.heard != heard {
		switch {
		case p.Epoch != t.furthest.Epoch: // which of the two is the channel's life now can't be told
			t.rouseAll()
			return
		case clock.Behind(p.Clock, t.furthest.Clock): // what was heard since is newer, and has woken whom it concerns
			return
		}
	}
	for _, w := range t.waiters {
		if w.armed && w.at != p {
			w.hand(nil)
		}
	}
	t.note(news{Position: p})
}

// note keeps news for the waiters that fetch now. The lock is held.
func (t *topic) note(n news) {
	t.heard++
	if n.Epoch != t.furthest.Epoch || !clock.Behind(n.Clock, t.furthest.Clock) {
		t.furthest = n
		return
	}
	t.furthest.message = nil // where news are not further, a fail-over may have lost it
}

// rouse makes all waiters fetch, or end where the hub has drained.
func (t *topic) rouse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rouseAll()
}

// rouseAll is rouse where the lock is held.
func (t *topic) rouseAll() {
	for _, w := range t.waiters {
		w.rouse()
	}
}

func (t *topic) add(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.index, w.since = len(t.waiters), t.heard
	t.waiters = append(t.waiters, w)
}

// remove takes a waiter out. The last one takes its place.
func (t *topic) remove(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := len(t.waiters) - 1
	moved := t.waiters[end]
	moved.index = w.index
	t.waiters[w.index], t.waiters[end] = moved, nil
	t.waiters = t.waiters[:end]
}
