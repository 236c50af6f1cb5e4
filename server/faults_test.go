package server_test

import (
	"context"
	"errors"
	"fmt"
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

// storeCalls are the calls that need the storage.
func storeCalls(handle string) []string {
	return []string{
		`POST /v1/channels/c/messages {"content":1}`, "PUT /v1/channels/c/messages/x 1", "PUT " + at, "DELETE " + at,
		"GET /v1/channels/c",
		"GET " + at + "/messages?wait=1m", "POST " + at + `/ack {"receiptHandle":"` + handle + `"}`,
		"POST " + at + `/next {"receiptHandle":"` + handle + `","wait":"1m"}`,
		"PUT /channel/c/message/x 1", "PUT " + oldAt, "GET " + oldAt + "?timeout=1m", "DELETE " + oldAt,
		"DELETE " + oldAt + "/message?ackHandle=" + handle,
	}
}

// faults are what a store may answer, and what the client is told. The problems are in testdata/faults.
var faults = map[string]struct {
	err    error
	status int
	retry  string
}{
	"unavailable": {fault.ErrUnavailable.WithCause(errors.New("dial tcp 10.0.0.1: refused")), 503, "1"},
	"unavailable-after": {&fault.Error{Kind: fault.Unavailable, Slug: fault.SlugUnavailable, Detail: "loading",
		RetryAfter: 2100 * time.Millisecond}, 503, "3"},
	"deadline": {context.DeadlineExceeded, 503, "1"},
	"unknown":  {errors.New("the secret of the storage"), 500, ""},
	"internal": {&fault.Error{Kind: fault.Internal, Slug: fault.SlugInternal,
		Detail: "the secret of the storage"}, 500, ""},
}

// TestFaultsOfTheStorage fails every call in each way. The client isn't told the cause, and the log is.
func TestFaultsOfTheStorage(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.subscribe("c", "s")
	h.publish("c", "a", "1")
	handle := h.fetch("c", "s").ReceiptHandle
	for name, fails := range faults {
		h.store.fail(fails.err)
		for i, call := range storeCalls(handle) {
			method, path, body := cut(call)
			id := fmt.Sprint(name, "-", i)
			got := h.do(method, path, body, header{"X-Request-Id", id})
			require.Equal(t, fails.status, got.status, call)
			require.Equal(t, fails.retry, got.header.Get("Retry-After"))
			require.NotContains(t, string(got.body), "secret")
			require.NotContains(t, string(got.body), "10.0.0.1")
			if i == 0 {
				golden(t, filepath.Join("testdata", "faults", name+".json"), got.body)
			}
			logged := h.logs.Request(t, id)
			require.Contains(t, logged.Attributes["error"], fails.err.Error())
			require.GreaterOrEqual(t, logged.Level, slog.LevelWarn)
		}
	}
	h.store.fail(fault.ErrStorageFull)
	h.do("POST", "/v1/channels/c/messages", `{"content":1}`).problem(507, fault.SlugStorageFull)
	h.do("PUT", at, "").problem(507, fault.SlugStorageFull)
	h.do("PUT", "/channel/c/message/a", `1`).oldError(507, "")
	h.store.fail(&fault.Error{Kind: fault.Unavailable, Slug: fault.SlugNotReplicated, Detail: "too few replicas"})
	h.do("PUT", "/v1/channels/c/messages/a", `1`).problem(503, fault.SlugNotReplicated)
	h.store.fail(nil)
	require.Len(t, h.fetch("c", "s").Messages, 1, "nothing was lost or changed")
}

// TestPanic: a panic is answered with 500, and the server goes on.
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

// TestAbort: if a handler aborts, its client gets a broken connection, and no part of an answer.
func TestAbort(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.store.intercept(func(context.Context, string) error { panic(http.ErrAbortHandler) })
	_, err := h.try(t.Context(), "PUT", "/v1/channels/c/messages/a", strings.NewReader("1"))
	require.ErrorContains(t, err, "EOF")
}

// TestClientGoesWhilePublishing: a client that goes away is not an error of the service.
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

// TestRedisIsDown stops a real Redis.
func TestRedisIsDown(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	h := start(t, func(s *setup) { s.redis, s.timeout = node, 300*time.Millisecond })
	h.subscribe("c", "s")
	h.do("GET", "/readyz", "").is(200, `{"status":"ok"}`)
	node.Kill(t)
	for _, call := range storeCalls(h.receipts.Sign(receipt.Receipt{Channel: "c", Subscriber: "s", Clock: 1})) {
		method, path, body := cut(call)
		require.Equal(t, 503, h.do(method, path, body).status, call)
	}
	h.do("GET", "/readyz", "").problem(503, fault.SlugUnavailable)
	h.do("GET", "/probe/readiness", "").oldError(503, "")
	h.do("GET", "/livez", "").is(200, `{"status":"ok"}`)
}

// TestRedisIsFull fills a real Redis. Calls that free memory succeed.
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
