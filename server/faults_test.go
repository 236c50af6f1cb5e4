package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
	"github.com/tidemark-dev/tidemark/wire"
)

// storeCalls are the calls that need the storage, by name.
func storeCalls(handle string) map[string]string {
	return map[string]string{
		"publish":     `POST /v1/channels/c/messages {"content":1}`,
		"put":         "PUT /v1/channels/c/messages/x 1",
		"subscribe":   "PUT " + at,
		"unsubscribe": "DELETE " + at,
		"fetch":       "GET " + at + "/messages?wait=1m",
		"ack":         "POST " + at + `/ack {"receiptHandle":"` + handle + `"}`,
		"next":        "POST " + at + `/next {"receiptHandle":"` + handle + `","wait":"1m"}`,
		"describe":    "GET /v1/channels/c",
	}
}

var oldStoreCalls = []string{
	"PUT /channel/c/message/x 1", "PUT " + oldAt, "GET " + oldAt + "?timeout=1m", "DELETE " + oldAt, "DELETE " + oldAt + "/message?ackHandle=",
}

// faults are what a store may answer, and what the client is told. The problems are in testdata/faults.
var faults = map[string]struct {
	err    error
	status int
	retry  string
}{
	"unavailable":       {fault.ErrUnavailable.WithCause(errors.New("dial tcp 10.0.0.1: refused")), 503, "1"},
	"unavailable-after": {&fault.Error{Kind: fault.Unavailable, Slug: fault.SlugUnavailable, Detail: "loading", RetryAfter: 2100 * time.Millisecond}, 503, "3"},
	"deadline":          {context.DeadlineExceeded, 503, "1"},
	"unknown":           {errors.New("the secret of the storage"), 500, ""},
	"internal":          {&fault.Error{Kind: fault.Internal, Slug: fault.SlugInternal, Detail: "the secret of the storage"}, 500, ""},
}

func TestFaultsOfTheStorage(t *testing.T) {
	t.Parallel()
	h := start(t)
	sub := h.subscribe("c", "s")
	h.publish("c", "a", "1")
	handle := h.fetch("c", "s").ReceiptHandle
	require.NotEmpty(t, sub.Epoch)
	for name, fault := range faults {
		h.store.fail(fault.err)
		for call, line := range storeCalls(handle) {
			method, path, body := cut(line)
			got := h.do(method, path, body, header{"X-Request-Id", name + "-" + call})
			require.Equal(t, fault.status, got.status)
			require.Equal(t, fault.retry, got.header.Get("Retry-After"))
			if call == "publish" {
				golden(t, filepath.Join("testdata", "faults", name+".json"), got.body)
			}
			require.NotContains(t, string(got.body), "secret")
			require.NotContains(t, string(got.body), "10.0.0.1")

			logged := h.logs.Request(t, name+"-"+call)
			require.Contains(t, logged.Attributes["error"], fault.err.Error(), "the log has the cause")
			require.GreaterOrEqual(t, logged.Level, slog.LevelWarn)
		}
		for _, line := range oldStoreCalls {
			if strings.HasSuffix(line, "=") {
				line += handle
			}
			method, path, body := cut(line)
			got := h.do(method, path, body)
			got.oldError(fault.status, "")
			require.Equal(t, fault.retry, got.header.Get("Retry-After"))
		}
	}
	h.store.fail(nil)
	require.Len(t, h.fetch("c", "s").Messages, 1, "nothing was lost or changed")
}

func TestStorageFull(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	h.store.fail(fault.ErrStorageFull)
	h.do("POST", "/v1/channels/c/messages", `{"content":1}`).problem(507, fault.SlugStorageFull)
	h.do("PUT", "/v1/channels/c/messages/a", `1`).problem(507, fault.SlugStorageFull)
	h.do("PUT", at, "").problem(507, fault.SlugStorageFull)
	h.do("PUT", "/channel/c/message/a", `1`).oldError(507, "")
}

func TestNotReplicated(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.store.fail(&fault.Error{Kind: fault.Unavailable, Slug: fault.SlugNotReplicated, Detail: "too few replicas"})
	h.do("PUT", "/v1/channels/c/messages/a", `1`).problem(503, fault.SlugNotReplicated)
}

