package server

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// reservedConnections is how many connections are taken beyond the limit. They are served one answer each: probes and
	// metrics, and for all else that there are too many. When there are more of them the oldest is closed, so that a probe
	// comes through whoever holds the others.
	reservedConnections = 64
	fullLogPause        = time.Minute // between two messages that the limit is reached
)

// limitedListener counts connections, and takes those beyond a limit as reserved ones. Its methods and those of its
// connections may be called by several goroutines.
type limitedListener struct {
	net.Listener
	limit   int // 0: none
	refuse  func(answer []byte) []byte
	refused prometheus.Counter
	log     *slog.Logger

	mu       sync.Mutex
	open     int       // connections within the limit
	reserved list.List // of *limitedConn, the oldest first
	logged   time.Time // when the limit was last logged as reached
}

// limitedConn is a connection of a limitedListener.
type limitedConn struct {
	net.Conn
	listener *limitedListener
	place    *list.Element // in reserved; nil: it is within the limit
	closing  sync.Once
}

// Accept waits for the next connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &limitedConn{Conn: conn, listener: l}
	if evicted := l.add(c); evicted != nil {
		l.refused.Inc()
		_ = evicted.Close() // its client has waited for longest
	}
	return c, nil
}

// add counts a connection, and returns the reserved one that must make room for it, or nil.
func (l *limitedListener) add(c *limitedConn) (evicted *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit == 0 || l.open < l.limit {
		l.open++
		return nil
	}
	if now := time.Now(); now.Sub(l.logged) > fullLogPause {
		l.logged = now
		l.log.Warn("connection limit reached", "limit", l.limit)
	}
	if l.reserved.Len() == reservedConnections {
		evicted = l.reserved.Front().Value.(*limitedConn)
	}
	c.place = l.reserved.PushBack(c)
	return evicted
}

// count returns how many connections are open.
func (l *limitedListener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open + l.reserved.Len()
}

// Close closes the connection.
func (c *limitedConn) Close() error {
	c.closing.Do(func() {
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		if c.place == nil {
			c.listener.open--
		} else {
			c.listener.reserved.Remove(c.place)
		}
	})
	return c.Conn.Close()
}

// CloseWrite ends the side of the connection that the server writes. net/http calls it so that the client can read the
// last answer.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Write writes an answer, or a part of one. It replaces those that net/http makes itself.
func (c *limitedConn) Write(answer []byte) (int, error) {
	better := c.listener.refuse(answer)
	if better == nil {
		return c.Conn.Write(answer)
	}
	if _, err := c.Conn.Write(better); err != nil {
		return 0, err
	}
	return len(answer), nil
}

// reservedKey is the key of whether a connection is a reserved one in the contexts of its requests.
type reservedKey struct{}

// connContext is for http.Server.
func connContext(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*limitedConn); ok && c.place != nil {
		return context.WithValue(ctx, reservedKey{}, true)
	}
	return ctx
}
