package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	hostsTimeout = 5 * time.Second       // of a read of the list of hosts
	retryPause   = 50 * time.Millisecond // at most, before a call is repeated
)

// errRemoved is the error of a host that has left the list while a Get, or a ping, was going to call it.
var errRemoved = errors.New("the host was removed from the list")

// fleet is the nodes of a cache, as one client knows them.
type fleet struct {
	o       ClientOptions
	slow    error // wraps ErrTimeout
	ping    *Request
	table   *routeTable
	flights *control
	pace    *rate.Limiter // of pings
	pings   sync.WaitGroup
	ran     atomic.Bool
}

func newFleet(cache string, o ClientOptions) *fleet {
	c := &fleet{o: o, slow: fmt.Errorf("%w of %v", ErrTimeout, o.Timeout), ping: &Request{Cache: cache},
		table: newRouteTable()}
	c.flights = newControl(flightOptions{
		Table: c.table, Observer: observer{o.Observer}, MaxKeys: MaxKeys,
		Timeout: o.Timeout, ErrTimeout: c.slow, Retries: o.Retries, MayPass: mayPass, RetryPause: retryPause,
		LocalDC: o.LocalDC, MaxHedge: o.MaxHedge, MaxLate: o.MaxLate,
	})
	if o.PingRate > 0 {
		c.pace = rate.NewLimiter(rate.Limit(o.PingRate), 1)
	}
	return c
}

func (c *fleet) run(ctx context.Context) error {
	if c.ran.Swap(true) {
		return errors.New("shard: Run was called twice")
	}
	var loops sync.WaitGroup
	loops.Go(func() { c.refresh(ctx) })
	loops.Go(func() { c.every(ctx, func() { c.pingAll(ctx, c.table.Hosts()) }) })
	loops.Wait()
	c.flights.End()
	c.pings.Wait()
	return nil
}

// every calls f at once and then every PingPeriod, until ctx ends.
func (c *fleet) every(ctx context.Context, f func()) {
	ticker := time.NewTicker(c.o.PingPeriod)
	defer ticker.Stop()
	for ctx.Err() == nil {
		f()
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// refresh keeps the list of hosts.
func (c *fleet) refresh(ctx context.Context) {
	failing := false
	c.every(ctx, func() {
		hosts, err := c.readHosts(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			c.o.Logger.WarnContext(ctx, "cannot read the list of shard hosts", "cache", c.ping.Cache, "error", err)
		case err == nil && failing:
			c.o.Logger.InfoContext(ctx, "the list of shard hosts is read again", "cache", c.ping.Cache)
		}
		failing = err != nil
		if len(hosts) > 0 {
			c.setHosts(ctx, hosts)
		}
	})
}

func (c *fleet) readHosts(ctx context.Context) ([]Host, error) {
	ctx, cancel := context.WithTimeout(ctx, hostsTimeout)
	defer cancel()
	hosts, err := c.o.Hosts.Hosts(ctx)
	switch n := len(hosts); {
	case err != nil:
		return hosts, err
	case n == 0:
		return nil, errors.New("it has no hosts: are nodes running?")
	case n > MaxHosts:
		return hosts[:MaxHosts], fmt.Errorf("it has %d hosts, only the first %d are used", n, MaxHosts)
	}
	return hosts, nil
}

func (c *fleet) setHosts(ctx context.Context, hosts []Host) {
	places, addresses := make([]place, len(hosts)), make([]string, len(hosts))
	for i, h := range hosts {
		places[i], addresses[i] = place(h), h.Address
	}
	added, changed := c.table.SetHosts(places)
	if !changed {
		return
	}
	c.o.Transport.Retain(addresses)
	c.o.Observer.Changed(c.table.Count())
	c.pingAll(ctx, added)
}

func (c *fleet) pingAll(ctx context.Context, hosts []*peer) {
	for _, h := range hosts {
		if h.Removed() || c.o.SkipPings && time.Since(time.Unix(0, h.Heard.Load())) < c.o.PingPeriod {
			continue
		}
		if c.pace != nil && c.pace.Wait(ctx) != nil {
			return
		}
		if h.Pinging.CompareAndSwap(false, true) {
			c.pings.Go(func() {
				defer h.Pinging.Store(false)
				ctx, cancel := context.WithTimeoutCause(ctx, c.o.Timeout, c.slow)
				defer cancel()
				if _, err := c.ask(ctx, h, c.ping); err != nil && !errors.Is(err, context.Canceled) {
					c.o.Observer.Failed(hostOf(h), err)
				}
			})
		}
	}
}

func hostOf(h *peer) Host { return Host{Address: h.Address, DC: h.DC} }

// ask calls a node once, and learns from its answer. The cause of ctx wraps ErrTimeout if that takes too long.
func (c *fleet) ask(ctx context.Context, h *peer, r *Request) (Response, error) {
	if h.Removed() { // a call would open a connection that nobody closes
		return Response{}, errRemoved
	}
	number := c.table.Number()
	answer, err := c.o.Transport.Call(ctx, h.Address, r)
	switch {
	case err == nil:
		err = check(answer, r)
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrTimeout): // cancelled, which is no failure of the host
		return answer, context.Cause(ctx)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, ErrOtherCache):
		answer = Response{}
	}
	c.judge(ctx, h, err)
	if mayPass(err) {
		return answer, err
	}
	if c.o.SkipPings {
		h.Heard.Store(time.Now().UnixNano())
	}
	if err != nil && !answered(err) {
		return answer, err
	}
	route := route{Assigned: answer.Assigned, Interval: routeInterval(answer.Shard), Incarnation: answer.Incarnation}
	if c.table.Learn(h, number, route) {
		c.o.Observer.Changed(c.table.Count())
	}
	return answer, err
}

