package tier

import (
	"bytes"
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// Client reads from the nodes of one kind. *shard.Client implements it.
type Client interface {
	// Get returns values from nodes. It may return some together with an error.
	Get(ctx context.Context, ids []string) (map[string][]byte, error)
}

// Outcome is the result of reading an ID.
type Outcome string

// The outcomes of reads.
const (
	Hit     Outcome = "hit"     // answered by a node
	Missing Outcome = "missing" // no node has a value: read from Redis
	Failed  Outcome = "failed"  // no node answered before Redis: read from Redis
	// read from Redis without asking nodes: they failed a moment ago, or the value was changed a moment ago
	Passed Outcome = "passed"
	// Redis didn't answer in time, but nodes did, or this process has written the value: counted in addition to Missing,
	// Failed or Passed
	WithoutRedis Outcome = "without-redis"
)

// Outcomes are all outcomes.
var Outcomes = []Outcome{Hit, Missing, Failed, Passed, WithoutRedis}

// ReadMetrics counts reads.
type ReadMetrics interface {
	Count(kind *records.Kind, o Outcome, n int)
}

// DefaultTimeout is the default value of ThroughOptions.Timeout.
const DefaultTimeout = 50 * time.Millisecond

// Bounds of reads.
const (
	failures   = 3                // in a row after which Redis is asked first
	firstBreak = time.Second      // for how long, at first
	lastBreak  = 30 * time.Second // doubled up to this
	// patience is how much longer Redis may take if a value has changed a moment ago: nodes may not have the change
	// yet, and what this process has written may have changed since. Nodes may take so much longer if Redis has failed.
	patience = time.Second
)

// ThroughOptions configures a Through.
type ThroughOptions struct {
	Store   records.CacheStore       // has all values; needed
	Clients map[*records.Kind]Client // of the kinds that are read through the tier
	// Timeout is how long nodes may take until Redis is asked as well, and Redis until nodes are; zero: DefaultTimeout.
	Timeout time.Duration
	Metrics ReadMetrics // nil: nothing is counted
}

// Through is a store that reads through the tier: it reads from nodes, and from Redis what they don't have. If one
// doesn't answer in time the other is asked as well, and the first answer is taken. Answers of nodes aren't kept in the
// process.
//
// The store does all other operations: puts and invalidations work as without the tier. But a reader can get a value
// from a node after it was replaced or invalidated, until the node has read the announcement. As long as Redis answers
// in time, this process doesn't get such a value: for some seconds it reads values from Redis that it has changed
// itself, or whose change was reported, up to 10,000 IDs of each kind. It waits a second longer for these. If Redis
// doesn't answer then, or fails, it returns what it has put or invalidated by ID in these seconds, up to 8 MiB of
// values of each kind, and reads others from nodes.
type Through struct {
	records.CacheStore

	o         ThroughOptions
	kinds     map[*records.Kind]*through
	listening atomic.Bool // Run is
}

var _ records.CacheStore = (*Through)(nil)

// NewThrough returns a store that reads through the tier while Run runs, and from its store alone otherwise.
func NewThrough(o ThroughOptions) *Through {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	t := &Through{CacheStore: o.Store, o: o, kinds: map[*records.Kind]*through{}}
	for kind, client := range o.Clients {
		t.kinds[kind] = &through{client: client}
	}
	return t
}

// Run listens to changes until ctx ends, and then returns nil. It must have returned before the store is closed.
func (t *Through) Run(ctx context.Context) error {
	for kind, k := range t.kinds {
		defer t.Listen(kind, k.recent.changed)()
	}
	t.listening.Store(true)
	defer t.listening.Store(false)
	<-ctx.Done()
	return nil
}

// Read implements records.CacheStore.
func (t *Through) Read(ctx context.Context, kind *records.Kind, ids []string) ([]records.Entry, error) {
	k := t.kinds[kind]
	if k == nil || len(ids) == 0 || !t.listening.Load() {
		return t.CacheStore.Read(ctx, kind, ids)
	}
	asked := t.ask(ctx, kind, k, ids)
	if asked.err != nil {
		return nil, asked.err
	}
	entries, rest, at := make([]records.Entry, len(ids)), []string(nil), []int(nil)
	for i, id := range ids {
		if value, ok := asked.nodes[id]; ok {
			entries[i] = inTier(value)
		} else if e, ok := asked.redis[id]; ok {
			entries[i] = e
		} else {
			rest, at = append(rest, id), append(at, i)
		}
	}
	if len(rest) == 0 {
		return entries, nil
	}
	others, withoutRedis, err := t.readRedis(ctx, kind, k, rest)
	if err != nil {
		return nil, err
	}
	if asked.failed && !withoutRedis {
		k.fail(time.Now())
	}
	for n, i := range at {
		entries[i] = others[n]
	}
	return entries, nil
}

// attempt is the outcome of asking nodes.
type attempt struct {
	nodes  map[string][]byte
	redis  map[string]records.Entry // of all IDs that nodes were asked for, if Redis answered first
	failed bool                     // nodes failed, and Redis wasn't asked
	err    error                    // nodes and Redis failed
}

// ask reads IDs from nodes, except for those that are read from Redis first. If nodes don't answer in time it reads
// them from Redis as well; if that fails nodes have some more time.
func (t *Through) ask(ctx context.Context, kind *records.Kind, k *through, ids []string) (a attempt) {
	wanted := k.wanted(ids, time.Now())
	t.o.Metrics.Count(kind, Passed, len(ids)-len(wanted))
	if len(wanted) == 0 {
		return attempt{}
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	var entries []records.Entry
	late := make(chan error, 1)
	timer := time.AfterFunc(t.o.Timeout, func() {
		defer cancel()
		began := time.Now()
		var err error
		entries, err = t.CacheStore.Read(both, kind, wanted)
		late <- err
		if err != nil {
			pace.Sleep(both, patience-time.Since(began))
		}
	})
	found, err := k.client.Get(both, wanted)
	onTime, other := timer.Stop(), Failed
	switch {
	case err == nil:
		k.succeed()
		other = Missing
	case onTime:
		a.failed = true
	default:
		if a.err = <-late; a.err != nil {
			return a
		}
		k.fail(time.Now())
		a.redis = make(map[string]records.Entry, len(wanted))
		for i, id := range wanted {
			a.redis[id] = entries[i]
		}
	}
	t.o.Metrics.Count(kind, Hit, len(found))
	t.o.Metrics.Count(kind, other, max(0, len(wanted)-len(found)))
	a.nodes = k.recent.remove(found)
	return a
}

// readRedis reads IDs from Redis. If Redis doesn't answer in time, or fails, it looks for them without Redis as well.
func (t *Through) readRedis(ctx context.Context, kind *records.Kind, k *through, ids []string) (entries []records.Entry,
	withoutRedis bool, err error) {
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	late, failed := make(chan []records.Entry, 1), make(chan struct{})
	timer := time.AfterFunc(t.o.Timeout, func() {
		others := t.withoutRedis(both, k, ids, failed)
		late <- others
		if others != nil {
			cancel()
		}
	})
	entries, err = t.CacheStore.Read(both, kind, ids)
	onTime := timer.Stop()
	if err == nil {
		return entries, false, nil
	}
	close(failed)
	if onTime {
		entries = t.withoutRedis(both, k, ids, failed)
	} else {
		entries = <-late
	}
	if entries == nil {
		return nil, false, err
	}
	t.o.Metrics.Count(kind, WithoutRedis, len(ids))
	return entries, true, nil
}

// withoutRedis returns entries that this process has written, and values of nodes; nil unless it finds all. failed is
// closed when Redis has failed.
func (t *Through) withoutRedis(ctx context.Context, k *through, ids []string, failed <-chan struct{}) []records.Entry {
	if !k.await(ctx, ids, failed) {
		return nil
	}
	own, others := k.recent.written(ids)
	var found map[string][]byte
	if len(others) > 0 {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		timer := time.AfterFunc(patience+t.o.Timeout, func() {
			select {
			case <-failed: // while Redis may answer, nodes may, too
			case <-ctx.Done():
			}
			cancel()
		})
		defer timer.Stop()
		found, _ = k.client.Get(ctx, others) // the error doesn't matter if it has all
	}
	entries := make([]records.Entry, len(ids))
	for i, id := range ids {
		if e, ok := own[id]; ok {
			entries[i] = e
		} else if value, ok := found[id]; ok {
			entries[i] = inTier(value)
		} else {
			return nil
		}
	}
	if len(others) > 0 {
		k.resume()
	}
	return entries
}

// Put implements records.CacheStore.
func (t *Through) Put(ctx context.Context, v records.Value) error {
	k := t.kinds[v.Key.Kind]
	if k == nil {
		return t.CacheStore.Put(ctx, v)
	}
	w := &written{Entry: inTier(bytes.Clone(v.Bytes))}
	if v.TTL > 0 {
		w.ends = time.Now().Add(v.TTL)
	}
	return k.write(w, []string{v.Key.ID}, func() error { return t.CacheStore.Put(ctx, v) })
}

// Invalidate implements records.CacheStore.
func (t *Through) Invalidate(ctx context.Context, kind *records.Kind, ids []string) error {
	k := t.kinds[kind]
	if k == nil {
		return t.CacheStore.Invalidate(ctx, kind, ids)
	}
	return k.write(&written{}, ids, func() error { return t.CacheStore.Invalidate(ctx, kind, ids) })
}

// inTier returns the entry of a value that is answered without Redis.
func inTier(value []byte) records.Entry {
	return records.Entry{Found: true, Bytes: value, Shards: true}
}

type noMetrics struct{}

func (noMetrics) Count(*records.Kind, Outcome, int) {}

// through is the state of one kind.
type through struct {
	client Client
	recent recent

	mu      sync.Mutex
	failed  int       // calls in a row
	breakTo time.Time // until then Redis is asked first
}

// write calls do, which writes w as the value of each ID.
func (k *through) write(w *written, ids []string, do func() error) error {
	end := k.recent.write(ids...)
	err := do()
	if err != nil {
		w = nil // it may have been written, now or later
	}
	end(w)
	return err
}

// wanted returns the IDs to be read from nodes first.
func (k *through) wanted(ids []string, now time.Time) []string {
	k.mu.Lock()
	pause := now.Before(k.breakTo)
	k.mu.Unlock()
	if pause {
		return nil
	}
	return k.recent.without(ids)
}

// await waits for Redis if IDs have changed a moment ago; if this process has written them all, only until Redis has
// failed. It reports whether ctx is alive.
func (k *through) await(ctx context.Context, ids []string, failed <-chan struct{}) bool {
	switch _, others := k.recent.written(ids); {
	case len(k.recent.without(others)) < len(others):
		return pace.Sleep(ctx, patience) // nodes need that time as well
	case len(k.recent.without(ids)) < len(ids):
		return pace.SleepUntil(ctx, patience, failed)
	}
	return true
}

// succeed records that nodes have answered.
func (k *through) succeed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed = 0
}

// resume records that nodes have answered and Redis has not: nodes are asked first again.
func (k *through) resume() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed, k.breakTo = 0, time.Time{}
}

// fail records that nodes have failed, or have been slower than Redis, which has answered.
func (k *through) fail(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Before(k.breakTo) { // they were asked before the break
		return
	}
	if k.failed++; k.failed >= failures {
		k.breakTo = now.Add(min(lastBreak, firstBreak<<min(k.failed-failures, 5)))
	}
}
