package credentials

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/records/sessions"
)

const (
	// readAtOnce is how many sessions are read again at the same time.
	readAtOnce = 1024
	// readTime is how long one of them may take: on a Cluster the node of another session may answer.
	readTime = time.Second
	// retryAfter is how long after a failure the rest is read again.
	retryAfter = 250 * time.Millisecond
)

// Run ends requests that wait with sessions that are revoked, until ctx ends. It returns nil.
func (c *Credentials) Run(ctx context.Context) error {
	defer c.stop()
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

// change marks a session that has changed as doubtful.
func (c *Credentials) change(of sessions.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.lru.Peek(of); ok {
		k.changed = true
	}
	if k := c.held[of]; k != nil {
		k.changed = true
		c.doubt(k)
	}
}

// lose marks all sessions as doubtful.
func (c *Credentials) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses++
	for _, k := range c.held {
		c.doubt(k)
	}
}

// doubt makes Run read a session again.
func (c *Credentials) doubt(k *known) {
	c.doubted[k.of] = k
	c.signal()
}

func (c *Credentials) signal() {
	select {
	case c.wake <- struct{}{}:
	default: // Run is signaled already
	}
}

// review reads the sessions again that are doubtful and with which requests wait. It reports whether none is doubtful
// any more.
func (c *Credentials) review(ctx context.Context) bool {
	c.mu.Lock()
	doubted := slices.Collect(maps.Values(c.doubted))
	c.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(readAtOnce)
	for _, k := range doubted {
		g.Go(func() error {
			c.reread(ctx, k)
			return nil
		})
	}
	_ = g.Wait() // no function returns an error
	some := false
	for _, k := range doubted {
		some = some || k.gone.Load()
	}
	if some {
		c.notify()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range doubted {
		if c.doubted[k.of] == k {
			return false
		}
	}
	return true
}

// reread reads a session again. It stays doubtful if that fails.
func (c *Credentials) reread(ctx context.Context, k *known) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	_, err := c.load(ctx, k.of)
	if err != nil && !errors.Is(err, sessions.ErrNotFound) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if !k.gone.Swap(true) {
			c.ended += k.waits
		}
		c.lru.Remove(k.of)
	}
	if c.doubted[k.of] == k && (err != nil || !k.isDoubtful()) {
		delete(c.doubted, k.of)
	}
}

// Revoked reports whether the session of a principal was revoked, or has ended. It only looks into memory.
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
