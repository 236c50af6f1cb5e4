package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// direct calls the handler without a connection, because a draining server accepts none.
func direct(h *servertest.Harness, method, path string) servertest.Answer {
	h.TB.Helper()
	recorder := httptest.NewRecorder()
	h.Server.Handler().ServeHTTP(recorder, httptest.NewRequestWithContext(h.TB.Context(), method,
		"http://localhost"+path, nil))
	got := servertest.Answer{TB: h.TB, Status: recorder.Code, Header: recorder.Header(), Body: recorder.Body.Bytes()}
	servertest.CheckContract(h.TB, method, path, got)
	return got
}

func awaitDraining(h *servertest.Harness) {
	h.TB.Helper()
	h.Logs.Await(h.TB, func(r servertest.Record) bool { return r.Message == "draining" })
}

// TestDrainWithUnfinishedBodies: clients that send a part of a small body, or of one that isn't read, don't keep the
// server from ending in time.
func TestDrainWithUnfinishedBodies(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	for _, begin := range []string{
		"POST /v1/channels/c/messages HTTP/1.1\r\nContent-Length: 30\r\n",
		"POST /v1/channels/c/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n",
		"GET /v1/info HTTP/1.1\r\nContent-Length: 30\r\n",
		"POST /unknown HTTP/1.1\r\nContent-Length: 30\r\n",
	} {
		h.Connect(begin + "Host: localhost\r\n\r\n1\r\n")
	}
	require.Eventually(t, func() bool { return server.Connections(h.Server) >= 4 }, servertest.Patience, servertest.Step)
	h.Stop()
	require.NoError(t, <-h.Stopped)
}

// TestDrain ends the context of Run while polls wait and a publish is in progress: all are answered, and Run returns.
func TestDrain(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	polls := h.Waiting(t.Context(), 3, "GET "+servertest.At+"/messages?wait=1m")
	entered, release := make(chan struct{}), make(chan struct{})
	h.Store.Intercept(func(_ context.Context, call string) error {
		if call == "Publish" {
			close(entered)
			<-release
		}
		return nil
	})
	published := make(chan servertest.Answer, 1)
	go func() {
		got, err := h.Try(t.Context(), "PUT", "/v1/channels/d/messages/a", strings.NewReader("1"))
		if err != nil {
			got = servertest.Answer{TB: t, Body: []byte(err.Error())}
		}
		published <- got
	}()
	<-entered
	h.Stop()
	for range 3 {
		got := <-polls
		got.Expect(200, `{"messages":[],"more":false,"expired":0}`)
	}
	got := direct(h, "GET", "/readyz")
	got.Problem(503, fault.SlugDraining)
	require.Equal(t, "1", got.Header.Get("Retry-After"))
	direct(h, "GET", "/probe/readiness").OldError(503, "")
	direct(h, "GET", "/livez").Expect(200, `{"status":"ok"}`+"\n")

	close(release)
	got = <-published
	got.Expect(201, `{"channel":"d","id":"a","clock":1,"duplicate":false}`)
	require.NoError(t, <-h.Stopped)
	_, err := h.Try(t.Context(), "GET", "/livez", nil)
	require.ErrorContains(t, err, "refused")
}

// TestDrainByAnOperator: all that waits ends once, requests are served and connections closed, until the server is
// resumed. It can stop meanwhile.
func TestDrainByAnOperator(t *testing.T) {
	t.Parallel()
	var reported []bool
	h := servertest.Start(t, servertest.WithQueues(), func(s *servertest.Setup) {
		s.OnDrain = func(drains bool) { reported = append(reported, drains) }
	})
	admin := h.OnAdmin()
	h.Subscribe("c", "s")
	polls := h.Waiting(t.Context(), 3, "GET "+servertest.At+"/messages?wait=1m")
	events, socket := openEvents(t, h, streamOfS), h.Dial()
	for range 2 {
		admin.Do("POST", "/v1/drain", "").Expect(200, `{"draining":true}`)
	}
	for range 3 {
		got := <-polls
		got.Expect(200, servertest.Nothing)
	}
	events.ends("drain")
	socket.Ends("drain", websocket.StatusGoingAway)
	h.Do("GET", "/readyz", "").Problem(503, fault.SlugDraining)
	h.Do("GET", "/livez", "").Expect(200, `{"status":"ok"}`)
	require.Contains(t, string(admin.Do("GET", "/metrics", "").Body), "\ntidemark_draining 1\n")
	direct(h, "GET", "/v1/socket").Problem(503, fault.SlugDraining)
	h.Publish("c", "a", "1")
	got := h.Do("GET", servertest.At+"/messages?wait=1m", "")
	require.Equal(t, 200, got.Status)
	require.True(t, got.Last, "the connection is closed")
	openEvents(t, h, streamOfS).ends("drain")

	for range 2 {
		admin.Do("POST", "/v1/resume", "").Expect(200, `{"draining":false}`)
	}
	require.Equal(t, []bool{true, false}, reported)
	h.Do("GET", "/readyz", "").Expect(200, `{"status":"ok"}`)
	require.False(t, h.Do("GET", "/livez", "").Last)
	h.Dial().Request(subscribeS, "ok")
	h.Subscribe("d", "s")
	later := h.Waiting(t.Context(), 1, "GET /v1/channels/d/subscribers/s/messages?wait=1m")
	h.Publish("d", "b", "1")
	got = <-later
	require.Contains(t, string(got.Body), `"id":"b"`)

	admin.Do("POST", "/v1/drain", `{"for":"1m"}`).Problem(400, fault.SlugInvalidBody)
	h.Do("POST", "/v1/drain", "").Problem(404, fault.SlugNoPath)
	admin.Do("POST", "/v1/drain", "").Expect(200, `{"draining":true}`)
	h.Stop()
	require.NoError(t, <-h.Stopped)
	require.Error(t, h.Server.Resume(), "it has stopped")
}

