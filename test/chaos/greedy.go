package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

const (
	greedySources = 256
	greedyBytes   = 60_000 // of a message, which one script would read
	greedyLoops   = 30
	greedySockets = 300
	greedyFrames  = 160 // sockets with an unfinished frame
)

// fetchFromMany fetches from many channels in loops. Nothing is acknowledged.
func fetchFromMany(s *stage) {
	from := make([]map[string]string, greedySources)
	for i := range from {
		channel := fmt.Sprint("greedy-", i)
		s.prepareChannel(channel, 1, 1, greedyBytes)
		from[i] = map[string]string{"channel": channel, "subscriber": "r0"}
	}
	body, err := json.Marshal(map[string]any{"from": from})
	s.Must(err)
	var bytes, answered, refused atomic.Int64
	s.attack(greedyLoops, attackTime, func(ctx context.Context, _ int) error {
		for ctx.Err() == nil {
			a, err := s.send(ctx, s.public(http.MethodPost, "/v1/fetch", string(body)))
			if err != nil {
				refused.Add(1)
				pace.Sleep(ctx, checkEvery) // the loop checks ctx
				continue
			}
			answered.Add(1)
			bytes.Add(a.size)
		}
		return nil
	})
	s.note("%d fetches returned %d MiB, %d were refused or broke", answered.Load(), bytes.Load()/miB, refused.Load())
}

// handshake is that of a WebSocket.
const handshake = "GET /v1/socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: " +
	wire.SocketProtocol + "\r\n\r\n"

// openSocket opens a WebSocket of the attacker, which is closed when ctx ends. It reports whether the service has
// accepted it.
func (s *stage) openSocket(ctx context.Context) (opened net.Conn, ok bool) {
	conn, err := dialHostile(ctx, s.services[0].HTTP)
	if err != nil {
		return nil, false
	}
	var head [len("HTTP/1.1 101")]byte
	if _, err = io.WriteString(conn, handshake); err == nil {
		_, err = io.ReadFull(conn, head[:])
	}
	if err != nil || !strings.HasSuffix(string(head[:]), " 101") {
		_ = conn.Close() // it was refused
		return nil, false
	}
	return conn, true
}

// leaveFramesUnfinished sends a part of a large frame on each socket, and opens another one for each that ends.
func leaveFramesUnfinished(s *stage) {
	const announced = 1_000_000
	frame := append([]byte("\x81\xff\x00\x00\x00\x00\x00\x0f\x42\x40\x00\x00\x00\x00"), make([]byte, announced*3/5)...)
	var sent atomic.Int64
	ended := s.attackSockets(greedyFrames, func(number int, conn net.Conn) {
		// after large parts the remaining memory is taken by small ones
		if _, err := conn.Write(frame[:len(frame)>>(number%2*(number%5)*2)]); err == nil {
			sent.Add(1)
		}
		_, _ = io.Copy(io.Discard, conn) // until the service ends it
	})
	s.noteMemory("%d unfinished frames were sent, %d sockets ended; the service used", sent.Load(), ended)
}

// attackSockets opens one WebSocket after the other in each of some loops. use returns when its socket is broken.
// attackSockets returns how many were opened.
func (s *stage) attackSockets(loops int, use func(loop int, conn net.Conn)) (sockets int64) {
	var opened atomic.Int64
	s.attack(loops, attackTime, func(ctx context.Context, loop int) error {
		for pace.Sleep(ctx, checkEvery) {
			if conn, ok := s.openSocket(ctx); ok {
				opened.Add(1)
				use(loop, conn)
				_ = conn.Close() // it is broken
			}
		}
		return nil
	})
	return opened.Load()
}

// openSockets opens sockets, and keeps them open. All that the service accepts are open at the same time.
func openSockets(s *stage) {
	var opened, refused atomic.Int64
	s.attack(greedySockets, attackTime, func(ctx context.Context, _ int) error {
		for pace.Sleep(ctx, checkEvery) {
			if _, ok := s.openSocket(ctx); ok {
				opened.Add(1)
				<-ctx.Done()
				return nil
			}
			refused.Add(1)
			pace.Sleep(ctx, retryPause) // the loop checks ctx
		}
		return nil
	})
	s.note("%d WebSockets were open at the same time, %d were refused", opened.Load(), refused.Load())
}

// floodCondemned sends a frame that ends a socket, and then as much as the service reads.
func floodCondemned(s *stage) {
	chunk := append([]byte("\x82\xff\x00\x00\x00\x00\x00\x00\xff\xf2\x00\x00\x00\x00"), make([]byte, 0xfff2)...)
	sockets, bytes := s.floodSockets([]byte("\x81\x82\x00\x00\x00\x00}}"), chunk)
	s.note("%d MB were sent on %d sockets", bytes/1_000_000, sockets)
}

// floodFragments sends fragments without content and pings.
func floodFragments(s *stage) {
	pair := "\x00\x80\x00\x00\x00\x00" + "\x89\x80\x00\x00\x00\x00"
	chunk := []byte(strings.Repeat(pair, 1000))
	sockets, bytes := s.floodSockets([]byte("\x01\x81\x00\x00\x00\x00{"), chunk)
	s.note("%d frames were sent on %d sockets", 2*bytes/int64(len(pair)), sockets)
}

// floodSockets opens sockets, and sends first and then chunks on each until it is closed. It returns how many were
// opened, and how many bytes were sent.
func (s *stage) floodSockets(first, chunk []byte) (sockets, bytes int64) {
	var sent atomic.Int64
	sockets = s.attackSockets(floodConnections, func(_ int, conn net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, conn) }() // ends with the connection
		for data := first; ; data = chunk {
			n, err := conn.Write(data)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	return sockets, sent.Load()
}
