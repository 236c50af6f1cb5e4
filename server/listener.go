package server

import (
	"bytes"
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/frames"
	"github.com/tidemark-dev/tidemark/internal/places"
)

const (
	// reservedConnections is how many connections a listener accepts when all places are in use. Each gets one answer:
	// that of a probe or, from the admin listener, the metrics and profiles, and otherwise an error. If there are more of
	// them the oldest is closed, so that probes are answered even if clients use all the others.
	reservedConnections = 64
	adminConnections    = 64          // the limit of the admin listener
	fullLogPause        = time.Minute // between two messages that a limit is reached
)

// connections limits the connections of some listeners. Its methods may be called by several goroutines.
type connections struct {
	*places.Limit
	refused func()               // counts a connection
	streams int                  // concurrent ones of an HTTP/2 connection
	flooded func(frames.Outcome) // counts a connection with too many frames
	log     *slog.Logger

	full   rate.Sometimes // when the limit is logged
	floods rate.Sometimes // when a connection with too many frames is logged at level info
}

// limitTo sets the limit; 0 is none. Connections of proxies are those of many clients.
func (c *connections) limitTo(limit int, proxies []netip.Prefix) {
	client := func(a net.Addr) string {
		tcp, ok := a.(*net.TCPAddr)
		if !ok {
			return ""
		}
		at := tcp.AddrPort().Addr().Unmap()
		if slices.ContainsFunc(proxies, func(n netip.Prefix) bool { return n.Contains(at) }) {
			return ""
		}
		return access.Network(at.String()).String()
	}
	c.Limit = places.New(limit, client, func(gaveWay bool) {
		if gaveWay {
			c.refused()
		}
		c.full.Do(func() { c.log.Warn("connection limit reached", "limit", limit) })
	})
}

// limitFrames returns a connection on which the rate of HTTP/2 frames is limited.
func (c *connections) limitFrames(conn net.Conn) net.Conn {
	return frames.New(conn, c.streams, func(o frames.Outcome) { c.flood(conn.RemoteAddr(), o) })
}

// flood counts a connection with too many frames, and logs it: one in a minute at level info, others at level debug.
func (c *connections) flood(client net.Addr, outcome frames.Outcome) {
	c.flooded(outcome)
	log := c.log.Debug
	c.floods.Do(func() { log = c.log.Info })
	log("too many HTTP/2 frames", "client", client, "outcome", outcome)
}

// framesListener is a listener that limits the rate of HTTP/2 frames on its connections.
type framesListener struct {
	net.Listener
	connections *connections
}

// Accept waits for the next connection.
func (l *framesListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.connections.limitFrames(conn), nil
}

// limitedListener gives connections a place, and accepts some that have none as reserved ones. It also limits the rate
// of HTTP/2 frames. Its methods and those of its connections may be called by several goroutines.
type limitedListener struct {
	net.Listener
	connections *connections
	refuse      func(answer []byte) []byte

	mu       sync.Mutex
	reserved list.List // of *limitedConn, the oldest first
}

// limitedConn is a connection of a limitedListener.
type limitedConn struct {
	net.Conn
	accepted net.Conn // in which Conn reads and writes
	listener *limitedListener
	place    *places.Place // nil: the connection is a reserved one
	reserve  *list.Element // in reserved; nil: it isn't
	closing  sync.Once
	failed   atomic.Bool // the TLS handshake has
	lengths  lengths

	reads, writes deadline
}

// Accept waits for the next connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &limitedConn{Conn: l.connections.limitFrames(conn), accepted: conn, listener: l, writes: deadline{writes: true}}
	if c.place = l.connections.Take(conn); c.place == nil {
		l.reserve(c)
	}
	return c, nil
}

// reserve adds a reserved connection. If there are too many of them it closes the one whose client has waited longest.
func (l *limitedListener) reserve(c *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reserved.Len() == reservedConnections {
		places.Cut(l.reserved.Remove(l.reserved.Front()).(*limitedConn).accepted)
		l.connections.refused()
	}
	c.reserve = l.reserved.PushBack(c)
}

