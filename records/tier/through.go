package tier

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
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
	Failed  Outcome = "failed"  // no node answered in time: read from Redis
	// read from Redis without asking: nodes failed a moment ago, or the value was changed a moment ago
	Passed Outcome = "passed"
)

// Outcomes are all outcomes.
var Outcomes = []Outcome{Hit, Missing, Failed, Passed}

// ReadMetrics counts reads.
type ReadMetrics interface {
	Count(kind *records.Kind, o Outcome, n int)
}

// DefaultTimeout is the default value of ThroughOptions.Timeout.
const DefaultTimeout = 50 * time.Millisecond

// Bounds of reads.
const (
	// how long values whose change was seen by this process are read from Redis: at least that, at most twice
	passFor    = 5 * time.Second
	maxPassed  = 10_000           // IDs of a kind for which this is known, of each passFor
	failures   = 3                // in a row after which nodes aren't asked
	firstBreak = time.Second      // for how long, at first
	lastBreak  = 30 * time.Second // doubled up to this
)

// ThroughOptions configures a Through.
type ThroughOptions struct {
	Store   cache.Store              // has all values; needed
	Clients map[*records.Kind]Client // of the kinds that are read through the tier
	Timeout time.Duration            // how long nodes may take until Redis is asked; zero: DefaultTimeout
	Metrics ReadMetrics              // nil: nothing is counted
}

// Through is a store that reads through the tier: it reads from nodes, and from Redis if they don't have a value or
// don't answer in time. Answers of nodes aren't kept in the process.
//
// The store does all other operations: puts and invalidations work as without the tier. But a reader can get a value
// from a node after it was replaced or invalidated, until the node has read the announcement. This process doesn't get
// such a value: for some seconds it reads values from Redis that it has changed itself, or whose change was reported,
// up to 10,000 IDs of each kind.
type Through struct {
	cache.Store

	o         ThroughOptions
	kinds     map[*records.Kind]*through
	listening atomic.Bool // Run is
}

var _ cache.Store = (*Through)(nil)

// NewThrough returns a store that reads through the tier while Run runs, and from its store alone otherwise.
func NewThrough(o ThroughOptions) *Through {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Metrics == nil {
		o.Metrics = noMetrics{}
	}
	t := &Through{Store: o.Store, o: o, kinds: map[*records.Kind]*through{}}
	for kind, client := range o.Clients {
		t.kinds[kind] = &through{client: client}
	}
	return t
}

// Run listens to changes until ctx ends, and then returns nil. It must have returned before the store is closed.
func (t *Through) Run(ctx context.Context) error {
	for kind, k := range t.kinds {
		defer t.Listen(kind, k.changed)()
	}
	t.listening.Store(true)
	defer t.listening.Store(false)
	<-ctx.Done()
	return nil
}

// Read implements cache.Store.
func (t *Through) Read(ctx context.Context, kind *records.Kind, ids []string) ([]cache.Entry, error) {
	k := t.kinds[kind]
	if k == nil || len(ids) == 0 || !t.listening.Load() {
		return t.Store.Read(ctx, kind, ids)
	}
	found := t.ask(ctx, kind, k, ids)
	entries, missing, at := make([]cache.Entry, len(ids)), []string(nil), []int(nil)
	for i, id := range ids {
		if value, ok := found[id]; ok {
			entries[i] = cache.Entry{Found: true, Bytes: value}
		} else {
			missing, at = append(missing, id), append(at, i)
		}
	}
	if len(missing) == 0 {
		return entries, nil
	}
	rest, err := t.Store.Read(ctx, kind, missing)
	if err != nil {
		return nil, err
	}
	for n, i := range at {
		entries[i] = rest[n]
	}
	return entries, nil
}

// ask reads IDs from nodes.
func (t *Through) ask(ctx context.Context, kind *records.Kind, k *through, ids []string) map[string][]byte {
	wanted := k.wanted(ids, time.Now())
	t.o.Metrics.Count(kind, Passed, len(ids)-len(wanted))
	if len(wanted) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	found, err := k.client.Get(limited, wanted)
	if ctx.Err() == nil { // otherwise it says nothing about the nodes
		k.report(err == nil, time.Now())
	}
	other := Missing
	if err != nil {
		other = Failed
	}
	t.o.Metrics.Count(kind, Hit, len(found))
	t.o.Metrics.Count(kind, other, max(0, len(wanted)-len(found)))
	return k.unchanged(found)
}

type noMetrics struct{}

func (noMetrics) Count(*records.Kind, Outcome, int) {}

// through is the state of one kind.
type through struct {
	client Client

	mu      sync.Mutex
	failed  int       // calls in a row
	breakTo time.Time // until then nodes aren't asked
	turned  time.Time // when recent became older
	recent  map[string]struct{}
	older   map[string]struct{}
}

// changed records a change of a value.
func (k *through) changed(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turn(time.Now())
	if k.recent == nil {
		k.recent = map[string]struct{}{}
	}
	if len(k.recent) < maxPassed {
		k.recent[id] = struct{}{}
	}
}

// turn drops old changes. The caller holds the lock.
func (k *through) turn(now time.Time) {
	switch since := now.Sub(k.turned); {
	case since < passFor:
	case since < 2*passFor:
		k.older, k.recent, k.turned = k.recent, nil, now
	default:
		k.older, k.recent, k.turned = nil, nil, now
	}
}

// passes reports whether an ID has changed recently. The caller holds the lock.
func (k *through) passes(id string) bool {
	_, recent := k.recent[id]
	_, older := k.older[id]
	return recent || older
}

// wanted returns the IDs to be read from nodes.
func (k *through) wanted(ids []string, now time.Time) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Before(k.breakTo) {
		return nil
	}
	k.turn(now)
	if len(k.recent)+len(k.older) == 0 {
		return ids
	}
	wanted := make([]string, 0, len(ids))
	for _, id := range ids {
		if !k.passes(id) {
			wanted = append(wanted, id)
		}
	}
	return wanted
}

// unchanged removes IDs that have changed during the read from nodes.
func (k *through) unchanged(found map[string][]byte) map[string][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.recent)+len(k.older) == 0 {
		return found
	}
	for id := range found {
		if k.passes(id) {
			delete(found, id)
		}
	}
	return found
}

// report records the outcome of a call.
func (k *through) report(ok bool, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case ok:
		k.failed = 0
		return
	case now.Before(k.breakTo): // it was sent before the break
		return
	}
	if k.failed++; k.failed >= failures {
		k.breakTo = now.Add(min(lastBreak, firstBreak<<min(k.failed-failures, 5)))
	}
}
