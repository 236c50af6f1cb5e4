package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

const connections = 32

// maker makes the n-th request of a load, ready to be sent.
type maker func(n int) []byte

// httpRequest is a request as it goes over the wire.
func httpRequest(method, path, body string) []byte {
	if body == "" && method == http.MethodGet {
		return []byte(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
}

// load sends n requests over 32 connections, each waiting for its answer before it sends the next, and gives the
// last answer. An answer with a status from 400 up is an error.
func load(ctx context.Context, address string, n int, next maker) (answer, error) {
	var sent atomic.Int64
	var last atomic.Pointer[answer]
	group, ctx := errgroup.WithContext(ctx)
	for range connections {
		group.Go(func() error {
			c, err := dial(ctx, address)
			if err != nil {
				return err
			}
			defer c.close()
			for i := int(sent.Add(1)); i <= n; i = int(sent.Add(1)) {
				a, err := c.do(next(i))
				if err != nil {
					return err
				}
				last.Store(&a)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return answer{}, fmt.Errorf("load on %s: %w", address, err)
	}
	return *last.Load(), nil
}

// answer is what came back.
type answer struct {
	status int
	body   []byte
}

// connection is one keep-alive connection, used by one goroutine.
type connection struct {
	conn   net.Conn
	reader *bufio.Reader
	stop   func() bool
}

func dial(ctx context.Context, address string) (*connection, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &connection{conn: conn, reader: bufio.NewReader(conn), stop: stop}, nil
}

func (c *connection) close() {
	c.stop()
	_ = c.conn.Close() // nothing is left to be written
}

func (c *connection) do(request []byte) (answer, error) {
	if _, err := c.conn.Write(request); err != nil {
		return answer{}, err
	}
	return c.read()
}

func (c *connection) read() (answer, error) {
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("answered %d: %s", response.StatusCode, body)
	}
	return answer{status: response.StatusCode, body: body}, err
}

// await reads one answer that comes in one piece, and checks that it has a text in it. It costs little, so that
// thousands of clients don't take the cores from the server that they measure.
func (c *connection) await(text string) error {
	var answer [2048]byte
	n, err := c.conn.Read(answer[:])
	if err == nil && !bytes.Contains(answer[:n], []byte(text)) {
		err = fmt.Errorf("a waiting subscriber was answered %q", answer[:n])
	}
	return err
}

// once sends one request on a connection of its own.
func once(ctx context.Context, address string, request []byte) (answer, error) {
	c, err := dial(ctx, address)
	if err != nil {
		return answer{}, err
	}
	defer c.close()
	return c.do(request)
}
