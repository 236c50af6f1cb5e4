package shard

import (
	"context"
	"slices"
	"sync"
	"time"
)

// entries are the keys and values of a Get. Keys are named by their place in the order of their sharding keys.
type entries interface {
	// Prepare returns a function that asks a host for the keys [from, to).
	Prepare(from, to int) (hostCall, error)
	// Accept takes the values of the keys [from, to) from an answer, all or none.
	Accept(from, to int, answer []byte) error
}

// hostCall asks a host.
type hostCall func(ctx context.Context, h *peer) (answer []byte, err error)

// unanswered is the keys [From, To) that have no answer, of those that the same hosts have.
type unanswered struct {
	From, To int
	Hosts    []*peer // that were asked
	Said     []error // the error of each of them; nil: it hasn't answered
	NoHost   bool    // no host has the keys
}

// flight is the calls of one Get.
type flight struct {
	*control
	entries entries
	cancel  context.CancelFunc // of all calls
	late    int                // guarded by Control.mu: calls that count as late

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

// Get makes calls until all keys have an answer, no further one can come, or ctx ends. keys are sorted. The unanswered
// keys are those without an answer. The error is why no more were waited for: that of ctx, ErrEnded, or that of
// Prepare.
func (c *control) Get(ctx context.Context, keys []uint64, e entries) ([]unanswered, error) {
	f := &flight{
		control: c, entries: e, keys: keys, signal: make(chan struct{}, 1),
		unplaced: []group{{From: 0, To: len(keys)}},
	}
	err := f.run(ctx)
	return f.unanswered(), err
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
		f.o.Observer.NoShard(f.withoutHost())
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
		case <-f.ended:
			err = errEnded
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
		n += u.To - u.From
	}
	return n
}

// place looks up the keys without a host, and asks for those that have one now. It returns a channel that is closed
// when it is to be called again.
func (f *flight) place(ctx context.Context) (changed <-chan struct{}, err error) {
	changed = f.o.Table.Changed()
	snapshot := f.o.Table.Snapshot()
	var still []group
	placed := len(f.parts)
	for _, u := range f.unplaced {
		for _, g := range snapshot.Split(f.keys[u.From:u.To]) {
			g.From, g.To = u.From+g.From, u.From+g.To
			if len(g.Hosts) == 0 {
				still = append(still, g)
				continue
			}
			for ; g.From < g.To; g.From += f.o.MaxKeys {
				f.parts = append(f.parts, newPart(g.From, min(g.From+f.o.MaxKeys, g.To), g.Hosts))
			}
		}
	}
	f.unplaced = still
	f.active += len(f.parts) - placed
	for _, p := range f.parts[placed:] {
		if p.call, err = f.entries.Prepare(p.from, p.to); err != nil {
			return nil, err
		}
	}
	if len(still) == 0 {
		changed = nil
	}
	return changed, f.ask(ctx, f.parts[placed:], f.firstHosts)
}

// firstHosts returns how many hosts are asked at once. They stand first in p.hosts then.
func (f *flight) firstHosts(p *part) int {
	if !slices.ContainsFunc(p.hosts, f.isLocal) {
		return len(p.hosts)
	}
	var near, far []*peer
	for _, h := range p.hosts {
		if !f.isLocal(h) {
			far = append(far, h)
		} else if h.Failing.Load() {
			return len(p.hosts)
		} else {
			near = append(near, h)
		}
	}
	p.hosts = append(near, far...)
	if len(far) > 0 && f.hedge == nil {
		f.hedge = time.NewTimer(f.local.Get(f.o.MaxHedge))
	}
	return len(near)
}

func (f *flight) hedged() <-chan time.Time {
	if f.hedge == nil {
		return nil
	}
	return f.hedge.C
}

// allHosts returns how many hosts a part has, unless it has its answer.
func allHosts(p *part) int {
	if p.done {
		return 0
	}
	return len(p.hosts)
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
	if !f.enter(f, calls) {
		return errEnded
	}
	f.mu.Lock()
	f.open += calls
	f.mu.Unlock()
	first, _ := f.o.attempt(ctx) // canceled with ctx
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
		r.err = f.entries.Accept(p.from, p.to, r.answer)
	}
	if r.err == nil {
		f.mu.Lock()
		p.done = true
		f.mu.Unlock()
		f.active--
		f.o.Observer.First(p.hosts[r.host], time.Since(p.start))
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
	f.control.returned(f, f.open)
	if f.open == 0 {
		f.cancel()
	}
}

func (f *flight) unanswered() (all []unanswered) {
	for _, p := range f.parts {
		if !p.done {
			all = append(all, unanswered{From: p.from, To: p.to, Hosts: p.hosts[:p.asked], Said: p.said[:p.asked]})
		}
	}
	for _, u := range f.unplaced {
		all = append(all, unanswered{From: u.From, To: u.To, NoHost: true})
	}
	return all
}