// TestPanic shows that a panic is a 500, and that the connection and the server go on.
func TestPanic(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.store.intercept(func(context.Context, string) error { panic("the secret of the handler") })
	got := h.do("POST", "/v1/channels/c/messages", `{"content":1}`, header{"X-Request-Id", "p"})
	got.problem(500, fault.SlugInternal)
	require.NotContains(t, string(got.body), "secret")
	logged := h.logs.Await(t, func(r servertest.Record) bool { return r.Message == "panic in a handler" })
	require.Equal(t, "p", logged.Attributes["requestId"])
	require.Equal(t, "the secret of the handler", logged.Attributes["panic"])
	require.Contains(t, logged.Attributes["stack"], "faultyStore")
	h.do("PUT", "/channel/c/message/a", "1").oldError(500, "")

	h.store.fail(nil)
	require.Equal(t, 201, h.do("POST", "/v1/channels/c/messages", `{"content":1}`).status)
}

// TestAbort shows that a handler that aborts leaves its client with a broken connection, not with half a success.
func TestAbort(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.store.intercept(func(context.Context, string) error { panic(http.ErrAbortHandler) })
	_, err := h.try(t.Context(), "PUT", "/v1/channels/c/messages/a", strings.NewReader("1"))
	require.ErrorContains(t, err, "EOF")
}

// TestClientGoesWhilePublishing shows that a client that has gone is no fault of the service, and that the
// buffer with its content isn't used for another request.
func TestClientGoesWhilePublishing(t *testing.T) {
	t.Parallel()
	h := start(t)
	entered := make(chan struct{})
	h.store.intercept(func(ctx context.Context, _ string) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	_, err := h.try(ctx, "PUT", "/v1/channels/c/messages/a", strings.NewReader("1"), header{"X-Request-Id", "gone"})
	require.ErrorIs(t, err, context.Canceled)
	logged := h.logs.Request(t, "gone")
	require.Equal(t, "499", logged.Attributes["status"])
	require.Equal(t, slog.LevelDebug, logged.Level)
}

// TestRedisIsDown runs against a Redis that really is.
func TestRedisIsDown(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	h := start(t, func(s *setup) { s.redis, s.timeout = node, 300*time.Millisecond })
	h.subscribe("c", "s")
	h.do("GET", "/readyz", "").is(200, `{"status":"ok"}`)
	node.Kill(t)
	for _, line := range storeCalls(h.receipts.Sign(anyReceipt)) {
		method, path, body := cut(line)
		got := h.do(method, path, body)
		got.problem(503, fault.SlugUnavailable)
		require.NotEmpty(t, got.header.Get("Retry-After"))
	}
	h.do("GET", "/readyz", "").problem(503, fault.SlugUnavailable)
	h.do("GET", "/probe/readiness", "").oldError(503, "")
	h.do("GET", "/livez", "").is(200, `{"status":"ok"}`)
}

// anyReceipt is a receipt of the subscriber of most tests.
var anyReceipt = receipt.Receipt{Channel: "c", Subscriber: "s", Clock: 1}

// TestRedisIsFull runs against a Redis that really is: what empties it goes on.
func TestRedisIsFull(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	h := start(t, func(s *setup) { s.redis = node })
	h.subscribe("c", "s")
	h.publish("c", "a", "1")
	node.Do(t, "CONFIG", "SET", "maxmemory", "1")
	h.do("POST", "/v1/channels/c/messages", `{"content":1}`).problem(507, fault.SlugStorageFull)
	h.do("PUT", "/v1/channels/c/subscribers/new", "").problem(507, fault.SlugStorageFull)
	got := h.fetch("c", "s")
	require.Len(t, got.Messages, 1)
	h.do("POST", at+"/ack", `{"receiptHandle":"`+got.ReceiptHandle+`"}`).is(204, "")
	h.do("DELETE", at, "").is(204, "")
	require.EqualValues(t, 1, decode[wire.Description](h.do("GET", "/v1/channels/c", "")).Clock)
}
