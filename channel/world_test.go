package channel

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
)

// Two lives of a channel.
var (
	life1 = ulid.MustParse("01HZZZZZZZZZZZZZZZZZZZZZZ1")
	life2 = ulid.MustParse("01HZZZZZZZZZZZZZZZZZZZZZZ2")
)

func in1(c clock.Clock) Position { return Position{Epoch: life1, Clock: c} }

func messageAt(c clock.Clock) *Message {
	return &Message{ID: "m" + c.String(), Clock: c, Content: []byte(`"` + c.String() + `"`), Write: receipt.Write{1}}
}

var (
	confirmed = Event{Kind: EventConfirmed}
	errNoise  = errors.New("noise")
)

// testLimits have a long backstop interval.
func testLimits() Limits {
	l := DefaultLimits()
	l.Linger = time.Minute
	l.Backstop = 24 * time.Hour
	return l
}

// pass advances time in a synctest bubble.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // a bubble's time passes at once, when everything in it waits
	synctest.Wait()
}

// world is a Store with one channel, kept in plain maps. A test decides when its answers and its notifications
// arrive, and which are lost.
type world struct {
	Operations // not called

	mu sync.Mutex
	state
	replica state // what is left after a fail-over

	connected bool
	queue     []Event // notifications on their way
	sinks     map[string]func(Event)

	slow    bool            // answers are held
	held    []chan struct{} // answers on their way
	failing bool            // the next read of the clock fails
	broken  bool            // all fetches fail
	limited string          // the subscriber whose fetches a limit refuses
	fetches int
	polls   int           // of sources
	due     bool          // whether polls report that subscribers must be renewed
	stale   bool          // polls find marks one behind
	wait    time.Duration // that the last fetch announced
	reads   int           // of the clock
	writes  uint16        // of messages, in all histories
}

var _ Store = (*world)(nil)

// state is the stored state of a world.
type state struct {
	now      Position
	messages map[clock.Clock]Message // of the life that is now, alive
	marks    map[string]clock.Clock
	log      map[Position]string // the IDs of all messages ever
}

func (s state) clone() state {
	return state{now: s.now, messages: maps.Clone(s.messages), marks: maps.Clone(s.marks), log: maps.Clone(s.log)}
}

func newWorld(at Position) *world {
	s := state{
		now: at, messages: make(map[clock.Clock]Message), marks: make(map[string]clock.Clock),
		log: make(map[Position]string),
	}
	return &world{state: s, replica: s.clone(), sinks: make(map[string]func(Event))}
}

// snapshot returns a copy of the state.
func (w *world) snapshot() state {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clone()
}

// change changes what a test sets, while the service runs.
func (w *world) change(set func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set()
}

// counts returns how many fetches and polls of sources there were.
func (w *world) counts() (fetches, polls int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fetches, w.polls
}

// underway counts the notifications and the answers on their way.
func (w *world) underway() (notifications, answers int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue), len(w.held)
}

// arrive holds an answer until it is released.
func (w *world) arrive() {
	w.mu.Lock()
	if !w.slow {
		w.mu.Unlock()
		return
	}
	held := make(chan struct{})
	w.held = append(w.held, held)
	w.mu.Unlock()
	<-held
}

// release delivers one answer.
func (w *world) release(i int) {
	w.mu.Lock()
	close(w.held[i])
	w.held = slices.Delete(w.held, i, i+1)
	w.mu.Unlock()
	synctest.Wait()
}

// deliver delivers the first pending notification.
func (w *world) deliver() {
	w.mu.Lock()
	e, sinks := w.queue[0], slices.Collect(maps.Values(w.sinks))
	w.queue = w.queue[1:]
	w.mu.Unlock()
	for _, sink := range sinks {
		sink(e)
	}
	synctest.Wait()
}

// settle delivers all answers and notifications.
func (w *world) settle() {
	w.mu.Lock()
	w.slow = false
	w.mu.Unlock()
	for {
		notifications, answers := w.underway()
		switch {
		case answers > 0:
			w.release(0)
		case notifications > 0:
			w.deliver()
		default:
			return
		}
	}
}

// deliverAny delivers the first pending notification, if there is one.
func (w *world) deliverAny() {
	if notifications, _ := w.underway(); notifications > 0 {
		w.deliver()
	}
}

// hold makes answers arrive when they are released.
func (w *world) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = true
}

// answerAny delivers one answer, if there is one.
func (w *world) answerAny() {
	if _, answers := w.underway(); answers > 0 {
		w.release(0)
	}
}

// expireOldest removes the oldest message that is alive.
func (w *world) expireOldest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range clock.After(w.now.Clock.Sub(1000), w.now.Clock, 1000) {
		if _, alive := w.messages[c]; alive {
			delete(w.messages, c)
			return
		}
	}
}

// disconnect loses all pending notifications except the first keep, and all later ones.
func (w *world) disconnect(keep int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connected, w.queue = false, w.queue[:keep]
}

// connect begins to send notifications, if they are listened to.
func (w *world) connect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.connected && len(w.sinks) > 0 {
		w.connected, w.queue = true, append(w.queue, confirmed)
	}
}

