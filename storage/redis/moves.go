package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/topology"
)

// moveEvery is the minimum time between two looks for another server at the address.
const moveEvery = time.Second

// moves follows the address of a standalone Redis to another server. A managed Redis may fail over by changing the
// address of its name, while the former primary stays up as a replica: connections to it stay open, and only new ones
// reach the new primary.
type moves struct {
	looks

	links links
}

// looks are looks at a server in the background, one at a time.
type looks struct {
	every time.Duration // minimum time between the starts of two

	looking sync.WaitGroup
	mu      sync.Mutex
	last    time.Time // when the last look began
	busy    bool      // a look is in progress
	closed  bool
}

// follow returns options whose connections the moves can close. With Sentinels, which name the primary themselves,
// there are none.
func follow(o rueidis.ClientOption) (rueidis.ClientOption, *moves) {
	if o.Sentinel.MasterSet != "" {
		return o, nil
	}
	m := &moves{looks: looks{every: moveEvery}, links: links{connect: o.DialCtxFn, open: map[*link]struct{}{}}}
	o.DialCtxFn = m.links.dial
	return o, m
}

// look calls f in another goroutine, unless the last call began too short a time ago.
func (m *looks) look(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.busy || time.Since(m.last) < m.every {
		return
	}
	m.busy, m.last = true, time.Now()
	m.looking.Go(func() {
		f()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.busy = false
	})
}

// close waits for a look in progress. None begins afterwards.
func (m *looks) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.looking.Wait()
}

// findPrimary is called when a server has refused a call because it is a replica. If a new connection to the address of
// a standalone Redis reaches a primary, it closes the earlier ones: calls in progress are tried again, and listeners
// subscribe again. It returns at once, and looks once a second at most. A Redis that is a replica permanently keeps its
// connections.
func (c *Conn) findPrimary(ctx context.Context) {
	if c.moves == nil || c.client.Mode() != rueidis.ClientModeStandalone {
		return
	}
	detached := context.WithoutCancel(ctx) // other calls need the result, too
	c.moves.look(func() {
		started := time.Now()
		is, err := c.infoAnew(detached)
		if err != nil || is.IsReplica() {
			c.logger.DebugContext(detached, "redis is a replica and its address has no primary", "error", err)
			return
		}
		c.metrics.moved()
		c.logger.WarnContext(detached, "redis is a replica and its address has a primary, connecting again",
			"connections", c.moves.links.close(started))
	})
}

// infoAnew returns the INFO of the server that a new connection reaches.
func (c *Conn) infoAnew(ctx context.Context) (topology.Info, error) {
	o := c.options
	o.DialCtxFn, o.ForceSingleClient = c.moves.links.connect, true
	client, err := rueidis.NewClient(o)
	if err != nil {
		if client != nil {
			client.Close()
		}
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, c.timeout/2)
	defer cancel()
	return topology.ReadInfo(ctx, client)
}

// links are open connections.
type links struct {
	connect dialFunc

	mu    sync.Mutex
	open  map[*link]struct{}
	moved time.Time // those dialed before are closed
}

// link is a connection that removes itself from links when it is closed.
type link struct {
	net.Conn

	links *links
	since time.Time // before it was dialed
}

// Close implements net.Conn.
func (l *link) Close() error {
	l.links.mu.Lock()
	delete(l.links.open, l)
	l.links.mu.Unlock()
	return l.Conn.Close()
}

// dial connects to an address, whose name is resolved for each connection.
func (l *links) dial(ctx context.Context, address string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
	since := time.Now()
	conn, err := l.connect(ctx, address, d, c)
	if err != nil {
		return nil, err
	}
	opened := &link{Conn: conn, links: l, since: since}
	l.mu.Lock()
	defer l.mu.Unlock()
	if since.Before(l.moved) {
		_ = conn.Close()
		return nil, errMoved
	}
	l.open[opened] = struct{}{}
	return opened, nil
}

// errMoved is the error of a connection that may have reached the former server of an address.
var errMoved = errors.New("the address moved to another server meanwhile")

// close closes the connections that were dialed before a time, and returns their number.
func (l *links) close(before time.Time) int {
	l.mu.Lock()
	l.moved = before
	var old []*link
	for link := range l.open {
		if link.since.Before(before) {
			old = append(old, link)
		}
	}
	l.mu.Unlock()
	for _, link := range old {
		_ = link.Close() // it ends in any case
	}
	return len(old)
}
