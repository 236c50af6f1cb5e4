package shard

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// part is the keys [from, to), which the same hosts have.
type part struct {
	from, to int
	call     hostCall
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

// result is the end of an attempt of a call.
type result struct {
	part   *part
	host   int // of part.hosts
	answer []byte
	err    error
	last   bool // the call has ended, too
}

// call asks a host, and again if that may help. The context of the first attempt is that of all calls that begin with
// it: a timer for each costs more than the rest of a call.
func (f *flight) call(ctx, first context.Context, p *part, host int) {
	defer f.all.Done()
	h := p.hosts[host]
	answer, err := p.call(first, h)
	if f.isLocal(h) && ctx.Err() == nil && (err == nil || errors.Is(err, f.o.ErrTimeout)) {
		f.local.Add(time.Since(p.start))
	}
	for attempt := 0; ; attempt++ {
		again := err != nil && attempt < f.o.Retries && f.o.MayPass(err)
		if !f.report(ctx, result{part: p, host: host, answer: answer, err: err, last: !again}) {
			return
		}
		answer, err = f.retry(ctx, p, h, err)
	}
}

func (f *flight) retry(ctx context.Context, p *part, h *peer, err error) ([]byte, error) {
	if !errors.Is(err, f.o.ErrTimeout) { // it failed at once
		pace.Sleep(ctx, time.Duration(1+rand.Int64N(int64(f.o.RetryPause)))) //nolint:gosec // jitter
	}
	attempt, cancel := f.o.attempt(ctx)
	defer cancel()
	return p.call(attempt, h)
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
			f.landed(f, f.open)
		}
	}
	if needed {
		f.results = append(f.results, r)
		select {
		case f.signal <- struct{}{}:
		default:
		}
	}
	return needed, f.returned && f.open == 0
}

// observe reports a result that doesn't answer keys.
func (f *flight) observe(ctx context.Context, r result) {
	if r.err == nil {
		f.o.Observer.Late(r.part.hosts[r.host])
	} else if ctx.Err() == nil {
		f.o.Observer.Failed(r.part.hosts[r.host], r.err)
	}
}
