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
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/load"
)

const (
	unreadStreams = 250
	unreadClients = 300
	unreadSecond  = 85 // fetches in a second
	unreadTickets = 600 << 10
	unreadBatch   = 10 // calls at once on each connection: Redis needs some ms for each large ticket

	unreadValues = 100
)

// leave sends a request, reads the status of its answer, and nothing else until ctx ends.
func (s *stage) leave(ctx context.Context, request []byte) (status string) {
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
	s.noteMemory("%d of %d requests were answered with 200; the service used", served.Load(),
		served.Load()+refused.Load())
}

// largeChannel makes a channel with a fetch of 4 MiB, and returns the path of the fetch.
func (s *stage) largeChannel() string {
	s.prepareChannel("large", 1, largeMessages, largeBytes)
	return "/v1/channels/large/subscribers/r0/messages"
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

func leaveValues(s *stage) {
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
	s.leaveAll(unreadClients, unreadClients, 0, load.Request(http.MethodPost, "/v1/cache/author/get", string(body)))
}

func leaveSessions(s *stage) {
	path := s.prepareSessions()
	s.leaveAll(unreadClients, unreadClients, 0, load.Request(http.MethodGet, path, ""))
}

func leaveTickets(s *stage) {
	const id = "large"
	// of its own, where nobody else is matched with it
	s.prepareOne(s.admin(http.MethodPut, "/v1/queues/unread", `{}`))
	s.prepareOne(s.public(http.MethodPost, "/v1/tickets", fmt.Sprintf(
		`{"id":%q,"queue":"unread","searchFields":{"tags":[%s]}}`, id, contentOf(unreadTickets))))
	message, err := proto.Marshal(&openmatch.GetTicketRequest{TicketId: id})
	s.Must(err)
	s.leaveFlood(2, s.services[0].GRPC, func(ctx context.Context, c *load.Flood) error {
		for sent := 0; sent < unreadStreams && pace.Sleep(ctx, checkEvery); sent += unreadBatch {
			if err := c.Calls(openmatch.FrontendService_GetTicket_FullMethodName, message, unreadBatch); err != nil {
				return err
			}
		}
		return nil
	})
}