// judge records how a call of a host ended. Hosts at which something is wrong are logged, and when that is over.
func (c *fleet) judge(ctx context.Context, h *peer, err error) {
	failing := err != nil && !errors.Is(err, ErrNotMatched)
	h.Failing.Store(failing)
	wrong := failing && !mayPass(err)
	if h.Wrong.Swap(wrong) == wrong {
		return
	}
	log := c.o.Logger.With("cache", c.ping.Cache, "host", h.Address, "dc", h.DC)
	if wrong {
		log.WarnContext(ctx, "a shard host can't be used", "error", err)
	} else {
		log.InfoContext(ctx, "a shard host can be used again", "error", err)
	}
}

// mayPass reports whether a call that failed may succeed if it is repeated: the host didn't answer.
func mayPass(err error) bool { return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrTimeout) }

// answered reports whether an error is made of an answer, from which the map can learn.
func answered(err error) bool {
	return errors.Is(err, ErrNotMatched) || errors.Is(err, ErrBadAnswer) || errors.Is(err, ErrOtherCache)
}

// check returns an error unless an answer has what was asked for.
func check(a Response, r *Request) error {
	switch {
	case a.Assigned && a.Shard.First > a.Shard.Last:
		return fmt.Errorf("%w: its shard begins at %016x, after its end at %016x", ErrBadAnswer, a.Shard.First,
			a.Shard.Last)
	case len(r.Keys) == 0:
		return nil
	case !a.AllMatched:
		return ErrNotMatched
	case !a.Assigned:
		return fmt.Errorf("%w: it has values, and no shard", ErrBadAnswer)
	case !a.Shard.Contains(r.Keys[0]) || !a.Shard.Contains(r.Keys[len(r.Keys)-1]): // they are sorted
		return fmt.Errorf("%w: it has values of keys outside of its shard %v", ErrBadAnswer, a.Shard)
	}
	return nil
}

// observer reports the events of flights to an Observer.
type observer struct{ o Observer }

func (o observer) First(h *peer, took time.Duration) { o.o.First(hostOf(h), took) }
func (o observer) Failed(h *peer, err error)         { o.o.Failed(hostOf(h), err) }
func (o observer) Late(h *peer)                      { o.o.Late(hostOf(h)) }
func (o observer) NoShard(keys int)                  { o.o.NoShard(keys) }
