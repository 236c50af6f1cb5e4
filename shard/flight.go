package shard

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/shard/internal/routes"
)

// retryPause is the longest pause before the retry of a call that failed.
const retryPause = 50 * time.Millisecond

// entries are the keys and values of a Get. Keys are named by their place in the order of their sharding keys.
type entries interface {
	// encode returns the encoded keys [from, to).
	encode(from, to int) ([]byte, error)
	// accept takes the values of keys [from, to), all or none.
	accept(from, to int, payload []byte) error
}

// flight is the calls of one Get.
type flight struct {
	fleet   *fleet
	entries entries
	cancel  context.CancelFunc // of all calls
	late    int                // guarded by fleet.mu: calls that count as late

	// Of the goroutine that called Get.
	sharding []uint64       // of all keys, sorted
	unplaced []routes.Group // keys without a host
	parts    []*part
	active   int // parts that wait for an answer
	hedge    *time.Timer

	signal chan struct{} // buffered (capacity 1): there are results

	mu       sync.Mutex
	open     int  // calls
	returned bool // nobody waits for results
	results  []result
}

// part is keys that the same hosts have.
type part struct {
	from, to int
	request  *Request
	hosts    []*routes.Host
	asked    int     // of hosts
	open     int     // calls of them that can bring an answer
	said     []error // what each of hosts said
	start    time.Time
	done     bool // guarded by flight.mu: it has its answer
}

// result is the end of an attempt.
type result struct {
	part    *part
	host    int // of part.hosts
	payload []byte
	err     error
	last    bool // the call has ended, too
}

func newFlight(c *fleet, sharding []uint64, e entries) *flight {
	return &flight{
		fleet: c, entries: e, sharding: sharding, signal: make(chan struct{}, 1),
		unplaced: []routes.Group{{From: 0, To: len(sharding)}},
	}
}