// replicate copies the state to the replica.
func (w *world) replicate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replica = w.clone()
}

// failOver loses all writes after the last replicate, and the connection.
func (w *world) failOver() {
	w.disconnect(0)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = w.replica.clone()
}

// fail makes the next read of the clock fail.
func (w *world) fail() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing = true
}

// tell sends an event, if connected. The lock is held.
func (w *world) tell(e Event) {
	if w.connected {
		w.queue = append(w.queue, e)
	}
}

// publish appends one message. If it is large, its notification doesn't contain it.
func (w *world) publish(id string, large bool) Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.Clock = w.now.Clock.Next()
	w.writes++
	m := Message{ID: id, Clock: w.now.Clock, Content: []byte(`"` + id + `"`), Write: receipt.Write{byte(w.writes), byte(w.writes >> 8)}}
	w.messages[m.Clock], w.log[w.now] = m, id
	e := Event{Kind: EventPublished, Position: w.now, Message: &m}
	if large {
		e.Message = nil
	}
	w.tell(e)
	return m
}

// end closes the channel, with a last message unless the ID is empty.
func (w *world) end(id string) {
	if id != "" {
		connected := w.connected
		w.change(func() { w.connected = false }) // a closing publish has one notification
		w.publish(id, true)
		w.change(func() { w.connected = connected })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.Closed = true
	w.tell(Event{Kind: EventClosed, Position: w.now})
}

// restart ends the life of the channel and begins another one, in which all subscribers subscribe again.
func (w *world) restart(epoch ulid.ULID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = Position{Epoch: epoch}
	clear(w.messages)
	for s := range w.marks {
		w.marks[s] = 0
	}
}

func (w *world) Publish(_ context.Context, r PublishRequest) ([]Published, error) {
	var all []Published
	for _, d := range r.Drafts {
		m := w.publish(d.ID, false)
		all = append(all, Published{ID: m.ID, Clock: m.Clock})
	}
	return all, nil
}

func (w *world) BeginPublish(context.Context, PublishRequest, func([]Published, error)) bool {
	return false
}

func (w *world) PublishEach(context.Context, []PublishRequest) []PublishResult { panic("not used") }

func (w *world) Fetch(_ context.Context, r FetchRequest) (Batch, error) {
	b, err := w.fetch(r)
	w.arrive()
	return b, err
}

func (w *world) fetch(r FetchRequest) (Batch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fetches++
	w.wait = r.Wait
	if w.broken {
		return Batch{}, fault.ErrUnavailable
	}
	if r.Subscriber == w.limited && r.Tail == nil {
		return Batch{}, &fault.Error{Kind: fault.Limited, Slug: fault.SlugRateLimited}
	}
	mark, ok := w.marks[r.Subscriber]
	if r.Tail != nil {
		if w.now == (Position{}) {
			return Batch{}, ErrNoChannel
		}
		if mark, ok = w.beginning(&r); !ok {
			return Batch{}, ErrClockAhead
		}
	}
	if !ok {
		return Batch{}, ErrNoSubscriber
	}
	b := Batch{Epoch: w.now.Epoch, Mark: mark, After: mark, Clock: w.now.Clock, Closed: w.now.Closed}
	if a := r.After; a != nil {
		b.Lost = !w.knows(a, mark, r.Tail != nil)
		if !b.Lost && !r.FromMark && (r.Tail != nil || clock.Between(mark, a.Clock, w.now.Clock)) {
			b.After = a.Clock
		}
	}
	b.Through = b.After
	if m, alive := w.messages[b.Through]; alive && r.Identify {
		b.Last = m.Identity()
	}
	for c := range clock.After(b.After, w.now.Clock, 1000) {
		m, alive := w.messages[c]
		switch {
		case !alive:
			b.Expired++
		case len(b.Messages) < r.Max:
			b.Messages, b.Last = append(b.Messages, m), m.Identity()
		default:
			return b, nil
		}
		b.Through = c
	}
	return b, nil
}

// knows reports whether a position is of the channel's history. The lock is held.
func (w *world) knows(r *receipt.Receipt, mark clock.Clock, tail bool) bool {
	if r.Epoch != w.now.Epoch || !clock.Behind(r.Clock, w.now.Clock) {
		return false
	}
	if r.MessageID == "" && r.Write.IsZero() && !tail && clock.Behind(r.Clock, mark) {
		return true
	}
	return w.matches(r)
}

// matches reports whether the message of a receipt is at its clock, or gone. The lock is held.
func (w *world) matches(r *receipt.Receipt) bool {
	m, alive := w.messages[r.Clock]
	return !alive || r.Write == m.Write && r.MessageID == m.ID
}

// beginning returns where a tail begins without its position. The lock is held.
func (w *world) beginning(r *FetchRequest) (clock.Clock, bool) {
	from := *r.Tail
	if r.After != nil && r.After.Epoch != w.now.Epoch {
		from.Start = StartEarliest
	}
	switch from.Start {
	case StartAt:
		if ok := clock.Behind(from.Clock, w.now.Clock); ok || r.After == nil {
			return from.Clock, ok
		}
	case StartEarliest:
		at := w.now.Clock
		for _, alive := w.messages[at]; alive; _, alive = w.messages[at] {
			at = at.Sub(1)
		}
		return at, true
	case StartLatest:
	}
	return w.now.Clock, true
}

func (w *world) Ack(_ context.Context, r AckRequest) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	mark, ok := w.marks[r.Receipt.Subscriber]
	switch {
	case !ok:
		return ErrNoSubscriber
	case r.Receipt.Epoch != w.now.Epoch:
		return ErrReceiptEpoch
	case !clock.Between(mark, r.Receipt.Clock, w.now.Clock):
		if !clock.Behind(r.Receipt.Clock, mark) {
			return ErrReceiptAhead
		}
		return nil
	}
	if !w.matches(&r.Receipt) {
		return ErrReceiptSuperseded
	}
	w.marks[r.Receipt.Subscriber] = r.Receipt.Clock
	return nil
}