// beyond returns how many connections are reserved ones.
func (l *limitedListener) beyond() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reserved.Len()
}

// Close closes the connection.
func (c *limitedConn) Close() error {
	c.closing.Do(func() {
		c.place.Release()
		if c.reserve != nil {
			c.listener.mu.Lock()
			defer c.listener.mu.Unlock()
			c.listener.reserved.Remove(c.reserve) // does nothing after it had to make room
		}
	})
	return c.Conn.Close()
}

// CloseWrite closes the server's side of the connection. net/http calls it so that the client can read the last answer.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.accepted.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Detach returns the connection for what isn't a request, without the limits of frames and lengths.
func (c *limitedConn) Detach() net.Conn { return &places.Conn{Conn: c.accepted, Place: c.place} }

// Read reads what the client sends. With TLS the first call does the handshake, within the time for a request's
// headers.
func (c *limitedConn) Read(p []byte) (int, error) {
	c.reads.begin(c.accepted)
	n, err := c.Conn.Read(p)
	c.reads.end()
	c.lengths.read(p[:n])
	if err != nil {
		c.readFailed(err)
	}
	return n, err
}

// readFailed handles the error of a TLS handshake. It isn't part of Read, which waits on the stack of each connection.
func (c *limitedConn) readFailed(err error) {
	secure, ok := c.accepted.(*tls.Conn)
	if !ok || secure.ConnectionState().HandshakeComplete || c.failed.Swap(true) {
		return
	}
	c.listener.connections.log.Debug("TLS handshake failed", "client", c.RemoteAddr(), "error", err)
	var other tls.RecordHeaderError
	// of HTTP's methods
	if errors.As(err, &other) && other.Conn != nil && bytes.ContainsAny(other.RecordHeader[:1], "GHPDOC") {
		_, _ = other.Conn.Write(c.listener.refuse([]byte(notEncrypted))) // fails only if the client has gone
	}
}

// notEncrypted is an answer of the form that net/http makes for a request that it can't read.
const notEncrypted = "HTTP/1.1 400 Bad Request: this is an HTTPS port; use https://" + web.UnreadHeaders

// Write writes an answer, or a part of one. It replaces the answers that net/http makes itself.
func (c *limitedConn) Write(answer []byte) (int, error) {
	if c.failed.Load() {
		return 0, net.ErrClosed
	}
	c.writes.begin(c.accepted)
	defer c.writes.end()
	better := c.listener.refuse(answer)
	if better == nil {
		return c.Conn.Write(answer)
	}
	if _, err := c.Conn.Write(better); err != nil {
		return 0, err
	}
	return len(answer), nil
}

// SetReadDeadline sets the deadline of reads: see deadline.
func (c *limitedConn) SetReadDeadline(at time.Time) error { return c.reads.move(c.accepted, at) }

// SetWriteDeadline sets the deadline of writes: see deadline.
func (c *limitedConn) SetWriteDeadline(at time.Time) error { return c.writes.move(c.accepted, at) }

// SetDeadline sets both deadlines at once. net/http removes them by it when a handler takes over the connection.
func (c *limitedConn) SetDeadline(at time.Time) error {
	return errors.Join(c.reads.moveNow(c.accepted, at), c.writes.moveNow(c.accepted, at))
}

// connContext is for http.Server. Whoever can connect to a Unix socket is the administrator.
func connContext(ctx context.Context, conn net.Conn) context.Context {
	if conn.LocalAddr().Network() == "unix" {
		ctx = access.With(ctx, access.Local())
	}
	if c, ok := conn.(*limitedConn); ok {
		ctx = withLengths(ctx, &c.lengths)
		if _, plain := c.accepted.(syscall.Conn); plain {
			ctx = web.WithDetacher(ctx, c)
		}
		if c.place != nil {
			return places.With(ctx, c.place)
		}
		return web.WithReserved(ctx)
	}
	return ctx
}
