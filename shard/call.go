package shard

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

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
