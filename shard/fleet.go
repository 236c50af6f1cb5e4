package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/tidemark-dev/tidemark/shard/internal/routes"
	"github.com/tidemark-dev/tidemark/shard/internal/tail"
)

// hostsTimeout is how long a read of the list of hosts may take.
const hostsTimeout = 5 * time.Second

// fleet is the nodes of a cache, as one client knows them.
type fleet struct {
	o     ClientOptions
	cache string
	ping  *Request
	table *routes.Table
	pace  *rate.Limiter // of pings
	local tail.P95      // of calls of nodes in LocalDC

	ended chan struct{} // closed when run ends

	mu      sync.Mutex
	state   int
	flights map[*flight]struct{} // that have calls
	late    []*flight            // of them, those whose Get has returned, and maybe some that have ended; the oldest first
	left    int                  // their calls
	calls   sync.WaitGroup
}

// States of a fleet.
const (
	begun = iota
	running
	over
)

func newFleet(cache string, o ClientOptions) *fleet {
	c := &fleet{
		o: o, cache: cache, ping: &Request{Cache: cache}, table: routes.New(),
		ended: make(chan struct{}), flights: map[*flight]struct{}{},
	}
	if o.PingRate > 0 {
		c.pace = rate.NewLimiter(rate.Limit(o.PingRate), 1)
	}
	return c
}

func (c *fleet) run(ctx context.Context) error {
	c.mu.Lock()
	if c.state != begun {
		c.mu.Unlock()
		return errors.New("shard: Run was called twice")
	}
	c.state = running
	c.mu.Unlock()
	var loops sync.WaitGroup
	loops.Go(func() { c.refresh(ctx) })
	loops.Go(func() { c.every(ctx, func() { c.pingAll(ctx, c.table.Hosts()) }) })
	loops.Wait()

	c.mu.Lock()
	c.state = over
	close(c.ended)
	for f := range c.flights {
		f.cancel()
	}
	c.mu.Unlock()
	c.calls.Wait()
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
			c.o.Logger.WarnContext(ctx, "cannot read the list of shard hosts", "cache", c.cache, "error", err)
		case err == nil && failing:
			c.o.Logger.InfoContext(ctx, "the list of shard hosts is read again", "cache", c.cache)
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
		return nil, errors.New("it is empty")
	case n > MaxHosts:
		return hosts[:MaxHosts], fmt.Errorf("it has %d hosts, only the first %d are used", n, MaxHosts)
	}
	return hosts, nil
}

func (c *fleet) setHosts(ctx context.Context, hosts []Host) {
	places, addresses := make([]routes.Place, len(hosts)), make([]string, len(hosts))
	for i, h := range hosts {
		places[i], addresses[i] = routes.Place(h), h.Address
	}
	added, changed := c.table.SetHosts(places)
	if !changed {
		return
	}
	c.o.Transport.Retain(addresses)
	c.o.Observer.Changed(c.table.Count())
	c.pingAll(ctx, added)
}

func (c *fleet) pingAll(ctx context.Context, hosts []*routes.Host) {
	for _, h := range hosts {
		if c.o.SkipPings && time.Since(time.Unix(0, h.Heard.Load())) < c.o.PingPeriod {
			continue
		}
		if c.pace != nil && c.pace.Wait(ctx) != nil {
			return
		}
		if h.Pinging.CompareAndSwap(false, true) {
			c.calls.Go(func() {
				defer h.Pinging.Store(false)
				if _, err := c.ask(ctx, h, c.ping); err != nil && ctx.Err() == nil {
					c.o.Observer.Failed(hostOf(h), err)
				}
			})
		}
	}
}

func hostOf(h *routes.Host) Host { return Host{Address: h.Address, DC: h.DC} }

// ask calls a node once, and learns from its answer.
func (c *fleet) ask(ctx context.Context, h *routes.Host, r *Request) (Response, error) {
	number := c.table.Number()
	attempt, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	answer, err := c.o.Transport.Call(attempt, h.Address, r)
	switch {
	case err == nil:
		err = check(answer, r)
	case ctx.Err() != nil: // given up, which says nothing of the host
		return answer, ctx.Err()
	case attempt.Err() != nil:
		err = fmt.Errorf("%w of %v", ErrTimeout, c.o.Timeout)
	case errors.Is(err, ErrOtherCache):
		answer = Response{}
	}
	h.Failing.Store(err != nil && !errors.Is(err, ErrNotMatched))
	if errors.Is(err, ErrTimeout) || errors.Is(err, ErrUnavailable) {
		return answer, err
	}
	h.Heard.Store(time.Now().UnixNano())
	if err != nil && !answered(err) {
		return answer, err
	}
	route := routes.Route{Assigned: answer.Assigned, Interval: routes.Interval(answer.Shard), Incarnation: answer.Incarnation}
	if c.table.Learn(h, number, route) {
		c.o.Observer.Changed(c.table.Count())
	}
	return answer, err
}

// answered reports whether an error is made of an answer, from which the map can learn.
func answered(err error) bool {
	return errors.Is(err, ErrNotMatched) || errors.Is(err, ErrBadAnswer) || errors.Is(err, ErrOtherCache)
}

// check returns an error unless an answer has what was asked for.
func check(a Response, r *Request) error {
	switch {
	case a.Assigned && a.Shard.First > a.Shard.Last:
		return fmt.Errorf("%w: its shard begins at %016x, after its end at %016x", ErrBadAnswer, a.Shard.First, a.Shard.Last)
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

// enter registers calls of a Get. It returns false if the client has ended.
func (c *fleet) enter(f *flight, calls int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == over {
		return false
	}
	c.flights[f] = struct{}{}
	c.calls.Add(calls)
	return true
}

// returned records that a Get has returned, with calls that go on. It cancels the oldest of such calls if there are too many.
func (c *fleet) returned(f *flight, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if calls == 0 {
		delete(c.flights, f)
		return
	}
	if c.o.MaxLate == 0 {
		return
	}
	f.late = calls
	c.left += calls
	c.late = append(c.late, f)
	for len(c.late) > 0 && (c.left > c.o.MaxLate || c.late[0].late == 0) {
		oldest := c.late[0]
		c.late = c.late[1:]
		c.left -= oldest.late
		oldest.late = 0
		oldest.cancel()
	}
}

// end records the end of a call whose Get has returned, and how many calls of it are left.
func (c *fleet) end(f *flight, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.late > 0 {
		f.late--
		c.left--
	}
	if calls == 0 {
		delete(c.flights, f)
	}
}
