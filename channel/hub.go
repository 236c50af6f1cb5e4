package channel

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/agenda"
)

// How clocks are read as backstops.
const (
	readBatch = 256             // channels that are read together, at most
	maxReads  = 4               // batches under way at the same time, at most
	retryRead = 5 * time.Second // the longest time until a read that failed is repeated
)

// hub holds a topic for each channel on which a fetch waits. The store calls topics with events, and topics wake their
// members. run is the only goroutine of the hub: every Limits.Backstop it reads the clock of each channel on which a
// fetch waits, in case an event was lost, and it stops listening to channels on which none has waited for a while. A
// fetch that waits costs no goroutine beside its request's own.
//
// The other methods may be called by many goroutines, before, during and after run.
type hub struct {
	store   Notifier
	limits  Limits
	log     *slog.Logger
	planned chan struct{} // buffered (capacity 1): another topic is the first of the agenda
	state   atomic.Int32  // serving, suspended or drained; set under mu
	sought  func(target)  // called with each subscriber whose mark was set, before its waiters are woken

	mu      sync.Mutex // taken before a topic's, never after
	topics  map[string]*entry
	agenda  agenda.Agenda[*entry] // by when run reads a topic's clock or ends it
	waiters int
}

// The states of a hub. Only while it is serving do waiters sleep, and is a channel listened to that wasn't before.
const (
	serving   int32 = iota
	suspended       // until resume
	drained         // for good
)

// entry is a topic in the hub. It isn't on the agenda while its clock is being read. The hub's lock guards all of its
// fields but topic, which never changes.
type entry struct {
	*topic
	agenda.Slot
	stop      func()    // ends listening
	created   time.Time // when listening began
	users     int       // members that joined and haven't left
	idleSince time.Time // when users became 0
}

// newHub returns a hub. Call its run.
func newHub(store Notifier, limits Limits, log *slog.Logger) *hub {
	return &hub{store: store, limits: limits, log: log, planned: make(chan struct{}, 1),
		sought: func(target) {}, topics: make(map[string]*entry)}
}

// run reads clocks and ends lingering topics until ctx ends. Then it drains the hub and stops listening. It must be
// called once.
func (h *hub) run(ctx context.Context) error {
	var reads errgroup.Group
	reads.SetLimit(maxReads)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-h.planned:
		case <-ctx.Done():
			h.drain()
			h.close()
			return reads.Wait()
		}
		due, next := h.takeDue(time.Now())
		for batch := range slices.Chunk(due, readBatch) {
			reads.Go(func() error {
				h.check(ctx, batch)
				return nil
			})
		}
		timer.Reset(time.Until(next))
	}
}

// takeDue ends the topics that have lingered long enough, removes those whose clock is due to be read from the agenda,
// and returns when the next topic is due. It also takes topics that are due a little later, so that reads go together.
func (h *hub) takeDue(now time.Time) (due []*entry, next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	soon := now.Add(min(h.limits.Backstop, retryRead) / 32)
	for {
		e, ok := h.agenda.First()
		if !ok {
			return due, now.Add(time.Hour)
		}
		end := h.lingersUntil(e)
		switch {
		case e.Due().After(soon), e.users == 0 && e.Due().After(now):
			return due, e.Due()
		case e.users > 0:
			h.agenda.Remove(e)
			due = append(due, e)
		case end.After(now):
			h.plan(e, end)
		default:
			h.agenda.Remove(e)
			delete(h.topics, e.channel)
			e.stop()
		}
	}
}