// run makes calls until all keys are answered, no answer can come any more, or ctx ends, which is an error.
func (f *flight) run(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel = cancel
	defer f.leave()
	changed, err := f.place(calls)
	if err == nil && len(f.unplaced) > 0 {
		f.fleet.o.Observer.NoShard(f.keysWithoutShard())
	}
	for err == nil && !f.over() {
		select {
		case <-f.signal:
			err = f.take(calls)
		case <-changed:
			changed, err = f.place(calls)
		case <-f.hedged():
			f.hedge = nil
			err = f.askOthers(calls)
		case <-f.fleet.ended:
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

// over reports whether there is nothing to wait for. Keys wait for a shard only while all others may get their answer.
func (f *flight) over() bool {
	return f.active == 0 && (len(f.unplaced) == 0 || !f.answeredParts())
}

// answered reports whether all keys have their answer.
func (f *flight) answered() bool { return len(f.unplaced) == 0 && f.answeredParts() }

func (f *flight) answeredParts() bool {
	return !slices.ContainsFunc(f.parts, func(p *part) bool { return !p.done })
}

func (f *flight) keysWithoutShard() (n int) {
	for _, g := range f.unplaced {
		n += g.To - g.From
	}
	return n
}

// place looks up keys without a shard, and asks for those that have one now. It returns a channel that is closed when it is to be
// called again.
func (f *flight) place(ctx context.Context) (changed <-chan struct{}, err error) {
	changed = f.fleet.table.Changed()
	snapshot := f.fleet.table.Snapshot()
	var still []routes.Group
	placed := len(f.parts)
	for _, u := range f.unplaced {
		for _, g := range snapshot.Split(f.sharding[u.From:u.To]) {
			g.From, g.To = u.From+g.From, u.From+g.To
			if len(g.Hosts) == 0 {
				still = append(still, g)
				continue
			}
			for ; g.From < g.To; g.From += MaxKeys {
				f.parts = append(f.parts, f.newPart(g.From, min(g.From+MaxKeys, g.To), g.Hosts))
			}
		}
	}
	f.unplaced = still
	if len(still) == 0 {
		changed = nil
	}
	f.active += len(f.parts) - placed
	for _, p := range f.parts[placed:] {
		p.request.Payload, err = f.entries.encode(p.from, p.to)
		if err == nil {
			err = f.ask(ctx, p, f.firstHosts(p))
		}
		if err != nil {
			return nil, err
		}
	}
	return changed, nil
}

func (f *flight) newPart(from, to int, hosts []*routes.Host) *part {
	return &part{
		from: from, to: to, hosts: hosts, said: make([]error, len(hosts)), start: time.Now(),
		request: &Request{Cache: f.fleet.cache, Keys: f.sharding[from:to:to]},
	}
}

// firstHosts returns how many hosts are asked at once. They stand first in p.hosts then.
func (f *flight) firstHosts(p *part) int {
	local := func(h *routes.Host) bool { return h.DC == f.fleet.o.LocalDC }
	if f.fleet.o.LocalDC == "" || !slices.ContainsFunc(p.hosts, local) {
		return len(p.hosts)
	}
	var near, far []*routes.Host
	for _, h := range p.hosts {
		if !local(h) {
			far = append(far, h)
		} else if h.Failing.Load() {
			return len(p.hosts)
		} else {
			near = append(near, h)
		}
	}
	p.hosts = append(near, far...)
	if len(far) > 0 && f.hedge == nil {
		f.hedge = time.NewTimer(f.fleet.local.Get(f.fleet.o.MaxHedge))
	}
	return len(near)
}

func (f *flight) hedged() <-chan time.Time {
	if f.hedge == nil {
		return nil
	}
	return f.hedge.C
}

// askOthers asks all hosts that weren't asked yet, for keys without an answer.
func (f *flight) askOthers(ctx context.Context) error {
	for _, p := range f.parts {
		if p.done {
			continue
		}
		if err := f.ask(ctx, p, len(p.hosts)); err != nil {
			return err
		}
	}
	return nil
}

// ask asks the hosts of a part up to the given one, unless they were asked.
func (f *flight) ask(ctx context.Context, p *part, to int) error {
	n := to - p.asked
	if n <= 0 {
		return nil
	}
	if !f.fleet.enter(f, n) {
		return ErrNotRunning
	}
	f.mu.Lock()
	f.open += n
	f.mu.Unlock()
	p.open += n
	for ; p.asked < to; p.asked++ {
		go f.call(ctx, p, p.asked)
	}
	return nil
}

// call asks a host, and again if that may help.
func (f *flight) call(ctx context.Context, p *part, host int) {
	defer f.fleet.calls.Done()
	for attempt := 0; ; attempt++ {
		start := time.Now()
		answer, err := f.fleet.ask(ctx, p.hosts[host], p.request)
		if f.fleet.o.LocalDC != "" && p.hosts[host].DC == f.fleet.o.LocalDC && ctx.Err() == nil {
			f.fleet.local.Add(time.Since(start))
		}
		again := attempt < f.fleet.o.Retries && mayPass(err)
		if !f.report(ctx, result{part: p, host: host, payload: answer.Payload, err: err, last: !again}) {
			return
		}
		if errors.Is(err, ErrUnavailable) {
			pause(ctx, time.Duration(1+rand.Int64N(int64(retryPause)))) //nolint:gosec // jitter
		}
	}
}

// mayPass reports whether a call that failed is worth a repeat.
func mayPass(err error) bool { return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrTimeout) }

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// report delivers a result to the Get, if it waits for it. It reports whether the call is to be repeated.
func (f *flight) report(ctx context.Context, r result) (again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	needed := !f.returned && !r.part.done
	r.last = r.last || !needed
	if r.last {
		f.open--
		if f.returned {
			f.fleet.end(f, f.open)
		}
	}
	if !needed {
		f.observe(ctx, r)
		return false
	}
	f.results = append(f.results, r)
	select {
	case f.signal <- struct{}{}:
	default:
	}
	return !r.last
}

// observe reports a result that doesn't answer keys.
func (f *flight) observe(ctx context.Context, r result) {
	host := hostOf(r.part.hosts[r.host])
	if r.err == nil {
		f.fleet.o.Observer.Late(host)
	} else if ctx.Err() == nil {
		f.fleet.o.Observer.Failed(host, r.err)
	}
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
	if !p.done && r.err == nil {
		r.err = f.entries.accept(p.from, p.to, r.payload)
		if r.err == nil {
			f.mu.Lock()
			p.done = true
			f.mu.Unlock()
			f.active--
			f.fleet.o.Observer.First(hostOf(p.hosts[r.host]), time.Since(p.start))
			return nil
		}
	}
	f.observe(ctx, r)
	if p.done {
		return nil
	}
	p.said[r.host] = r.err
	if err := f.ask(ctx, p, len(p.hosts)); err != nil {
		return err
	}
	if p.open == 0 {
		f.active--
	}
	return nil
}

// leave ends the flight for its Get. Calls that are open go on, so that the map learns from them, unless they were cancelled.
func (f *flight) leave() {
	if f.hedge != nil {
		f.hedge.Stop()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.returned = true
	f.fleet.returned(f, f.open)
}
