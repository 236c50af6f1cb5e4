package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Connections is the number of connections that Repeat uses.
const Connections = 32

// Maker makes the n-th request of a load, ready to be sent.
type Maker func(n int) []byte

// Request returns the bytes of a request. A header is a line with its end, such as "Accept: text/plain\r\n".
func Request(method, path, body string, headers ...string) []byte {
	length := ""
	if body != "" || method != http.MethodGet {
		length = fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n%s", method, path, strings.Join(headers, ""),
		length, body)
}

// Repeat sends n requests over 32 connections, each waiting for its answer before it sends the next, and returns the
// last answer. An Answer with a status from 400 up is an error.
func Repeat(ctx context.Context, address string, n int, next Maker) (Answer, error) {
	var sent atomic.Int64
	var last atomic.Pointer[Answer]
	group, ctx := errgroup.WithContext(ctx)
	for range Connections {
		group.Go(func() error {
			c, err := Dial(ctx, address)
			if err != nil {
				return err
			}
			defer c.Close()
			for i := int(sent.Add(1)); i <= n; i = int(sent.Add(1)) {
				a, err := c.Do(next(i))
				if err != nil {
					return err
				}
				last.Store(&a)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Answer{}, fmt.Errorf("load on %s: %w", address, err)
	}
	return *last.Load(), nil
}

// Answer is the answer to a request.
type Answer struct {
	Status int
	Body   []byte
}

// Conn is one keep-alive connection, used by one goroutine.
type Conn struct {
	conn   net.Conn
	reader *bufio.Reader
	stop   func() bool
}

// Dial opens a connection, which ctx closes when it ends.
func Dial(ctx context.Context, address string) (*Conn, error) { return DialFrom(ctx, "", address) }

// DialFrom is Dial from an IP address of this machine; "": any.
func DialFrom(ctx context.Context, ip, address string) (*Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &Conn{conn: conn, reader: bufio.NewReader(conn), stop: stop}, nil
}

// Close closes the connection.
func (c *Conn) Close() {
	c.stop()
	_ = c.conn.Close() // nothing is left to be written
}

// Do sends a request and returns its answer. A status from 400 up is an error.
func (c *Conn) Do(request []byte) (Answer, error) {
	var body bytes.Buffer
	status, err := c.Copy(request, &body)
	if err == nil && status >= http.StatusBadRequest {
		err = fmt.Errorf("answered %d: %s", status, body.Bytes())
	}
	return Answer{Status: status, Body: body.Bytes()}, err
}

// Copy sends a request, copies the body of its answer, and returns its status.
func (c *Conn) Copy(request []byte, to io.Writer) (status int, err error) {
	if _, err := c.conn.Write(request); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	_, err = io.Copy(to, response.Body)
	return response.StatusCode, err
}

// Once sends one request on a connection of its own.
func Once(ctx context.Context, address string, request []byte) (Answer, error) {
	c, err := Dial(ctx, address)
	if err != nil {
		return Answer{}, err
	}
	defer c.Close()
	return c.Do(request)
}
