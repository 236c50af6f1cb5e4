package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/load"
)

const (
	floodConnections = 8
	floodBatch       = 100 // streams or frames
	stalledBodies    = 150
)

// waitingFetch is the path of a fetch that waits.
const waitingFetch = "/v1/channels/chaos-0/subscribers/s0/messages?wait=20s"

// rapidReset opens and resets streams.
func rapidReset(s *stage) {
	s.flood("streams were opened and reset", func(c *load.Flood, _ int) error {
		return c.Resets(waitingFetch, floodBatch)
	})
}

// floodFrames sends frames that need no stream, or headers without an end.
func floodFrames(s *stage) {
	s.flood("frames were sent", func(c *load.Flood, number int) error {
		switch number % 3 {
		case 0:
			return c.Pings(floodBatch)
		case 1:
			return c.Settings(floodBatch)
		default:
			return c.Continuations(waitingFetch, floodBatch)
		}
	})
}

// floodHeaders sends requests whose headers expand when they are decoded. Those of every other connection aren't larger
// than the headers of others.
func floodHeaders(s *stage) {
	s.flood("requests were sent", func(c *load.Flood, number int) error {
		return c.Bombs("/v1/info", floodBatch, []int{15 << 10, 800}[number%2])
	})
}

// flood sends batches on several connections. If the service closes a connection, it opens another one.
func (s *stage) flood(what string, send func(c *load.Flood, number int) error) {
	var batches, connections atomic.Int64
	s.attack(floodConnections, attackTime, func(ctx context.Context, number int) error {
		for ctx.Err() == nil {
			if c, err := load.DialFlood(ctx, s.services[0].HTTP, true); err == nil {
				connections.Add(1)
				batches.Add(floodOne(ctx, c, func() error { return send(c, number) }))
			}
			pace.Sleep(ctx, checkEvery) // the loop checks ctx
		}
		return nil
	})
	s.note("%d %s on %d connections", batches.Load()*floodBatch, what, connections.Load())
}

// floodOne sends batches on one connection until it breaks or ctx ends, and returns their number.
func floodOne(ctx context.Context, c *load.Flood, send func() error) (batches int64) {
	defer c.Close()
	defer context.AfterFunc(ctx, c.Close)()
	for ctx.Err() == nil && !isClosed(c.Ended()) && send() == nil {
		batches++
	}
	return batches
}

// stallBodies sends all but the last byte of a body on each connection.
func stallBodies(s *stage) {
	var answered atomic.Int64
	s.attack(stalledBodies, attackTime, func(ctx context.Context, number int) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.services[0].HTTP)
		if err != nil {
			return nil //nolint:nilerr // the service may refuse connections
		}
		defer conn.Close() //nolint:errcheck // nothing is left to be written
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		size := []int{miB, 8 * miB}[number%2]
		err = writeMost(conn, size)
		if n, _ := conn.Read(make([]byte, 1)); (n > 0 || err != nil) && ctx.Err() == nil {
			answered.Add(1)
		}
		<-ctx.Done()
		return nil
	})
	s.noteMemory("the service refused %d of %d publishes, used", answered.Load(), stalledBodies)
}

// writeMost writes a publish short of the last byte of its body.
func writeMost(conn net.Conn, size int) error {
	head := fmt.Sprintf("POST /v1/channels/stalled/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n",
		size)
	if _, err := io.WriteString(conn, head); err != nil {
		return err
	}
	chunk := bytes.Repeat([]byte{' '}, 64<<10)
	for remaining := size - 1; remaining > 0; {
		n, err := conn.Write(chunk[:min(len(chunk), remaining)])
		if err != nil {
			return err
		}
		remaining -= n
	}
	return nil
}
