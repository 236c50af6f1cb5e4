package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

// registry holds the queues known to this server: those of the configuration, those that were put on any server, and
// the default one. A queue that was just put on another server is found too, because an unknown name makes the registry
// read the stored definitions first. It may be used by many goroutines.
type registry struct {
	options *Options
	changed chan struct{} // buffered (capacity 1): queues changed
	reading chan struct{} // buffered (capacity 1): held during a read, so that no older read replaces a newer one
	misses  singleflight.Group

	mu         sync.Mutex
	configured map[string]*queue // of the configuration; replaced as a whole
	maxQueues  int
	queues     map[string]*queue // replaced as a whole, never modified
	heartbeats bool              // a queue has a heartbeat
	unreadable map[string]string // stored definitions that this server can't read, and the error: each is logged once
	lastMiss   time.Time         // start of the last read because of an unknown name
}

// queue is one definition of one queue.
type queue struct {
	matchmaking.Definition
	configured bool
	text       []byte
	replaced   chan struct{} // closed when the queue has another definition, or is removed
	fullUntil  atomic.Int64  // Unix nanoseconds: isFull queries the storage until then
}

func newRegistry(o *Options) (*registry, error) {
	r := &registry{
		options: o, maxQueues: o.MaxQueues, unreadable: map[string]string{},
		changed: make(chan struct{}, 1), reading: make(chan struct{}, 1),
	}
	var err error
	if r.configured, err = r.newConfigured(o.Definitions); err != nil {
		return nil, err
	}
	return r, r.merge(nil)
}

// newConfigured returns the queues of a configuration by name.
func (r *registry) newConfigured(definitions []matchmaking.Definition) (map[string]*queue, error) {
	configured := make(map[string]*queue, len(definitions))
	for _, d := range definitions {
		if configured[d.Name] != nil {
			return nil, fmt.Errorf("queue %s: duplicate queue", d.Name)
		}
		if err := r.check(d); err != nil {
			return nil, fmt.Errorf("queue %s: %w", d.Name, err)
		}
		q, err := newQueue(d)
		if err != nil {
			return nil, err
		}
		q.configured = true
		configured[d.Name] = q
	}
	return configured, nil
}

// setConfigured replaces the queues of the configuration. defaultQueue is the default queue, unless the configuration
// or a definition that was put defines it. A definition that was put under the name of a queue that the configuration
// no longer has is used from the next refresh on.
func (r *registry) setConfigured(configured map[string]*queue, defaultQueue *queue, maxQueues int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	merged := map[string]*queue{matchmaking.DefaultQueue: defaultQueue}
	for name, q := range r.queues {
		if !q.configured {
			merged[name] = q
		}
	}
	r.configured, r.maxQueues = configured, maxQueues
	maps.Copy(merged, configured)
	r.replace(merged)
}

// isConfigured reports whether a queue is part of the configuration.
func (r *registry) isConfigured(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.configured[name] != nil
}

// room returns how many queues may be put.
func (r *registry) room() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.maxQueues-len(r.configured), 0)
}

// defaultQueue returns the default queue without any definition.
func (r *registry) defaultQueue() (*queue, error) {
	if r.options.DefaultDirector == matchmaking.DirectorUser {
		return newQueue(matchmaking.UserDefinition(matchmaking.DefaultQueue))
	}
	return newQueue(matchmaking.DefaultDefinition(matchmaking.DefaultQueue))
}

func newQueue(d matchmaking.Definition) (*queue, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode the definition of queue %s: %w", d.Name, err)
	}
	return &queue{Definition: d, text: text, replaced: make(chan struct{})}, nil
}

// check returns an error unless a definition is valid for a queue. Errors: fault.SlugInvalidQueue.
func (r *registry) check(d matchmaking.Definition) error {
	if err := matchmaking.CheckQueueName(d.Name); err != nil {
		return err
	}
	if err := d.Check(); err != nil {
		return err
	}
	if life := d.TicketLife(); life > r.options.ChannelTTL && d.HasChannels() {
		return matchmaking.InvalidQueue("ticketTTL",
			"ticketTTL: together with assignmentTTL it must be at most %s, the life of channels, not %s, or channel false",
			r.options.ChannelTTL, life)
	}
	_, err := r.options.Build(d)
	var clientErr *fault.Error
	if err != nil && !errors.As(err, &clientErr) {
		return matchmaking.InvalidQueue("", "the queue can't be built: %v", err)
	}
	return err
}

