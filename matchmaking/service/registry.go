package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
)

// missRefresh is the shortest time between two reads of the definitions because a queue wasn't known.
const missRefresh = 100 * time.Millisecond

// queues is the registry: the queues of the configuration, those that were put on any server, and the default one. A
// queue that was put a moment ago on another server is found, too, since a name that isn't known makes it read the
// definitions first. It may be used by many goroutines.
type queues struct {
	store matchmaking.Admin
	build matchmaking.Build
	// longest is how long a ticket and its assignment may live together.
	longest time.Duration
	most    int // queues, when one is put
	log     *slog.Logger
	fixed   map[string]*queue
	changed chan struct{} // has one place: all changed
	reading chan struct{} // has one place: somebody reads the definitions, so that no older read replaces a newer one

	mu       sync.Mutex
	all      map[string]*queue // replaced, never written to
	anyPulse bool              // a queue has a heartbeat
	refused  map[string]string // definitions that were put and that this server can't read: logged once
	flight   *flight           // the read that callers wait for
	lastRead time.Time         // when the last read of a flight began
}

// queue is one definition of one queue.
type queue struct {
	matchmaking.Definition
	fixed bool
	text  []byte
	over  chan struct{} // closed when the queue has another definition, or none
	// wasFull is until when the queue is looked at before anything is made for a ticket, in nanoseconds.
	wasFull atomic.Int64
}

// flight is a read of the definitions that several callers wait for.
type flight struct {
	done chan struct{}
	err  error
}

func newQueues(o Options) (*queues, error) {
	q := &queues{
		store: o.Store, build: o.Build, longest: o.ChannelTTL, most: o.MaxQueues, log: o.Logger,
		fixed: map[string]*queue{}, refused: map[string]string{},
		changed: make(chan struct{}, 1), reading: make(chan struct{}, 1),
	}
	for _, d := range o.Definitions {
		if q.fixed[d.Name] != nil {
			return nil, fmt.Errorf("queue %s: it is there twice", d.Name)
		}
		if err := q.check(d); err != nil {
			return nil, fmt.Errorf("queue %s: %w", d.Name, err)
		}
		made, err := newQueue(d)
		if err != nil {
			return nil, err
		}
		made.fixed = true
		q.fixed[d.Name] = made
	}
	return q, q.merge(nil)
}

func newQueue(d matchmaking.Definition) (*queue, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("write the definition of queue %s: %w", d.Name, err)
	}
	return &queue{Definition: d, text: text, over: make(chan struct{})}, nil
}

// check tells whether a queue can be as it is defined.
func (q *queues) check(d matchmaking.Definition) error {
	if err := matchmaking.CheckQueueName(d.Name); err != nil {
		return err
	}
	if err := d.Check(); err != nil {
		return err
	}
	if life := d.TicketTTL.Std() + d.AssignmentTTL.Std(); life > q.longest {
		return matchmaking.InvalidQueue("ticketTTL", "ticketTTL: with assignmentTTL it is %s, and channels live for %s only", life, q.longest)
	}
	_, err := q.build(d)
	var told *fault.Error
	if err != nil && !errors.As(err, &told) {
		return matchmaking.InvalidQueue("", "the queue can't be built: %v", err)
	}
	return err
}

// lookup finds a queue. One that isn't known is looked for in the store before it is given up. Errors: ErrNoQueue.
func (q *queues) lookup(ctx context.Context, name string) (*queue, error) {
	if known := q.known()[name]; known != nil {
		return known, nil
	}
	if matchmaking.CheckQueueName(name) != nil {
		return nil, matchmaking.ErrNoQueue
	}
	if err := q.refreshMiss(ctx); err != nil {
		return nil, err
	}
	if known := q.known()[name]; known != nil {
		return known, nil
	}
	return nil, matchmaking.ErrNoQueue
}

// known gives all queues. Nobody writes to it.
func (q *queues) known() map[string]*queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all
}

// pulses tells whether any queue has a heartbeat.
func (q *queues) pulses() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.anyPulse
}

// refreshMiss reads the definitions, with a read that begins after the call. All that call meanwhile share one, and
// there is one in missRefresh at most, so that unknown names don't load the store.
func (q *queues) refreshMiss(ctx context.Context) error {
	q.mu.Lock()
	f, leads := q.flight, false
	if f == nil {
		f, leads = &flight{done: make(chan struct{})}, true
		q.flight = f
	}
	wait := missRefresh - time.Since(q.lastRead)
	q.mu.Unlock()
	if leads {
		q.lead(ctx, f, wait)
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return fmt.Errorf("read the queues' definitions: %w", ctx.Err())
	}
}

// lead makes the read of a flight. It goes on where ctx ends, for the others.
func (q *queues) lead(ctx context.Context, f *flight, wait time.Duration) {
	pace.Sleep(context.WithoutCancel(ctx), wait)
	q.mu.Lock()
	q.flight = nil // who comes from now on needs a later read
	q.lastRead = time.Now()
	q.mu.Unlock()
	f.err = q.refresh(context.WithoutCancel(ctx))
	close(f.done)
}

// beginReading makes sure that no read of the definitions that began earlier replaces what is known from now on, until
// end is called.
func (q *queues) beginReading(ctx context.Context) (end func(), err error) {
	select {
	case q.reading <- struct{}{}:
		return func() { <-q.reading }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("read the queues' definitions: %w", ctx.Err())
	}
}