// TestDrainDelay: during the delay connections are accepted, readiness is 503, and polls don't wait.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, func(s *servertest.Setup) { s.DrainDelay, s.Grace = time.Hour, time.Minute })
	h.Subscribe("c", "s")
	polls := h.Waiting(t.Context(), 1, "POST "+servertest.At+"/next"+` {"wait":"1m"}`)
	h.Stop()
	awaitDraining(h)
	got := <-polls
	got.Expect(200, `{"messages":[],"more":false,"expired":0}`)
	got = h.Do("GET", "/readyz", "")
	got.Problem(503, fault.SlugDraining)
	require.True(t, got.Last)
	h.Do("GET", servertest.At+"/messages?wait=1m", "").Expect(200, `{"messages":[],"more":false,"expired":0}`)
	h.Publish("c", "a", "1")
	require.Len(t, h.Fetch("c", "s").Messages, 1)
	require.NoError(t, h.Listener.Close(), "nothing is left to wait for")
	require.NoError(t, <-h.Stopped)
}

// TestDrainKeepsConnections: a connection that is idle when the drain begins is served once more, and then closed.
func TestDrainKeepsConnections(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := servertest.Start(t, func(s *servertest.Setup) { s.DrainDelay, s.Grace = time.Hour, time.Minute })
			h.Client = servertest.Client(t, http2)
			var reused []bool
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GotConn: func(i httptrace.GotConnInfo) { reused = append(reused, i.Reused) },
			})
			publish := func(id string) {
				got, err := h.Try(ctx, "PUT", "/v1/channels/c/messages/"+id, strings.NewReader("1"))
				require.NoError(t, err)
				require.Equal(t, 201, got.Status)
			}
			publish("a")
			publish("b")
			h.Stop()
			awaitDraining(h)
			publish("c")
			require.Equal(t, []bool{false, true, true}, reused)
			reused = nil
			require.Eventually(t, func() bool { // GOAWAY is sent after the answer
				publish(fmt.Sprint("d", len(reused)))
				return !reused[len(reused)-1]
			}, servertest.Patience, servertest.Step)
			h.Client.CloseIdleConnections()
			require.NoError(t, h.Listener.Close(), "nothing is left to wait for")
			require.NoError(t, <-h.Stopped)
		})
	}
}

// TestGrace: requests that don't finish within the grace are cut off, and Run returns ErrGrace.
func TestGrace(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, func(s *servertest.Setup) { s.Grace = time.Millisecond })
	entered := make(chan struct{})
	cutOff := make(chan error, 1)
	h.Store.Intercept(func(ctx context.Context, _ string) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	})
	go func() {
		_, err := h.Try(t.Context(), "PUT", "/v1/channels/c/messages/a", strings.NewReader("1"))
		cutOff <- err
	}()
	<-entered
	h.Stop()
	require.ErrorIs(t, <-h.Stopped, server.ErrGrace)
	require.Error(t, <-cutOff)
}

// TestGraceOfGRPC: gRPC calls have the same grace as requests.
func TestGraceOfGRPC(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues(), func(s *servertest.Setup) { s.Grace = time.Millisecond })
	entered := make(chan struct{})
	h.Store.Intercept(func(ctx context.Context, _ string) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	})
	f := openmatch.NewFrontendServiceClient(servertest.Native.Dial(t, h.GRPCAddr, h.URL))
	cutOff := make(chan error, 1)
	go func() {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "tidemark-ticket-id", "mine")
		_, err := f.CreateTicket(ctx, &openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
		cutOff <- err
	}()
	<-entered
	h.Stop()
	require.ErrorIs(t, <-h.Stopped, server.ErrGrace)
	require.Equal(t, codes.Unavailable, status.Code(<-cutOff))
}

// TestListenerFails: Run returns when its listener fails.
func TestListenerFails(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	s := server.New(server.Options{Service: h.Service,
		Storage: func() storage.Description { return servertest.ShownStorage },
		Logger:  slog.New(slog.DiscardHandler)})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.ErrorIs(t, s.Run(t.Context(), server.Listeners{HTTP: l}), net.ErrClosed)
}
