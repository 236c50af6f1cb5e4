package redis

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// sentinelDials spaces the connections to Sentinels. While those name no primary that answers, rueidis 1.0.79 asks all of
// them again and again, on new connections, and starts a goroutine for each that asks forever, too: after some seconds
// thousands do, and after an hour they are the whole memory. A pass over the Sentinels takes as long as its slowest
// connection, and the others wait for it, so what bounds the connections bounds the goroutines and the load of all.
type sentinelDials struct {
	connect dialFunc
	closed  chan struct{}

	mu     sync.Mutex
	series map[string]*dialSeries // by the addresses of the options, at least one of which is in each pass
}

// dialSeries are the connections to one address without a long time between two.
type dialSeries struct {
	count       int
	first, last time.Time
}

const (
	sentinelBurst = 12 // connections of a series that don't wait: those of a start, or of a short fail-over
	// After them, the next one waits for a fiftieth of the series so far: an outage becomes that much longer at most,
	// for each of the clients that share the series.
	sentinelShare   = 50
	minSentinelWait = 100 * time.Millisecond
	maxSentinelWait = 5 * time.Second
	sentinelCalm    = time.Minute // after which a series has ended: the last connection served
)

// spaceSentinels returns options whose connections to Sentinels are spaced until stop is called: then none is made.
func spaceSentinels(o rueidis.ClientOption) (spaced rueidis.ClientOption, stop func()) {
	if o.Sentinel.MasterSet == "" {
		return o, func() {}
	}
	d := &sentinelDials{connect: o.DialCtxFn, closed: make(chan struct{}), series: map[string]*dialSeries{}}
	for _, address := range o.InitAddress {
		d.series[address] = &dialSeries{}
	}
	o.DialCtxFn = d.dial
	return o, sync.OnceFunc(func() { close(d.closed) })
}

func (d *sentinelDials) dial(ctx context.Context, address string, dialer *net.Dialer, c *tls.Config) (net.Conn, error) {
	if !pace.SleepUntil(ctx, d.next(address, time.Now()), d.closed) {
		return nil, ctx.Err()
	}
	select {
	case <-d.closed:
		return nil, net.ErrClosed
	default:
		return d.connect(ctx, address, dialer, c)
	}
}

// next returns how long the next connection to an address waits.
func (d *sentinelDials) next(address string, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.series[address]
	if s == nil {
		return 0
	}
	if now.Sub(s.last) > sentinelCalm {
		*s = dialSeries{first: now, last: now}
	}
	s.count++
	if s.count <= sentinelBurst {
		s.last = now
		return 0
	}
	due := s.last.Add(min(max(s.last.Sub(s.first)/sentinelShare, minSentinelWait), maxSentinelWait))
	if due.Before(now) {
		due = now
	}
	s.last = due
	return due.Sub(now)
}
