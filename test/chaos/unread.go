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

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/load"
)

const (
	unreadMemory  = 400 * miB
	unreadStreams = 250
	unreadClients = 300
	unreadSecond  = 85 // fetches in a second
	unreadTickets = 600 << 10
	unreadBatch   = 10 // calls at once on each connection: Redis needs some ms for each large ticket

	unreadValues   = 100
	unreadSessions = 1000
	makers         = 8 // requests in progress while a scenario is prepared
)

// unread are scenarios in which a client doesn't read large answers.
func unread() []scenario {
	within := limits{Gap: 2 * time.Second, Light: 300 * time.Millisecond, NoErrors: true, Memory: unreadMemory}
	return []scenario{
		{
			name: "unread-fetches", fault: "85 fetches of 4 MiB a second for 8 s, none of which is read",
			limits: within, inject: leaveFetches,
		},
		{
			name: "unread-streams", fault: "250 fetches of 4 MiB on an HTTP/2 connection with a window of 0",
			limits: within, inject: leaveStreams,
		},
		{
			name: "unread-values", fault: "300 requests for 100 cached values of 1 MiB, none of which is read",
			limits: within, inject: leaveValues,
		},
		{
			name: "unread-sessions", fault: "300 lists of 1,000 sessions, none of which is read",
			limits: within, inject: leaveSessions,
		},
		{
			name: "unread-tickets", flags: []string{"--grpc-message-bytes", "1MiB"},
			fault:  "2 gRPC connections with a window of 0 and 250 GetTicket each, of a ticket of 600 KiB",
			limits: within, inject: leaveTickets,
		},
	}
}

// hostileDialer connects from an address of its own: a client's share of the service is that of its address.
func hostileDialer() *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
}

// leave sends a request, reads the status of its answer, and nothing else until ctx ends.
func (s *stage) leave(ctx context.Context, request []byte) (status string) {
	conn, err := hostileDialer().DialContext(ctx, "tcp", s.services[0].HTTP)
	if err != nil {
		return "no connection"
	}
	defer conn.Close() //nolint:errcheck // nothing is left to be written
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
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

// leaveAll sends requests, some at once and the others one after the other with a pause, and leaves the answers unread.
func (s *stage) leaveAll(requests, atOnce int, pause time.Duration, request []byte) {
	var served, refused atomic.Int64
	s.attack(requests, attackTime, func(ctx context.Context, number int) error {
		if !pace.Sleep(ctx, time.Duration(max(0, number-atOnce))*pause) {
			return nil
		}
		if s.leave(ctx, request) == "200" {
			served.Add(1)
		} else {
			refused.Add(1)
		}
		return nil
	})
	s.noteUnread(fmt.Sprintf("%d of %d requests were answered with 200", served.Load(), served.Load()+refused.Load()))
}

// noteUnread records the memory of a service under the attack, and after it.
func (s *stage) noteUnread(what string) {
	now := s.resident()
	s.pause(5 * time.Second)
	s.note("%s; the service used %d MB of memory, and %d MB 5 s later", what, now/miB, s.resident()/miB)
}

// largeChannel makes a channel with a fetch of 4 MiB, and returns the path of the fetch.
func (s *stage) largeChannel() string {
	const channel = "/v1/channels/large"
	url := "http://" + s.services[0].HTTP + channel
	s.Must(s.expect(http.MethodPut, url+"/subscribers/r", `{"from":"earliest"}`))
	content := `"` + strings.Repeat("x", largeBytes) + `"`
	for m := range largeMessages {
		s.Must(s.expect(http.MethodPut, fmt.Sprint(url, "/messages/m", m), content))
	}
	return channel + "/subscribers/r/messages"
}

func leaveFetches(s *stage) {
	request := load.Request(http.MethodGet, s.largeChannel(), "")
	s.leaveAll(unreadSecond*int(attackTime/time.Second), 0, time.Second/unreadSecond, request)
}

func leaveStreams(s *stage) {
	path := s.largeChannel()
	s.leaveFlood(1, s.services[0].HTTP, func(_ context.Context, c *load.Flood) error {
		return c.Gets(path, unreadStreams)
	})
}

// leaveFlood opens connections with a window of 0, sends requests on them, and leaves the answers unread.
func (s *stage) leaveFlood(connections int, address string, send func(ctx context.Context, c *load.Flood) error) {
	s.attack(connections, attackTime, func(ctx context.Context, _ int) error {
		conn, err := hostileDialer().DialContext(ctx, "tcp", address)
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
	s.noteUnread(fmt.Sprintf("%d streams were open on each connection", unreadStreams))
}

// make sends requests before an attack, several at a time. request returns the path and the body of the n-th.
func (s *stage) make(method string, n int, request func(n int) (path, body string)) {
	var making errgroup.Group
	making.SetLimit(makers)
	for i := range n {
		making.Go(func() error {
			path, body := request(i)
			return s.expect(method, "http://"+s.services[0].HTTP+path, body)
		})
	}
	s.Must(making.Wait())
}

func leaveValues(s *stage) {
	value := `{"id":1,"bio":"` + strings.Repeat("x", miB-100) + `"}`
	s.make(http.MethodPut, unreadValues, func(n int) (path, body string) {
		return fmt.Sprint("/v1/cache/author/", n), value
	})
	ids := make([]string, unreadValues)
	for n := range ids {
		ids[n] = fmt.Sprint(n)
	}
	body, err := json.Marshal(map[string][]string{"ids": ids})
	s.Must(err)
	s.leaveAll(unreadClients, unreadClients, 0, load.Request(http.MethodPost, "/v1/cache/author/get", string(body)))
}

func leaveSessions(s *stage) {
	const path = "/v1/users/large/sessions"
	body := `{"username":"large","deviceInfo":{"agent":"` + strings.Repeat("x", 2000) + `"}}`
	s.make(http.MethodPost, unreadSessions, func(int) (string, string) { return path, body })
	s.leaveAll(unreadClients, unreadClients, 0, load.Request(http.MethodGet, path, ""))
}

func leaveTickets(s *stage) {
	// of its own, where nobody else is matched with it
	s.Must(s.expect(http.MethodPut, "http://"+s.services[0].Admin+"/v1/queues/unread", `{}`))
	ticket := map[string]any{"queue": "unread", "searchFields": map[string]any{
		"tags": []string{string(bytes.Repeat([]byte("x"), unreadTickets))}}}
	body, err := json.Marshal(ticket)
	s.Must(err)
	response, err := s.request(s.Context(), http.MethodPost, "http://"+s.services[0].HTTP+"/v1/tickets", string(body))
	s.Must(err)
	var made struct{ ID string }
	s.Must(json.NewDecoder(response.Body).Decode(&made))
	s.Must(response.Body.Close())
	message, err := proto.Marshal(&openmatch.GetTicketRequest{TicketId: made.ID})
	s.Must(err)
	s.leaveFlood(2, s.services[0].GRPC, func(ctx context.Context, c *load.Flood) error {
		for sent := 0; sent < unreadStreams && pace.Sleep(ctx, lookEvery); sent += unreadBatch {
			if err := c.Calls(openmatch.FrontendService_GetTicket_FullMethodName, message, unreadBatch); err != nil {
				return err
			}
		}
		return nil
	})
}
