package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/load"
)

const (
	floodConnections = 8
	floodBatch       = 100 // streams or frames
	stalledBodies    = 150

	greedySockets = 300
	greedyFrames  = 160 // sockets with an unfinished frame

	unreadStreams = 250
	unreadClients = 300
	unreadSecond  = 85 // fetches in a second
	unreadTickets = 600 << 10
	unreadBatch   = 10 // calls at once on each connection: Redis needs some ms for each large ticket
	unreadValues  = 100

	adminClients = 100 // more than the connections of an admin listener
	probesApart  = 200 * time.Millisecond
	revokesApart = 100 * time.Millisecond
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
	s.attackAgain(floodConnections, func(ctx context.Context, number int) {
		c, err := load.DialFlood(ctx, s.services[0].HTTP, true)
		if err != nil {
			return
		}
		defer c.Close()
		defer context.AfterFunc(ctx, c.Close)()
		connections.Add(1)
		for ctx.Err() == nil && !closed(c.Ended()) && send(c, number) == nil {
			batches.Add(1)
		}
	})
	s.note("%d %s on %d connections", batches.Load()*floodBatch, what, connections.Load())
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

// sendUnfinishedFrames sends a part of a large frame on each socket, and opens another one for each that ends.
func sendUnfinishedFrames(s *stage) {
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
	s.attackAgain(loops, func(ctx context.Context, loop int) {
		if conn, ok := s.openSocket(ctx); ok {
			opened.Add(1)
			use(loop, conn)
			_ = conn.Close() // it is broken
		}
	})
	return opened.Load()
}

// openSockets opens sockets, and keeps them open. All that the service accepts are open at the same time.
func openSockets(s *stage) {
	var opened, refused atomic.Int64
	s.attackAgain(greedySockets, func(ctx context.Context, _ int) {
		if _, ok := s.openSocket(ctx); ok {
			opened.Add(1)
			<-ctx.Done()
			return
		}
		refused.Add(1)
		pace.Sleep(ctx, retryPause) // the loop checks ctx
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

// ignoreAnswer sends a request, reads the status of its answer, and nothing else until ctx ends.
func (s *stage) ignoreAnswer(ctx context.Context, request []byte) (status string) {
	conn, err := dialHostile(ctx, s.services[0].HTTP)
	if err != nil {
		return "no connection"
	}
	defer conn.Close() //nolint:errcheck // nothing is left to be written
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10) // a larger one would only keep some answers from being unread
	}
	if _, err := conn.Write(request); err != nil {
		return "no connection"
	}
	var line [len("HTTP/1.1 200")]byte
	if _, err := io.ReadFull(conn, line[:]); err != nil {
		return "no answer"
	}
	<-ctx.Done()
	return string(line[len("HTTP/1.1 "):])
}

// ignoreAnswers sends requests, some at once and the others one after the other with a pause, and leaves the answers unread.
func (s *stage) ignoreAnswers(requests, atOnce int, pause time.Duration, request []byte) {
	var served, refused atomic.Int64
	s.attack(requests, attackTime, func(ctx context.Context, number int) error {
		if !pace.Sleep(ctx, time.Duration(max(0, number-atOnce))*pause) {
			return nil
		}
		if s.ignoreAnswer(ctx, request) == "200" {
			served.Add(1)
		} else {
			refused.Add(1)
		}
		return nil
	})
	s.noteMemory("%d of %d requests were answered with 200; the service used", served.Load(),
		served.Load()+refused.Load())
}

// largeChannel makes a channel with a fetch of 4 MiB, and returns the path of the fetch.
func (s *stage) largeChannel() string {
	s.prepareChannel("large", 1, largeMessages, largeBytes)
	return "/v1/channels/large/subscribers/r0/messages"
}

func ignoreFetches(s *stage) {
	request := load.Request(http.MethodGet, s.largeChannel(), "")
	s.ignoreAnswers(unreadSecond*int(attackTime/time.Second), 0, time.Second/unreadSecond, request)
}

func ignoreLargeStreams(s *stage) {
	path := s.largeChannel()
	s.ignoreStreams(1, s.services[0].HTTP, func(_ context.Context, c *load.Flood) error {
		return c.Gets(path, unreadStreams)
	})
}

// ignoreStreams opens connections with a window of 0, sends requests on them, and leaves the answers unread.
func (s *stage) ignoreStreams(connections int, address string, send func(ctx context.Context, c *load.Flood) error) {
	s.attack(connections, attackTime, func(ctx context.Context, _ int) error {
		conn, err := dialHostile(ctx, address)
		if err != nil {
			return err
		}
		c, err := load.NewFlood(conn, true)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.CloseWindow(); err != nil {
			return err
		}
		if err := send(ctx, c); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	s.noteMemory("%d streams were open on each connection; the service used", unreadStreams)
}

func ignoreValues(s *stage) {
	value := `{"id":1,"bio":"` + strings.Repeat("x", miB-100) + `"}`
	s.prepare(unreadValues, func(n int) request {
		return s.public(http.MethodPut, fmt.Sprint("/v1/cache/author/", n), value)
	})
	ids := make([]string, unreadValues)
	for n := range ids {
		ids[n] = fmt.Sprint(n)
	}
	body, err := json.Marshal(map[string][]string{"ids": ids})
	s.Must(err)
	s.ignoreAnswers(unreadClients, unreadClients, 0, load.Request(http.MethodPost, "/v1/cache/author/get", string(body)))
}

func ignoreSessions(s *stage) {
	path := s.prepareSessions()
	s.ignoreAnswers(unreadClients, unreadClients, 0, load.Request(http.MethodGet, path, ""))
}

func ignoreTickets(s *stage) {
	const id = "large"
	// of its own, where nobody else is matched with it
	s.prepareOne(s.admin(http.MethodPut, "/v1/queues/unread", `{}`))
	s.prepareOne(s.public(http.MethodPost, "/v1/tickets", fmt.Sprintf(
		`{"id":%q,"queue":"unread","searchFields":{"tags":[%s]}}`, id, contentOf(unreadTickets))))
	message, err := proto.Marshal(&openmatch.GetTicketRequest{TicketId: id})
	s.Must(err)
	s.ignoreStreams(2, s.services[0].GRPC, func(ctx context.Context, c *load.Flood) error {
		for sent := 0; sent < unreadStreams && pace.Sleep(ctx, checkEvery); sent += unreadBatch {
			if err := c.Calls(openmatch.FrontendService_GetTicket_FullMethodName, message, unreadBatch); err != nil {
				return err
			}
		}
		return nil
	})
}

// holdAdmin keeps connections of the admin listener open, while credentials are revoked through others.
func holdAdmin(s *stage) {
	var probes, ended, revoked atomic.Int64
	s.attackAgain(adminClients+1, func(ctx context.Context, number int) {
		if number == adminClients {
			s.revoke(ctx, &revoked)
			return
		}
		probes.Add(hold(ctx, s.services[0].Admin, number%2 == 0))
		ended.Add(1)
	})
	s.note("%d probes were answered, %d connections were closed, %d revocations succeeded", probes.Load(), ended.Load(),
		revoked.Load())
	if revoked.Load() == 0 {
		s.complain("no revocation succeeded")
	}
}

// hold keeps a connection open until the service closes it or ctx ends. It sends probes, or nothing, and returns how
// many were answered.
func hold(ctx context.Context, address string, silent bool) (answered int64) {
	conn, err := dialHostile(ctx, address)
	if err != nil {
		return 0
	}
	defer conn.Close() //nolint:errcheck // nothing is left to be written
	buffer := make([]byte, 4<<10)
	for ctx.Err() == nil {
		if !silent {
			if _, err := conn.Write([]byte("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
				return answered
			}
		}
		if _, err := conn.Read(buffer); err != nil {
			return answered
		}
		answered++
		pace.Sleep(ctx, probesApart)
	}
	return answered
}

// revoke revokes a credential again and again, each time on a new connection, until ctx ends. All must succeed.
func (s *stage) revoke(ctx context.Context, revoked *atomic.Int64) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: tryLimit}
	for pace.Sleep(ctx, revokesApart) {
		r := s.admin(http.MethodPost, "/v1/revocations", `{"subject":"mallory"}`)
		if _, err := sendBy(s.Context(), &client, r); err != nil {
			s.complain("a revocation failed: %v", err)
			<-ctx.Done()
			return
		}
		revoked.Add(1)
	}
}