// lookup returns a queue. It reads the stored definitions if the name is unknown. Errors: ErrNoQueue and the store's.
func (r *registry) lookup(ctx context.Context, name string) (*queue, error) {
	if q := r.all()[name]; q != nil {
		return q, nil
	}
	if matchmaking.CheckQueueName(name) != nil {
		return nil, matchmaking.ErrNoQueue
	}
	if err := r.refreshMiss(ctx); err != nil {
		return nil, err
	}
	if q := r.all()[name]; q != nil {
		return q, nil
	}
	return nil, &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoQueue,
		Detail: fmt.Sprintf("the queue %q doesn't exist", name)}
}

// all returns all queues. The map must not be modified.
func (r *registry) all() map[string]*queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queues
}

// assignmentTTL returns how long tickets of a queue can be read after their end: the default, if the queue was deleted.
func (r *registry) assignmentTTL(queue string) time.Duration {
	if q := r.all()[queue]; q != nil {
		return q.AssignmentTTL.Std()
	}
	return matchmaking.DefaultAssignmentTTL
}

// sorted returns all queues by name.
func (r *registry) sorted() []*queue {
	all := r.all()
	list := make([]*queue, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}

// hasHeartbeats reports whether any queue has a heartbeat.
func (r *registry) hasHeartbeats() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heartbeats
}