func (w *world) Next(ctx context.Context, a AckRequest, f FetchRequest) (Batch, error) {
	if err := w.Ack(ctx, a); err != nil {
		return Batch{}, err
	}
	return w.Fetch(ctx, f)
}

func (w *world) Poll(ctx context.Context, requests []PollRequest) []PollResult {
	results := make([]PollResult, len(requests))
	for i, r := range requests {
		if r.Receipt != nil {
			if results[i].Err = w.Ack(ctx, AckRequest{Receipt: *r.Receipt}); results[i].Err != nil {
				continue
			}
		}
		w.mu.Lock()
		mark, ok := w.marks[r.Subscriber]
		if w.stale {
			mark = mark.Sub(1)
		}
		results[i] = PollResult{Position: w.now, Mark: mark, Due: w.due, Lost: r.Last != nil && !w.knows(r.Last, mark, false)}
		if !ok {
			results[i] = PollResult{Err: ErrNoSubscriber}
		}
		w.polls++
		w.mu.Unlock()
	}
	w.arrive()
	return results
}

func (w *world) FetchEach(_ context.Context, requests []FetchRequest) []BatchResult {
	results := make([]BatchResult, len(requests))
	for i, r := range requests {
		results[i].Batch, results[i].Err = w.fetch(r)
	}
	w.arrive()
	return results
}

func (w *world) Subscribe(_ context.Context, r SubscribeRequest) (Subscription, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mark, exists := w.marks[r.Subscriber]
	if !exists {
		mark = w.now.Clock
		w.marks[r.Subscriber] = mark
	}
	return Subscription{Created: !exists, Position: Position{Epoch: w.now.Epoch, Clock: mark}}, nil
}

func (w *world) Unsubscribe(_ context.Context, _, subscriber string, _ ulid.ULID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.marks, subscriber)
	w.tell(Event{Kind: EventUnsubscribed, Position: w.now, Subscriber: subscriber})
	return nil
}

func (w *world) Describe(context.Context, DescribeRequest) (Description, error) {
	return Description{}, errors.ErrUnsupported
}

func (w *world) Positions(_ context.Context, channels []string) []PositionResult {
	w.mu.Lock()
	r := PositionResult{Position: w.now}
	switch {
	case w.failing:
		r = PositionResult{Err: fault.ErrUnavailable}
	case w.now == Position{}:
		r = PositionResult{Err: ErrNoChannel}
	}
	w.failing = false
	w.reads++
	w.mu.Unlock()
	w.arrive()
	return slices.Repeat([]PositionResult{r}, len(channels))
}

func (w *world) Listen(name string, sink func(Event)) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sinks[name] = sink
	if w.connected {
		sink(confirmed)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.sinks, name); len(w.sinks) == 0 {
			w.connected, w.queue = false, nil
		}
	}
}

// keyring returns receipt keys for tests.
func keyring(t require.TestingT) *receipt.Keyring {
	ring, err := receipt.NewKeyring(slices.Repeat(receipt.Key{7}, receipt.MinKeyBytes))
	require.NoError(t, err)
	return ring
}

// testPolicy is the policy of channels in tests.
var testPolicy = Policy{TTL: time.Hour, MaxMessageBytes: 100}

// serviceOn returns a service on a store.
func serviceOn(t require.TestingT, store Store, limits Limits, rules ...Rule) *Service {
	policies, err := NewPolicies(testPolicy, rules)
	require.NoError(t, err)
	s, err := NewService(Options{
		Store: store, Receipts: keyring(t), Policies: policies, Limits: limits,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return s
}

// runService starts a service. stop ends it and waits until it has ended.
func runService(ctx context.Context, t require.TestingT, s *Service) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// runningService returns a service on a world, which runs until the test's bubble ends.
func runningService(t *testing.T, limits Limits) (*Service, *world) {
	t.Helper()
	w := newWorld(in1(0))
	s := serviceOn(t, w, limits)
	t.Cleanup(runService(t.Context(), t, s))
	return s, w
}

func (w *world) CloseChannel(context.Context, CloseRequest) (Life, error) { panic("not used") }

func (w *world) Create(context.Context, CreateRequest) (Created, error) { panic("not used") }

func (w *world) Life(context.Context, string) (Life, error) { panic("not used") }
