package channel

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/clock"
)

func in2(c clock.Clock) Position { return Position{Epoch: life2, Clock: c} }

func published(p Position) Event {
	return Event{Kind: EventPublished, Position: p, Message: messageAt(p.Clock)}
}

func publishedLarge(p Position) Event { return Event{Kind: EventPublished, Position: p} }

func closedAt(p Position) Event {
	p.Closed = true
	return Event{Kind: EventClosed, Position: p}
}

func unsubscribed(subscriber string) Event {
	return Event{Kind: EventUnsubscribed, Position: in1(0), Subscriber: subscriber}
}

// fakeNotifier is a Notifier whose events and results the test sets.
type fakeNotifier struct {
	mu        sync.Mutex
	sinks     map[string]func(Event)
	opened    int // calls of Listen
	overlaps  int // calls of Listen for a channel that was listened to
	reads     int // channels whose clock was read
	position  Position
	readError error
	held      chan struct{} // if not nil, Positions answers when this is closed
}

func newFakeNotifier() *fakeNotifier {
	return &fakeNotifier{sinks: make(map[string]func(Event)), position: in1(0)}
}

func (f *fakeNotifier) Positions(ctx context.Context, channels []string) []PositionResult {
	f.mu.Lock()
	f.reads += len(channels)
	r, held := PositionResult{f.position, f.readError}, f.held
	f.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			r = PositionResult{Err: ctx.Err()}
		}
	}
	return slices.Repeat([]PositionResult{r}, len(channels))
}

func (f *fakeNotifier) Listen(channel string, sink func(Event)) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	if f.sinks[channel] != nil {
		f.overlaps++
	}
	f.sinks[channel] = sink
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.sinks, channel)
	}
}

// set changes the fake.
func (f *fakeNotifier) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// seen returns the numbers of calls of Listen, of clocks read, and of channels with listeners.
func (f *fakeNotifier) seen() (opened, reads, listening int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened, f.reads, len(f.sinks)
}

// emit sends an event of the channel "ch", if it is listened to, and waits until all waiters have reacted.
func (f *fakeNotifier) emit(e Event) {
	f.mu.Lock()
	sink := f.sinks["ch"]
	f.mu.Unlock()
	if sink != nil {
		sink(e)
	}
	synctest.Wait()
}

// setPosition sets the result of reads of the clock.
func (f *fakeNotifier) setPosition(p Position, err error) {
	f.set(func() { f.position, f.readError = p, err })
}

// hold makes Positions read, but return only after the returned function is called.
func (f *fakeNotifier) hold() (release func()) {
	held := make(chan struct{})
	f.set(func() { f.held = held })
	return func() {
		f.set(func() { f.held = nil })
		close(held)
		synctest.Wait()
	}
}

// runningHub returns a hub that runs until the test's bubble ends.
func runningHub(t *testing.T, limits Limits) (*hub, *fakeNotifier) {
	t.Helper()
	store := newFakeNotifier()
	h := newHub(store, limits, slog.New(slog.DiscardHandler))
	stop := runHub(t, h)
	t.Cleanup(func() {
		stop()
		require.Zero(t, store.overlaps, "a channel had two listeners at the same time")
		require.Empty(t, store.sinks)
		waiters, channels := h.count()
		require.Zero(t, waiters)
		require.Zero(t, channels)
	})
	return h, store
}

// runHub starts a hub. stop ends it and waits until it has ended.
func runHub(t *testing.T, h *hub) (stop func()) {
	t.Helper()
	// Not a child of the test's context, which ends before its cleanups.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error)
	go func() { ended <- h.run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// outcome is how a sleep ended.
type outcome struct {
	asleep  bool // it hasn't
	woken   bool
	message *Message
	closed  bool
}

var (
	asleep  = outcome{asleep: true}
	refetch = outcome{woken: true}
	ended   = outcome{woken: true, closed: true}
	nothing = outcome{}
)

// only are the targets of a waiter on one channel.
var only = []int{0}

func outcomeOf(woken []wakeup) outcome {
	if len(woken) == 0 {
		return nothing
	}
	return outcome{woken: true, message: woken[0].message, closed: woken[0].closed}
}

func handed(c clock.Clock) outcome { return outcome{woken: true, message: messageAt(c)} }

// sleeper is a waiter in a goroutine.
type sleeper struct {
	w      *waiter
	timer  chan time.Time
	cancel context.CancelFunc
	ended  chan outcome
}

// joined returns a prepared waiter of the channel "ch", as if its fetch were in progress.
func joined(t *testing.T, h *hub, subscriber string) *sleeper {
	t.Helper()
	s := &sleeper{w: h.join([]target{{"ch", subscriber}}), timer: make(chan time.Time, 1), ended: make(chan outcome, 1)}
	s.w.prepare(only)
	synctest.Wait()
	return s
}

// sleep arms the waiter.
func (s *sleeper) sleep(t *testing.T, at Position) *sleeper {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	s.w.members[0].write = messageAt(at.Clock).Write
	go func() {
		defer cancel()
		s.ended <- outcomeOf(s.w.sleep(ctx, s.timer, []Position{at}))
	}()
	synctest.Wait()
	return s
}

// sleeping returns a sleeping waiter.
func sleeping(t *testing.T, h *hub, subscriber string, at Position) *sleeper {
	t.Helper()
	return joined(t, h, subscriber).sleep(t, at)
}

// outcome returns how the sleep ended, or asleep.
func (s *sleeper) outcome() outcome {
	synctest.Wait()
	select {
	case o := <-s.ended:
		return o
	default:
		return asleep
	}
}

// leave ends the sleeper, whether it sleeps or not.
func (s *sleeper) leave() {
	if s.cancel != nil {
		s.cancel()
	}
	synctest.Wait()
	s.w.leave()
}
