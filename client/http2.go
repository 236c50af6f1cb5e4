package client

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
)

// errHTTP2 is the error of a server that speaks HTTP/2 without TLS.
var errHTTP2 = errors.New("it speaks HTTP/2 only, as a port for gRPC does: is it the port for HTTP?")

// dialer makes connections.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// http1 returns a dialer whose connections fail with errHTTP2 if the server speaks HTTP/2 first. net/http's own error
// contains the server's bytes.
func (d dialer) http1(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &http1Conn{Conn: conn}, nil
}

// http1Conn is a connection on which the server's first bytes are checked.
type http1Conn struct {
	net.Conn

	checked bool        // used by the goroutine that reads
	http2   atomic.Bool // the server speaks HTTP/2
}

// Read implements net.Conn.
func (c *http1Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.checked && n > 0 {
		c.checked = true
		if beginsHTTP2(p[:n]) {
			c.http2.Store(true)
			return 0, errHTTP2
		}
	}
	return n, err
}

// Write implements net.Conn. After the first Read has failed, net/http closes the connection, perhaps during a Write.
func (c *http1Conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil && c.http2.Load() {
		err = errHTTP2
	}
	return n, err
}

// beginsHTTP2 reports whether the first bytes of a server are the header of a SETTINGS frame, with which HTTP/2 begins
// (RFC 9113, 3.4): its length, a multiple of 6, the type 4, no flags, and stream 0.
func beginsHTTP2(b []byte) bool {
	const header, settings = 9, 4
	return len(b) >= header && b[0] == 0 && binary.BigEndian.Uint16(b[1:])%6 == 0 && b[3] == settings && b[4] == 0 &&
		binary.BigEndian.Uint32(b[5:]) == 0
}
