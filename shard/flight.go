package shard

import (
	"context"
	"slices"
	"sync"
	"time"
)

// entries is a get without its types. Keys are named by their index in the order of their sharding keys.
type entries interface {
	// request returns the request for the keys [from, to).
	request(from, to int) (*Request, error)
	// accept takes the values of the keys [from, to) from an answer, all or none.
	accept(from, to int, payload []byte) error
}

// part is the keys [from, to), which the same hosts have.
type part struct {
	from, to int
	request  *Request
	hosts    []*peer
	said     []error // the last error of each of hosts
	asked    int     // of hosts
	wanted   int     // of hosts, in flight.ask
	open     int     // calls of them that can bring an answer
	start    time.Time
	done     bool // guarded by flight.mu: it has its answer
}

func newPart(from, to int, hosts []*peer) *part {
	return &part{from: from, to: to, hosts: hosts, said: make([]error, len(hosts)), start: time.Now()}
}

// flight is the calls of one Get: all hosts that have a key are asked, and the first answer counts. The goroutine that
// called Get owns all of it but the results of calls. Each call has a goroutine of its own, which may outlive the Get:
// its answer is late then.
type flight struct {
	all     *flights
	entries entries
	cancel  context.CancelFunc // of all calls
	late    int                // guarded by flights.mu: calls that count as late

	// Of the goroutine that called Get.
	keys     []uint64 // sorted
	unplaced []group  // keys without a host
	parts    []*part
	active   int // parts that can get an answer
	failed   int // parts that can't
	hedge    *time.Timer
	signal   chan struct{} // buffered (capacity 1): there are results

	mu       sync.Mutex
	open     int  // calls
	returned bool // the Get has: results are late
	results  []result
}

// get makes calls until all keys have an answer, no further one can come, or ctx ends. keys are sorted. The parts are
// those without an answer; lost are the keys that no host has. The error is why no more were waited for: that of ctx,
// ErrNotRunning, or that of entries.request.
func (c *flights) get(ctx context.Context, keys []uint64, e entries) (unanswered []*part, lost []group, err error) {
	f := &flight{
		all: c, entries: e, keys: keys, signal: make(chan struct{}, 1),
		unplaced: []group{{from: 0, to: len(keys)}},
	}
	err = f.run(ctx)
	unanswered = slices.DeleteFunc(f.parts, func(p *part) bool { return p.done })
	return unanswered, f.unplaced, err
}

func (f *flight) run(ctx context.Context) error {
	if ctx.Err() != nil {
		f.parts, f.unplaced = []*part{newPart(0, len(f.keys), nil)}, nil // nobody was asked
		return context.Cause(ctx)
	}
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel = cancel
	defer f.leave()
	changed, err := f.place(calls)
	if err == nil && len(f.unplaced) > 0 {
		f.all.o.Observer.NoShard(f.withoutHost())
	}
	for err == nil && !f.over() {
		select {
		case <-f.signal:
			err = f.take(calls)
		case <-changed:
			changed, err = f.place(calls)
		case <-f.hedged():
			f.hedge = nil
			err = f.ask(calls, f.parts, allHosts)
		case <-f.all.closed:
			err = ErrNotRunning
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		cancel()
	}
	return err
}

// over reports whether there is nothing to wait for. Keys wait for a host only while all others may get their answer.
func (f *flight) over() bool {
	return f.active == 0 && (len(f.unplaced) == 0 || f.failed > 0)
}

func (f *flight) withoutHost() (n int) {
	for _, u := range f.unplaced {
		n += u.to - u.from
	}
	return n
}

// place looks up the keys without a host, and asks for those that have one now. It returns a channel that is closed
// when it is to be called again.
func (f *flight) place(ctx context.Context) (changed <-chan struct{}, err error) {
	changed = f.all.fleet.hosts.nextChange()
	snapshot := f.all.fleet.hosts.snapshot()
	var still []group
	placed := len(f.parts)
	for _, u := range f.unplaced {
		for _, g := range snapshot.split(f.keys[u.from:u.to]) {
			g.from, g.to = u.from+g.from, u.from+g.to
			if len(g.hosts) == 0 {
				still = append(still, g)
				continue
			}
			for ; g.from < g.to; g.from += MaxKeys {
				f.parts = append(f.parts, newPart(g.from, min(g.from+MaxKeys, g.to), g.hosts))
			}
		}
	}
	f.unplaced = still
	f.active += len(f.parts) - placed
	for _, p := range f.parts[placed:] {
		if p.request, err = f.entries.request(p.from, p.to); err != nil {
			return nil, err
		}
	}
	if len(still) == 0 {
		changed = nil
	}
	return changed, f.ask(ctx, f.parts[placed:], f.firstHosts)
}

// ask asks the first hosts of parts, upTo a number, unless they were asked.
func (f *flight) ask(ctx context.Context, parts []*part, upTo func(*part) int) error {
	calls := 0
	for _, p := range parts {
		p.wanted = max(upTo(p), p.asked)
		calls += p.wanted - p.asked
	}
	if calls == 0 {
		return nil
	}
	if !f.all.enter(f, calls) {
		return ErrNotRunning
	}
	f.mu.Lock()
	f.open += calls
	f.mu.Unlock()
	first, _ := f.all.fleet.attempt(ctx) // canceled with ctx
	for _, p := range parts {
		p.open += p.wanted - p.asked
		for ; p.asked < p.wanted; p.asked++ {
			go f.call(ctx, first, p, p.asked)
		}
	}
	return nil
}

// take handles results.
func (f *flight) take(ctx context.Context) error {
	f.mu.Lock()
	results := f.results
	f.results = nil
	f.mu.Unlock()
	for _, r := range results {
		if err := f.takeOne(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (f *flight) takeOne(ctx context.Context, r result) error {
	p := r.part
	if r.last {
		p.open--
	}
	if p.done {
		f.observe(ctx, r)
		return nil
	}
	if r.err == nil {
		r.err = f.entries.accept(p.from, p.to, r.payload)
	}
	if r.err == nil {
		f.mu.Lock()
		p.done = true
		f.mu.Unlock()
		f.active--
		f.all.o.Observer.First(p.hosts[r.host].Host, time.Since(p.start))
		return nil
	}
	f.observe(ctx, r)
	p.said[r.host] = r.err
	if err := f.ask(ctx, []*part{p}, allHosts); err != nil {
		return err
	}
	if p.open == 0 {
		f.active--
		f.failed++
	}
	return nil
}

// leave ends the flight for its Get. Calls that are open go on, so that the map learns from them, unless they were
// cancelled. They don't keep the keys and values of the Get.
func (f *flight) leave() {
	if f.hedge != nil {
		f.hedge.Stop()
	}
	f.entries = nil
	f.mu.Lock()
	defer f.mu.Unlock()
	f.returned, f.results = true, nil
	f.all.returned(f, f.open)
	if f.open == 0 {
		f.cancel()
	}
}
