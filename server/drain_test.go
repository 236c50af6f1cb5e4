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

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
	"github.com/tidemark-dev/tidemark/storage"
)

// direct calls the handler without a connection, because a draining server accepts none.
func (h *harness) direct(method, path string) answer {
	h.t.Helper()
	recorder := httptest.NewRecorder()
	h.server.Handler().ServeHTTP(recorder, httptest.NewRequestWithContext(h.t.Context(), method,
		"http://localhost"+path, nil))
	got := answer{t: h.t, status: recorder.Code, header: recorder.Header(), body: recorder.Body.Bytes()}
	checkContract(h.t, method, path, got)
	return got
}

func (h *harness) awaitDraining() {
	h.t.Helper()
	h.logs.Await(h.t, func(r servertest.Record) bool { return r.Message == "draining" })
}

// TestDrain ends the context of Run while polls wait and a publish is in progress: all are answered, and Run returns.
func TestDrain(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	polls := h.waiting(t.Context(), 3, "GET "+at+"/messages?wait=1m")
	entered, release := make(chan struct{}), make(chan struct{})
	h.store.intercept(func(_ context.Context, call string) error {
		if call == "Publish" {
			close(entered)
			<-release
		}
		return nil
	})
	published := make(chan answer, 1)
	go func() {
		got, err := h.try(t.Context(), "PUT", "/v1/channels/d/messages/a", strings.NewReader("1"))
		if err != nil {
			got = answer{t: t, body: []byte(err.Error())}
		}
		published <- got
	}()
	<-entered
	h.stop()
	for range 3 {
		got := <-polls
		got.is(200, `{"messages":[],"more":false,"expired":0}`)
	}
	got := h.direct("GET", "/readyz")
	got.problem(503, fault.SlugDraining)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	h.direct("GET", "/probe/readiness").oldError(503, "")
	h.direct("GET", "/livez").is(200, `{"status":"ok"}`+"\n")

	close(release)
	got = <-published
	got.is(201, `{"channel":"d","id":"a","clock":1,"duplicate":false}`)
	require.NoError(t, <-h.stopped)
	_, err := h.try(t.Context(), "GET", "/livez", nil)
	require.ErrorContains(t, err, "refused")
}

// TestDrainDelay: during the delay connections are accepted, readiness is 503, and polls don't wait.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.DrainDelay, s.Grace = time.Hour, time.Minute })
	h.subscribe("c", "s")
	polls := h.waiting(t.Context(), 1, "POST "+at+"/next"+` {"wait":"1m"}`)
	h.stop()
	h.awaitDraining()
	got := <-polls
	got.is(200, `{"messages":[],"more":false,"expired":0}`)
	got = h.do("GET", "/readyz", "")
	got.problem(503, fault.SlugDraining)
	require.True(t, got.last)
	h.do("GET", at+"/messages?wait=1m", "").is(200, `{"messages":[],"more":false,"expired":0}`)
	h.publish("c", "a", "1")
	require.Len(t, h.fetch("c", "s").Messages, 1)
	require.NoError(t, h.listener.Close(), "nothing is left to wait for")
	require.NoError(t, <-h.stopped)
}

// TestDrainKeepsConnections: a connection that is idle when the drain begins is served once more, and then closed.
func TestDrainKeepsConnections(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, func(s *setup) { s.DrainDelay, s.Grace = time.Hour, time.Minute })
			h.client = servertest.Client(t, http2)
			var reused []bool
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GotConn: func(i httptrace.GotConnInfo) { reused = append(reused, i.Reused) },
			})
			publish := func(id string) {
				got, err := h.try(ctx, "PUT", "/v1/channels/c/messages/"+id, strings.NewReader("1"))
				require.NoError(t, err)
				require.Equal(t, 201, got.status)
			}
			publish("a")
			publish("b")
			h.stop()
			h.awaitDraining()
			publish("c")
			require.Equal(t, []bool{false, true, true}, reused)
			reused = nil
			require.Eventually(t, func() bool { // GOAWAY is sent after the answer
				publish(fmt.Sprint("d", len(reused)))
				return !reused[len(reused)-1]
			}, servertest.Patience, servertest.Step)
			h.client.CloseIdleConnections()
			require.NoError(t, h.listener.Close(), "nothing is left to wait for")
			require.NoError(t, <-h.stopped)
		})
	}
}

// TestGrace: requests that don't finish within the grace are cut off, and Run returns ErrGrace.
func TestGrace(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.Grace = time.Millisecond })
	entered := make(chan struct{})
	cutOff := make(chan error, 1)
	h.store.intercept(func(ctx context.Context, _ string) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	})
	go func() {
		_, err := h.try(t.Context(), "PUT", "/v1/channels/c/messages/a", strings.NewReader("1"))
		cutOff <- err
	}()
	<-entered
	h.stop()
	require.ErrorIs(t, <-h.stopped, server.ErrGrace)
	require.Error(t, <-cutOff)
}

// TestGraceOfGRPC is that of requests.
func TestGraceOfGRPC(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues(), func(s *setup) { s.Grace = time.Millisecond })
	entered := make(chan struct{})
	h.store.intercept(func(ctx context.Context, _ string) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	})
	f := openmatch.NewFrontendServiceClient(servertest.Native.Dial(t, h.grpcAddr, h.url))
	cutOff := make(chan error, 1)
	go func() {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "tidemark-ticket-id", "mine")
		_, err := f.CreateTicket(ctx, &openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
		cutOff <- err
	}()
	<-entered
	h.stop()
	require.ErrorIs(t, <-h.stopped, server.ErrGrace)
	require.Equal(t, codes.Unavailable, status.Code(<-cutOff))
}

// TestListenerFails: Run returns when its listener fails.
func TestListenerFails(t *testing.T) {
	t.Parallel()
	h := start(t)
	s := server.New(server.Options{Service: h.service, Storage: func() storage.Description { return shownStorage },
		Logger: slog.New(slog.DiscardHandler)})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.ErrorIs(t, s.Run(t.Context(), server.Listeners{HTTP: l}), net.ErrClosed)
}
