package credentials

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/records/sessions"
)

const (
	// readAtOnce is how many sessions are read again concurrently.
	readAtOnce = 1024
	// readTime limits the read of one session: on a Cluster the node of another session may answer.
	readTime = time.Second
	// retryAfter is the pause after a failure before the remaining sessions are read again.
	retryAfter = 250 * time.Millisecond
)

// Run keeps sessions in memory and ends requests that wait with sessions that are revoked, until ctx ends. It returns
// nil.
func (c *Credentials) Run(ctx context.Context) error {
	defer c.o.Tracker.Listen(c.change, c.lose)()
	c.listen(true)
	defer c.listen(false)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
		if c.review(ctx) {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryAfter):
			c.signal()
		}
	}
}

// listen records whether changes are reported.
func (c *Credentials) listen(running bool) {
	c.mu.Lock()
	c.running = running
	c.mu.Unlock()
	c.lose()
}

// change removes a session that has changed from the memory.
func (c *Credentials) change(of sessions.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.valid.Remove(of)
	if r := c.reading[of]; r != nil {
		r.changes++
	}
	if c.held[of] != nil {
		c.doubt(of)
	}
}

// lose clears the memory.
func (c *Credentials) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses++
	c.valid.Purge()
	for of := range c.held {
		c.doubt(of)
	}
}

// doubt schedules a session to be read again by Run.
func (c *Credentials) doubt(of sessions.Ref) {
	c.doubted[of] = struct{}{}
	c.signal()
}

func (c *Credentials) signal() {
	select {
	case c.wake <- struct{}{}:
	default: // Run is signaled already
	}
}

// review reads the doubted sessions again, and notifies listeners of ended ones. It reports whether no doubted session
// is left.
func (c *Credentials) review(ctx context.Context) bool {
	c.mu.Lock()
	doubted := slices.Collect(maps.Keys(c.doubted))
	c.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(readAtOnce)
	for _, of := range doubted {
		g.Go(func() error {
			c.reread(ctx, of)
			return nil
		})
	}
	_ = g.Wait() // no function returns an error
	c.mu.Lock()
	news := c.ended > c.told
	c.told = c.ended
	left := slices.ContainsFunc(doubted, func(of sessions.Ref) bool {
		_, ok := c.doubted[of]
		return ok
	})
	c.mu.Unlock()
	if news {
		c.notify()
	}
	return !left
}

// reread reads a doubted session again. It stays doubted if that fails.
func (c *Credentials) reread(ctx context.Context, of sessions.Ref) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	_, _ = c.load(ctx, of)
}

// Revoked reports whether the session of a principal was revoked, or has ended. It only reads memory.
func (c *Credentials) Revoked(p *access.Principal) bool {
	k, ok := p.Origin.(*known)
	return ok && k.by == c && k.gone.Load()
}

// Notify calls f after sessions with which requests wait were revoked, until stop is called.
func (c *Credentials) Notify(f func()) (stop func()) {
	c.listening.Lock()
	defer c.listening.Unlock()
	c.listeners[&f] = struct{}{}
	return func() {
		c.listening.Lock()
		defer c.listening.Unlock()
		delete(c.listeners, &f)
	}
}

func (c *Credentials) notify() {
	c.listening.Lock()
	listeners := slices.Collect(maps.Keys(c.listeners))
	c.listening.Unlock()
	for _, f := range listeners {
		(*f)()
	}
}
