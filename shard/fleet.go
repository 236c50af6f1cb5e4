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

const hostsTimeout = 5 * time.Second // of a read of the list of hosts

// errRemoved is the error of a host that has left the list while a Get, or a ping, was going to call it.
var errRemoved = errors.New("the host was removed from the list")

// fleet is the nodes of a cache, as one client knows them. It reads their list, sends pings, and makes single calls.
type fleet struct {
	o     ClientOptions
	slow  error // wraps ErrTimeout
	ping  *Request
	hosts *hostMap
	pace  *rate.Limiter // of pings
	pings sync.WaitGroup
	ran   atomic.Bool

	reporting sync.Mutex // the map's last change is reported last
}

func newFleet(cache string, o ClientOptions) *fleet {
	c := &fleet{o: o, slow: fmt.Errorf("%w of %v", ErrTimeout, o.Timeout), ping: &Request{Cache: cache},
		hosts: newHostMap()}
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
	loops.Go(func() { c.every(ctx, func() { c.pingAll(ctx, c.hosts.list()) }) })
	loops.Wait()
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
	added, changed := c.hosts.setHosts(hosts)
	if !changed {
		return
	}
	addresses := make([]string, len(hosts))
	for i, h := range hosts {
		addresses[i] = h.Address
	}
	c.o.Transport.Retain(addresses)
	c.reportChange()
	c.pingAll(ctx, added)
}

// reportChange reports the map as it is now.
func (c *fleet) reportChange() {
	c.reporting.Lock()
	defer c.reporting.Unlock()
	c.o.Observer.Changed(c.hosts.count())
}

func (c *fleet) pingAll(ctx context.Context, hosts []*peer) {
	for _, h := range hosts {
		if h.removed.Load() || c.o.SkipPings && time.Since(time.Unix(0, h.heard.Load())) < c.o.PingPeriod {
			continue
		}
		if c.pace != nil && c.pace.Wait(ctx) != nil {
			return
		}
		if h.pinging.CompareAndSwap(false, true) {
			c.pings.Go(func() {
				defer h.pinging.Store(false)
				ctx, cancel := c.attempt(ctx)
				defer cancel()
				if _, err := c.ask(ctx, h, c.ping); err != nil && !errors.Is(err, context.Canceled) {
					c.o.Observer.Failed(h.Host, err)
				}
			})
		}
	}
}

// attempt returns the context of one call.
func (c *fleet) attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.o.Timeout, c.slow)
}

// ask calls a node once, and learns from its answer. The cause of ctx wraps ErrTimeout if that takes too long.
func (c *fleet) ask(ctx context.Context, h *peer, r *Request) (Response, error) {
	if h.removed.Load() { // a call would open a connection that is never closed
		return Response{}, errRemoved
	}
	number := c.hosts.number()
	answer, err := c.o.Transport.Call(ctx, h.Address, r)
	switch {
	case err == nil:
		err = check(answer, r)
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrTimeout): // cancelled, which isn't a failure of the host
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
		h.heard.Store(time.Now().UnixNano())
	}
	if err != nil && !answered(err) {
		return answer, err
	}
	if c.hosts.learn(h, number, answer) {
		c.reportChange()
	}
	return answer, err
}

// judge records how a call of a host ended. It logs when a host begins to fail, and when it recovers.
func (c *fleet) judge(ctx context.Context, h *peer, err error) {
	failing := err != nil && !errors.Is(err, ErrNotMatched)
	h.failing.Store(failing)
	wrong := failing && !mayPass(err)
	if h.wrong.Swap(wrong) == wrong {
		return
	}
	log := c.o.Logger.With("cache", c.ping.Cache, "host", h.Address, "dc", h.DC)
	if wrong {
		log.WarnContext(ctx, "a shard host can't be used", "error", err)
	} else {
		log.InfoContext(ctx, "a shard host can be used again", "error", err)
	}
}

// check returns an error unless an answer matches its request.
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
