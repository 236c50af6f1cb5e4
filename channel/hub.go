package channel

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// hub lets fetches sleep until something happens on their channel, without asking the store in the meantime.
//
// A fetch joins its channel's topic, fetches, and sleeps at the position that it saw. (On a channel that isn't
// listened to yet it has fetched before it joins, and found nothing.) The topic hears what happens on the channel and
// judges it for every waiter:
//
//	join ─► prepare ─► fetch ─► sleep ─┬─► message     the next one after the position: handed over
//	           ▲                       ├─► woken       anything else that is new, and each confirmation
//	           └───────────────────────┘
//	                                   └─► not woken   timer, end of the context, drain
//
// What the topic hears between prepare and sleep counts as if the waiter had slept already, so no wake-up is
// lost. A waiter is woken only by something that happened since its prepare, so it never spins. After the
// listening is confirmed every waiter fetches once, from a prepare that came later: what it missed before, be it a
// message, a removal or a fail-over, it finds by itself.
//
// run owns all goroutines. All other methods may be called by many goroutines, before, during and after run.
type hub struct {
	store   Notifier
	limits  Limits
	log     *slog.Logger
	joined  chan struct{} // has one place: something is in starting
	drained atomic.Bool   // nobody sleeps any more; set under mu

	mu       sync.Mutex // never held together with a topic's
	topics   map[string]*topic
	starting []*topic // in topics, and for run to start
	waiters  int
}

func newHub(store Notifier, limits Limits, log *slog.Logger) *hub {
	return &hub{
		store: store, limits: limits, log: log,
		joined: make(chan struct{}, 1),
		topics: make(map[string]*topic),
	}
}

// run listens to the channels that have waiters until ctx ends. Then it drains, and returns nil when all
// listeners have ended. It must be called once.
func (h *hub) run(ctx context.Context) error {
	var running sync.WaitGroup
	for {
		select {
		case <-h.joined:
			for _, t := range h.takeStarting() {
				running.Go(func() { t.run(ctx) })
			}
		case <-ctx.Done():
			h.drain()
			running.Wait()
			h.forget()
			return nil
		}
	}
}

// drain answers all waiters, and every later sleep ends at once.
func (h *hub) drain() {
	h.mu.Lock()
	h.drained.Store(true)
	topics := slices.Collect(maps.Values(h.topics))
	h.mu.Unlock()
	for _, t := range topics {
		t.rouse()
	}
}

// count gives the number of waiters, whether they sleep or fetch, and of channels that are listened to.
func (h *hub) count() (waiters, channels int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiters, len(h.topics)
}

// listening reports whether a channel is listened to, as the store has confirmed.
func (h *hub) listening(channel string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[channel]
	if t == nil {
		return false
	}
	select {
	case <-t.heeded:
		return true
	default:
		return false
	}
}

// join makes a waiter, which must leave in the end.
func (h *hub) join(channel, subscriber string) *waiter {
	w := &waiter{topic: h.enter(channel), subscriber: subscriber, wake: make(chan *Message, 1)}
	w.topic.add(w)
	return w
}

// enter finds or makes a channel's topic and keeps it alive until the matching exit.
func (h *hub) enter(channel string) *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters++
	t := h.topics[channel]
	if t == nil {
		t = newTopic(h, channel)
		if !h.drained.Load() {
			h.topics[channel] = t
			h.starting = append(h.starting, t)
			notify(h.joined)
		}
	}
	t.users++
	return t
}

func (h *hub) exit(t *topic, once bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters--
	if t.users--; t.users == 0 {
		t.idleSince, t.linger = time.Now(), h.limits.Linger
		if once {
			t.linger = 0
		}
		notify(t.idle)
	}
}

func (h *hub) takeStarting() []*topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	topics := h.starting
	h.starting = nil
	return topics
}

// lingered gives how long a topic is kept yet, and whether it has been without waiters for as long as it is.
func (h *hub) lingered(t *topic) (left time.Duration, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left = t.linger - time.Since(t.idleSince)
	return left, t.users == 0 && left <= 0
}

// retire removes a topic and reports true, unless somebody has joined it again.
func (h *hub) retire(t *topic) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.users > 0 {
		return false
	}
	delete(h.topics, t.channel)
	return true
}

// forget removes all topics, when none is run any more.
func (h *hub) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.topics)
	h.starting = nil
}

// notify leaves a signal in a channel with one place, where there is none yet.
func notify(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
