package shard

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
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

// get makes calls until all keys have an answer, no further answer is possible, or ctx ends. keys are sorted. The parts
// are those without an answer; lost are the keys that no host has. The error is the reason to stop waiting: that of
// ctx, ErrNotRunning, or that of entries.request.
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
		f.parts, f.unplaced = []*part{newPart(0, len(f.keys), nil)}, nil // no host was asked
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

// leave ends the flight for its Get. Open calls continue, so that their answers update the map, unless they were
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

// result is the end of an attempt of a call.
type result struct {
	part    *part
	host    int // of part.hosts
	payload []byte
	err     error
	last    bool // the call has ended, too
}

// retryPause is the longest pause before a call is repeated that failed at once.
const retryPause = 50 * time.Millisecond

// call asks a host, and again if that may help. The context of the first attempt is that of all calls that begin with
// it: a timer for each costs more than the rest of a call.
func (f *flight) call(ctx, first context.Context, p *part, host int) {
	defer f.all.calls.Done()
	h := p.hosts[host]
	answer, err := f.all.fleet.ask(first, h, p.request)
	if f.all.isLocal(h) && ctx.Err() == nil && (err == nil || errors.Is(err, ErrTimeout)) {
		f.all.local.add(time.Since(p.start))
	}
	for attempt := 0; ; attempt++ {
		again := err != nil && attempt < f.all.o.Retries && mayPass(err)
		if !f.report(ctx, result{part: p, host: host, payload: answer.Payload, err: err, last: !again}) {
			return
		}
		answer, err = f.retry(ctx, p, h, err)
	}
}

func (f *flight) retry(ctx context.Context, p *part, h *peer, err error) (Response, error) {
	if !errors.Is(err, ErrTimeout) { // it failed at once
		pace.Sleep(ctx, time.Duration(1+rand.Int64N(int64(retryPause)))) //nolint:gosec // jitter
	}
	attempt, cancel := f.all.fleet.attempt(ctx)
	defer cancel()
	return f.all.fleet.ask(attempt, h, p.request)
}

// report delivers a result to the Get, if it waits for it. It reports whether the call is to be repeated.
func (f *flight) report(ctx context.Context, r result) (again bool) {
	needed, over := f.deliver(r)
	if !needed {
		f.observe(ctx, r)
	}
	if over {
		f.cancel()
	}
	return needed && !r.last
}

// deliver reports whether a result was needed, and whether it is the last one of the flight, whose Get has returned.
func (f *flight) deliver(r result) (needed, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	needed = !f.returned && !r.part.done
	if r.last || !needed {
		f.open--
		if f.returned {
			f.all.landed(f, f.open)
		}
	}
	if needed {
		f.results = append(f.results, r)
		pace.Signal(f.signal)
	}
	return needed, f.returned && f.open == 0
}

// observe reports a result that doesn't answer keys.
func (f *flight) observe(ctx context.Context, r result) {
	if r.err == nil {
		f.all.o.Observer.Late(r.part.hosts[r.host].Host)
	} else if ctx.Err() == nil {
		f.all.o.Observer.Failed(r.part.hosts[r.host].Host, r.err)
	}
}

// flights is the flights of one client whose calls go on. Its methods may be called by many goroutines.
type flights struct {
	fleet  *fleet
	o      *ClientOptions // of the fleet
	local  p95            // of calls of hosts in LocalDC
	closed chan struct{}  // closed by end

	mu     sync.Mutex
	over   bool
	active map[*flight]struct{} // that have calls
	// if MaxLate is set: those whose Get has returned, and some that have ended, at most 2*MaxLate; the oldest first
	late      []*flight
	lateCalls int // of late

	calls sync.WaitGroup // that have begun
}

func newFlights(f *fleet) *flights {
	return &flights{fleet: f, o: &f.o, closed: make(chan struct{}), active: map[*flight]struct{}{}}
}

// end cancels all calls, waits for them, and lets no further ones begin. It is called once.
func (c *flights) end() {
	c.mu.Lock()
	c.over = true
	close(c.closed)
	for f := range c.active {
		f.cancel()
	}
	c.mu.Unlock()
	c.calls.Wait()
}

// enter registers calls. It returns false if the client has ended.
func (c *flights) enter(f *flight, calls int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.active[f] = struct{}{}
	c.calls.Add(calls)
	return true
}

// returned records that a Get has returned while calls go on. It cancels the oldest of such calls if there are too
// many.
func (c *flights) returned(f *flight, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if calls == 0 {
		delete(c.active, f)
		return
	}
	if c.o.MaxLate == 0 {
		return
	}
	f.late = calls
	c.lateCalls += calls
	c.late = append(c.late, f)
	for len(c.late) > 0 && (c.lateCalls > c.o.MaxLate || c.late[0].late == 0) {
		oldest := c.late[0]
		c.late = c.late[1:]
		c.lateCalls -= oldest.late
		oldest.late = 0
		oldest.cancel()
	}
	if len(c.late) > 2*c.o.MaxLate { // at most half of them have late calls
		c.late = slices.DeleteFunc(c.late, func(f *flight) bool { return f.late == 0 })
	}
}

// landed records the end of a late call, and how many the flight has left.
func (c *flights) landed(f *flight, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.late > 0 {
		f.late--
		c.lateCalls--
	}
	if calls == 0 {
		delete(c.active, f)
	}
}
