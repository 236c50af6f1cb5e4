package flight

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tidemark-dev/tidemark/shard/internal/routes"
)

// part is the keys [from, to), which the same hosts have.
type part struct {
	from, to int
	call     Call
	hosts    []*routes.Host
	said     []error // what each of hosts said last
	asked    int     // of hosts
	open     int     // calls of them that can bring an answer
	start    time.Time
	done     bool // guarded by flight.mu: it has its answer
}

func newPart(from, to int, hosts []*routes.Host) *part {
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

// call asks a host, and again if that may help.
func (f *flight) call(ctx context.Context, p *part, host int) {
	defer f.all.Done()
	h := p.hosts[host]
	for attempt := 0; ; attempt++ {
		start := time.Now()
		answer, err := p.call(ctx, h)
		took := time.Since(start)
		if ctx.Err() == nil && f.isLocal(h) {
			f.local.Add(took)
		}
		again := attempt < f.o.Retries && err != nil && f.o.MayPass(err)
		if !f.report(ctx, result{part: p, host: host, answer: answer, err: err, last: !again}) {
			return
		}
		if took < f.o.RetryPause { // it failed at once
			pause(ctx, time.Duration(1+rand.Int64N(int64(f.o.RetryPause)))) //nolint:gosec // jitter
		}
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
			f.landed(f, f.open)
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
	if r.err == nil {
		f.o.Observer.Late(r.part.hosts[r.host])
	} else if ctx.Err() == nil {
		f.o.Observer.Failed(r.part.hosts[r.host], r.err)
	}
}