// check reads the clocks of channels, wakes the waiters at other positions, and puts the topics back on the agenda.
func (h *hub) check(ctx context.Context, batch []*entry) {
	channels, seen := make([]string, len(batch)), make([]uint64, len(batch))
	for i, e := range batch {
		channels[i], seen[i] = e.channel, e.seen()
	}
	pause := h.limits.Backstop
	for i, r := range h.store.Positions(ctx, channels) {
		switch {
		case r.Err == nil:
			batch[i].observe(r.Position, seen[i])
		case errors.Is(r.Err, ErrNoChannel):
			batch[i].observe(noChannel, seen[i])
		case ctx.Err() != nil:
			return
		default:
			pause = min(pause, retryRead)
			h.log.LogAttrs(ctx, slog.LevelDebug, "cannot read a channel's clock",
				slog.String("channel", channels[i]), slog.Any("error", r.Err))
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, e := range batch {
		if h.topics[e.channel] != e {
			continue
		}
		due := now.Add(spread(pause))
		if end := h.lingersUntil(e); e.users == 0 && end.Before(due) {
			due = end
		}
		h.plan(e, due)
	}
}

// spread returns a little less than a duration, at random, so that channels that were first waited on at the same time
// aren't read at the same time forever.
func spread(d time.Duration) time.Duration {
	return d - rand.N(d/4+1) //nolint:gosec // chance to spread load, not to keep a secret
}

// plan sets when a topic is due, and puts it on the agenda if it isn't there. The lock is held.
func (h *hub) plan(e *entry, due time.Time) {
	if h.agenda.Plan(e, due) && len(h.planned) == 0 {
		h.planned <- struct{}{} // never blocks: all senders hold the lock
	}
}

// lingersUntil returns when a topic without waiters ends: after as much time without them as it existed before, and
// after Limits.Linger at most. A channel with repeated waits keeps its subscription in between; after a single wait the
// subscription ends soon. The lock is held.
func (h *hub) lingersUntil(e *entry) time.Time {
	return e.idleSince.Add(min(h.limits.Linger, e.idleSince.Sub(e.created)))
}

// isServing reports whether waiters may sleep.
func (h *hub) isServing() bool { return h.state.Load() == serving }

// drain ends all sleeps, now and later. It may be called more than once.
func (h *hub) drain() { h.endSleeps(drained) }

// suspend ends all sleeps, now and until resume.
func (h *hub) suspend() { h.endSleeps(suspended) }

// resume lets waiters sleep again, unless the hub has drained. Those that joined meanwhile don't.
func (h *hub) resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.CompareAndSwap(suspended, serving)
}

func (h *hub) endSleeps(state int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Store(max(state, h.state.Load()))
	for _, e := range h.topics {
		e.wakeAll()
	}
}

// close stops listening to all channels. The hub has drained before, so that no topic is added later.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.topics {
		h.agenda.Remove(e)
		e.stop()
	}
	clear(h.topics)
}

// count returns the number of fetches that wait, whether they sleep or read, and of channels that are listened to.
func (h *hub) count() (fetches, channels int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiters, len(h.topics)
}

// listening reports whether all targets' channels are listened to, as the store has confirmed.
func (h *hub) listening(targets []target) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range targets {
		if e := h.topics[targets[i].channel]; e == nil || !e.isConfirmed() {
			return false
		}
	}
	return true
}

// join returns a new waiter of a fetch, which must leave in the end.
func (h *hub) join(targets []target) *waiter {
	w := newWaiter(h, nil)
	h.joined(w, targets)
	return w
}

// joinStream lets the waiter of a stream, on a WebSocket or not, join. It must leave in the end.
func (h *hub) joinStream(w *waiter, targets []target, socket bool) {
	w.streams, w.socket = true, socket
	h.joined(w, targets)
}

func (h *hub) joined(w *waiter, targets []target) {
	w.members = make([]member, len(targets))
	h.enter(w, targets)
	for i := range w.members {
		w.members[i].topic.add(&w.members[i])
	}
}

// enter makes a waiter's members, and the topics that don't exist yet.
func (h *hub) enter(w *waiter, targets []target) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	w.since, w.late = now, !h.isServing()
	if !w.streams {
		h.waiters++
	}
	for i, t := range targets {
		e := h.entry(t.channel, now)
		e.users++
		w.members[i] = member{entry: e, topic: e.topic, subscriber: t.subscriber, number: i, waiter: w}
	}
}

// entry returns a channel's entry for another user, and makes it if it doesn't exist. The lock is held.
func (h *hub) entry(channel string, now time.Time) *entry {
	e, reading := h.topics[channel], false
	if e != nil {
		reading = !e.Planned()
	} else {
		e = &entry{topic: &topic{channel: channel}, created: now}
		if h.isServing() {
			h.topics[channel] = e
			e.stop = h.store.Listen(channel, h.sink(e.topic))
		}
	}
	if e.users == 0 && !reading && e.stop != nil {
		h.plan(e, now.Add(spread(h.limits.Backstop)))
	}
	return e
}

// sink returns the sink of a topic's events.
func (h *hub) sink(t *topic) func(Event) {
	return func(e Event) {
		if e.Kind == EventSought {
			h.sought(target{channel: t.channel, subscriber: e.Subscriber})
		}
		t.handle(e)
	}
}

// exit removes a waiter's users from its entries, which linger if they have no other.
func (h *hub) exit(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !w.streams {
		h.waiters--
	}
	now := time.Now()
	for i := range w.members {
		e := w.members[i].entry
		if e.users--; e.users > 0 {
			continue
		}
		e.idleSince = now
		if end := h.lingersUntil(e); e.Planned() && end.Before(e.Due()) {
			h.plan(e, end)
		}
	}
}