// refresh reads the definitions that were put.
func (q *queues) refresh(ctx context.Context) error {
	end, err := q.beginReading(ctx)
	if err != nil {
		return err
	}
	defer end()
	put, err := q.store.Definitions(ctx)
	if err != nil {
		return fmt.Errorf("read the queues' definitions: %w", err)
	}
	return q.merge(put)
}

// merge makes put the definitions that were put. Queues whose definition is the same stay the same.
func (q *queues) merge(put map[string][]byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	merged := make(map[string]*queue, len(put)+len(q.fixed)+1)
	for name, text := range put {
		if made := q.readPut(name, text); made != nil {
			merged[name] = made
		}
	}
	if merged[matchmaking.DefaultQueue] == nil {
		made, err := newQueue(matchmaking.DefaultDefinition(matchmaking.DefaultQueue))
		if err != nil {
			return err
		}
		merged[matchmaking.DefaultQueue] = made
	}
	maps.Copy(merged, q.fixed)
	q.replace(merged)
	return nil
}

// readPut reads a definition that was put; nil: it can't be used here. Called with mu held.
func (q *queues) readPut(name string, text []byte) *queue {
	if old := q.all[name]; old != nil && !old.fixed && bytes.Equal(old.text, text) {
		return old
	}
	d, err := matchmaking.ParseDefinition(name, text)
	d.RunTime = true
	if err == nil {
		var made *queue
		if made, err = newQueue(d); err == nil {
			delete(q.refused, name)
			return made
		}
	}
	if q.refused[name] != err.Error() {
		q.refused[name] = err.Error()
		q.log.Error("a queue's definition can't be read", "queue", name, "error", err)
	}
	return nil
}

// replace puts merged in place of all. Called with mu held.
func (q *queues) replace(merged map[string]*queue) {
	news := len(merged) != len(q.all)
	q.anyPulse = false
	for name, made := range merged {
		if old := q.all[name]; old != nil && bytes.Equal(old.text, made.text) {
			merged[name] = old
		} else {
			news = true
		}
		q.anyPulse = q.anyPulse || made.Heartbeat > 0
	}
	for name, old := range q.all {
		if merged[name] != old {
			close(old.over)
		}
	}
	q.all = merged
	if news {
		select {
		case q.changed <- struct{}{}:
		default:
		}
	}
}

// watch reads the definitions every so often, until ctx ends.
func (q *queues) watch(ctx context.Context, every time.Duration) {
	down := outage.New(q.log, "the queues' definitions can't be read")
	for {
		err := q.refresh(ctx)
		down.Report(ctx, err)
		if !pace.Sleep(ctx, pace.Jitter(every)) {
			return
		}
	}
}

// put makes or replaces a queue. Errors: SlugInvalidQueue, ErrQueueFixed, ErrTooManyQueues and the store's.
func (q *queues) put(ctx context.Context, d matchmaking.Definition) (created bool, err error) {
	d.RunTime = true
	if q.fixed[d.Name] != nil {
		return false, matchmaking.ErrQueueFixed
	}
	if err := q.check(d); err != nil {
		return false, err
	}
	made, err := newQueue(d)
	if err != nil {
		return false, err
	}
	end, err := q.beginReading(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	created, err = q.store.PutDefinition(ctx, matchmaking.PutRequest{Queue: d.Name, Definition: made.text, Most: max(q.most-len(q.fixed), 0)})
	if err != nil {
		return false, fmt.Errorf("put queue %s: %w", d.Name, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	merged := maps.Clone(q.all)
	merged[d.Name] = made
	q.replace(merged)
	return created, nil
}

// remove removes a queue that was put. Errors: ErrQueueFixed, fault.SlugQueueInUse and the store's.
func (q *queues) remove(ctx context.Context, name string) error {
	if q.fixed[name] != nil {
		return matchmaking.ErrQueueFixed
	}
	if err := matchmaking.CheckQueueName(name); err != nil {
		return err
	}
	if name != matchmaking.DefaultQueue { // which goes on as it is without a definition
		state, err := q.store.Describe(ctx, name, 0)
		if err != nil {
			return fmt.Errorf("delete queue %s: %w", name, err)
		}
		if state.Searching+state.Pending+state.Outgoing > 0 {
			return queueInUse(name, state)
		}
	}
	if err := q.store.DeleteDefinition(ctx, name); err != nil {
		return fmt.Errorf("delete queue %s: %w", name, err)
	}
	return q.refresh(ctx)
}

// sorted gives all queues by name.
func (q *queues) sorted() []*queue {
	all := q.known()
	list := make([]*queue, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}

// stored returns the definition of a queue as it is in the store now; the zero one where there is none.
func (q *queues) stored(ctx context.Context, name string) (matchmaking.Definition, error) {
	if err := q.refresh(ctx); err != nil {
		return matchmaking.Definition{}, err
	}
	return cmp.Or(q.known()[name], &queue{}).Definition, nil
}

// queueInUse is the error of deleting a queue in which there is something.
func queueInUse(name string, state matchmaking.QueueState) error {
	return &fault.Error{
		Kind: fault.Conflict, Slug: fault.SlugQueueInUse,
		Detail: fmt.Sprintf("%d tickets wait in the queue %s, and %d assignments are on their way: let them be matched, cancelled, or expire first",
			state.Searching+state.Pending, name, state.Outgoing),
	}
}