// put defines or replaces a queue. Errors: fault.SlugInvalidQueue, ErrQueueFixed, ErrTooManyQueues and the store's.
func (r *registry) put(ctx context.Context, d matchmaking.Definition) (created bool, err error) {
	d.RunTime = true
	if r.isConfigured(d.Name) {
		return false, matchmaking.ErrQueueFixed
	}
	if err := r.check(d); err != nil {
		return false, err
	}
	q, err := newQueue(d)
	if err != nil {
		return false, err
	}
	end, err := r.beginReading(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	created, err = r.options.Store.PutDefinition(ctx, matchmaking.PutRequest{
		Queue: d.Name, Definition: q.text, Max: r.room(),
	})
	if err != nil {
		return false, fmt.Errorf("put queue %s: %w", d.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.configured[d.Name] != nil { // since a moment
		return false, matchmaking.ErrQueueFixed
	}
	merged := maps.Clone(r.queues)
	merged[d.Name] = q
	r.replace(merged)
	return created, nil
}

// remove removes a queue that was put. Errors: ErrQueueFixed, fault.SlugQueueInUse and the store's.
func (r *registry) remove(ctx context.Context, name string) error {
	if r.isConfigured(name) {
		return matchmaking.ErrQueueFixed
	}
	if err := matchmaking.CheckQueueName(name); err != nil {
		return err
	}
	if name != matchmaking.DefaultQueue { // it exists without a definition too
		state, err := r.options.Store.Describe(ctx, name, 0)
		if err != nil {
			return fmt.Errorf("delete queue %s: %w", name, err)
		}
		if state.Searching+state.Pending+state.Backfills+state.Outgoing > 0 {
			return queueInUse(name, state)
		}
	}
	if err := r.options.Store.DeleteDefinition(ctx, name); err != nil {
		return fmt.Errorf("delete queue %s: %w", name, err)
	}
	return r.refresh(ctx)
}

// queueInUse returns the error of deleting a queue that isn't empty.
func queueInUse(name string, state matchmaking.QueueState) error {
	return &fault.Error{
		Kind: fault.Conflict, Slug: fault.SlugQueueInUse,
		Detail: fmt.Sprintf(
			"the queue %s has %d waiting tickets, %d backfills and %d assignments on their way: "+
				"let them be matched, cancelled, or expire first",
			name, state.Searching+state.Pending, state.Backfills, state.Outgoing),
	}
}

// stored returns the current stored definition of a queue, or the zero Definition without one.
func (r *registry) stored(ctx context.Context, name string) (matchmaking.Definition, error) {
	if err := r.refresh(ctx); err != nil {
		return matchmaking.Definition{}, err
	}
	return cmp.Or(r.all()[name], &queue{}).Definition, nil
}

// merge replaces the definitions that were put. A queue with an unchanged definition remains the same *queue.
func (r *registry) merge(stored map[string][]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	merged := make(map[string]*queue, len(stored)+len(r.configured)+1)
	for name, text := range stored {
		if q := r.decode(name, text); q != nil {
			merged[name] = q
		}
	}
	if merged[matchmaking.DefaultQueue] == nil {
		q, err := r.defaultQueue()
		if err != nil {
			return err
		}
		merged[matchmaking.DefaultQueue] = q
	}
	maps.Copy(merged, r.configured)
	r.replace(merged)
	return nil
}

// decode decodes a stored definition; nil: this server can't use it. The caller holds mu.
func (r *registry) decode(name string, text []byte) *queue {
	if old := r.queues[name]; old != nil && !old.configured && bytes.Equal(old.text, text) {
		return old
	}
	d, err := matchmaking.ParseDefinition(name, text)
	d.RunTime = true
	if err == nil {
		var q *queue
		if q, err = newQueue(d); err == nil {
			delete(r.unreadable, name)
			return q
		}
	}
	if r.unreadable[name] != err.Error() {
		r.unreadable[name] = err.Error()
		r.options.Logger.Error("stored queue definition is invalid", "queue", name, "error", err)
	}
	return nil
}

// replace replaces all queues. The caller holds mu.
func (r *registry) replace(merged map[string]*queue) {
	changed := len(merged) != len(r.queues)
	r.heartbeats = false
	for name, q := range merged {
		if old := r.queues[name]; old != nil && old.configured == q.configured && bytes.Equal(old.text, q.text) {
			merged[name] = old
		} else {
			changed = true
		}
		r.heartbeats = r.heartbeats || q.Heartbeat > 0
	}
	for name, old := range r.queues {
		if merged[name] != old {
			close(old.replaced)
		}
	}
	r.queues = merged
	if changed {
		pace.Signal(r.changed)
	}
}

// missRefresh is the minimum interval between reads of the definitions because of unknown names.
const missRefresh = 100 * time.Millisecond

// refreshMiss reads the stored definitions, with a read that begins after the call. Concurrent calls share one read,
// limited to one per missRefresh, so that unknown names don't overload the store.
func (r *registry) refreshMiss(ctx context.Context) error {
	read := r.misses.DoChan("", func() (any, error) { // it continues after ctx ends, for the other callers
		ctx := context.WithoutCancel(ctx)
		r.mu.Lock()
		wait := missRefresh - time.Since(r.lastMiss)
		r.mu.Unlock()
		pace.Sleep(ctx, wait)
		r.misses.Forget("") // later callers need a later read
		r.mu.Lock()
		r.lastMiss = time.Now()
		r.mu.Unlock()
		return nil, r.refresh(ctx)
	})
	select {
	case result := <-read:
		return result.Err
	case <-ctx.Done():
		return fmt.Errorf("read the queues' definitions: %w", ctx.Err())
	}
}

// beginReading prevents an earlier read of the definitions from replacing newer definitions, until end is called.
func (r *registry) beginReading(ctx context.Context) (end func(), err error) {
	select {
	case r.reading <- struct{}{}:
		return func() { <-r.reading }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("read the queues' definitions: %w", ctx.Err())
	}
}

// refresh reads the stored definitions.
func (r *registry) refresh(ctx context.Context) error {
	end, err := r.beginReading(ctx)
	if err != nil {
		return err
	}
	defer end()
	stored, err := r.options.Store.Definitions(ctx)
	if err != nil {
		return fmt.Errorf("read the queues' definitions: %w", err)
	}
	return r.merge(stored)
}

// watch refreshes the definitions periodically, until ctx ends.
func (r *registry) watch(ctx context.Context) {
	failing := outage.New(r.options.Logger, "cannot read queue definitions")
	for {
		err := r.refresh(ctx)
		failing.Report(ctx, err)
		if !pace.Sleep(ctx, pace.Jitter(r.options.Refresh)) {
			return
		}
	}
}
