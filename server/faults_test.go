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

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// storeCalls are the calls that need the storage.
func storeCalls(handle string) []string {
	return []string{
		`POST /v1/channels/c/messages {"content":1}`, "PUT /v1/channels/c/messages/x 1", "PUT " + servertest.At,
		"DELETE " + servertest.At,
		"GET /v1/channels/c",
		"GET " + servertest.At + "/messages?wait=1m", "POST " + servertest.At + `/ack {"receiptHandle":"` + handle +
			`"}`,
		"POST " + servertest.At + `/next {"receiptHandle":"` + handle + `","wait":"1m"}`,
		"PUT /channel/c/message/x 1", "PUT " + servertest.OldAt, "GET " + servertest.OldAt + "?timeout=1m",
		"DELETE " + servertest.OldAt,
		"DELETE " + servertest.OldAt + "/message?ackHandle=" + handle,
	}
}

// faults are errors of a store, and the answers to the client. The problems are in testdata/faults.
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
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	h.Publish("c", "a", "1")
	handle := h.Fetch("c", "s").ReceiptHandle
	for name, fails := range faults {
		h.Store.Fail(fails.err)
		for i, call := range storeCalls(handle) {
			method, path, body := servertest.Cut(call)
			id := fmt.Sprint(name, "-", i)
			got := h.Do(method, path, body, servertest.Header{Name: "X-Request-Id", Value: id})
			require.Equal(t, fails.status, got.Status, call)
			require.Equal(t, fails.retry, got.Header.Get("Retry-After"))
			require.NotContains(t, string(got.Body), "secret")
			require.NotContains(t, string(got.Body), "10.0.0.1")
			if i == 0 {
				golden(t, filepath.Join("testdata", "faults", name+".json"), got.Body)
			}
			logged := h.Logs.Request(t, id)
			require.Contains(t, logged.Attributes["error"], fails.err.Error())
			require.GreaterOrEqual(t, logged.Level, slog.LevelWarn)
		}
	}
	h.Store.Fail(fault.ErrStorageFull)
	h.Do("POST", "/v1/channels/c/messages", `{"content":1}`).Problem(507, fault.SlugStorageFull)
	h.Do("PUT", servertest.At, "").Problem(507, fault.SlugStorageFull)
	h.Do("PUT", "/channel/c/message/a", `1`).OldError(507, "")
	h.Store.Fail(&fault.Error{Kind: fault.Unavailable, Slug: fault.SlugNotReplicated, Detail: "too few replicas"})
	h.Do("PUT", "/v1/channels/c/messages/a", `1`).Problem(503, fault.SlugNotReplicated)
	h.Store.Fail(nil)
	require.Len(t, h.Fetch("c", "s").Messages, 1, "nothing was lost or changed")
}

// TestPanic: a panic is answered with 500, and the server continues.
func TestPanic(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Store.Intercept(func(context.Context, string) error { panic("the secret of the handler") })
	got := h.Do("POST", "/v1/channels/c/messages", `{"content":1}`, servertest.Header{Name: "X-Request-Id", Value: "p"})
	got.Problem(500, fault.SlugInternal)
	require.NotContains(t, string(got.Body), "secret")
	logged := h.Logs.Await(t, func(r servertest.Record) bool { return r.Message == "panic in a handler" })
	require.Equal(t, "p", logged.Attributes["requestId"])
	require.Equal(t, "the secret of the handler", logged.Attributes["panic"])
	require.Contains(t, logged.Attributes["stack"], "FaultyStore")
	h.Do("PUT", "/channel/c/message/a", "1").OldError(500, "")

	h.Store.Fail(nil)
	require.Equal(t, 201, h.Do("POST", "/v1/channels/c/messages", `{"content":1}`).Status)
}

// TestAbort: if a handler aborts, its client gets a broken connection, and no part of an answer.
func TestAbort(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Store.Intercept(func(context.Context, string) error { panic(http.ErrAbortHandler) })
	_, err := h.Try(t.Context(), "PUT", "/v1/channels/c/messages/a", strings.NewReader("1"))
	require.ErrorContains(t, err, "EOF")
}

// TestClientGoesWhilePublishing: a client that disconnects isn't an error of the service.
func TestClientGoesWhilePublishing(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	entered := make(chan struct{})
	h.Store.Intercept(func(ctx context.Context, _ string) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	_, err := h.Try(ctx, "PUT", "/v1/channels/c/messages/a", strings.NewReader("1"),
		servertest.Header{Name: "X-Request-Id", Value: "gone"})
	require.ErrorIs(t, err, context.Canceled)
	logged := h.Logs.Request(t, "gone")
	require.Equal(t, "499", logged.Attributes["status"])
	require.Equal(t, slog.LevelDebug, logged.Level)
}

// TestRedisIsDown stops a real Redis.
func TestRedisIsDown(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	h := servertest.Start(t, func(s *servertest.Setup) { s.Redis, s.Timeout = node, 300*time.Millisecond })
	h.Subscribe("c", "s")
	h.Do("GET", "/readyz", "").Expect(200, `{"status":"ok"}`)
	node.Kill(t)
	for _, call := range storeCalls(h.Receipts.Sign(receipt.Receipt{Channel: "c", Subscriber: "s", Clock: 1})) {
		method, path, body := servertest.Cut(call)
		require.Equal(t, 503, h.Do(method, path, body).Status, call)
	}
	h.Do("GET", "/readyz", "").Problem(503, fault.SlugUnavailable)
	h.Do("GET", "/healthz?readiness=true", "").Problem(503, fault.SlugUnavailable)
	h.Do("GET", "/probe/readiness", "").OldError(503, "")
	h.Do("GET", "/livez", "").Expect(200, `{"status":"ok"}`)
	h.Do("GET", "/healthz", "").Expect(200, "ok")
}

// TestRedisIsFull fills a real Redis. Calls that free memory succeed.
func TestRedisIsFull(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	h := servertest.Start(t, func(s *servertest.Setup) { s.Redis = node })
	h.Subscribe("c", "s")
	h.Publish("c", "a", "1")
	node.Do(t, "CONFIG", "SET", "maxmemory", "1")
	h.Do("POST", "/v1/channels/c/messages", `{"content":1}`).Problem(507, fault.SlugStorageFull)
	h.Do("PUT", "/v1/channels/c/subscribers/new", "").Problem(507, fault.SlugStorageFull)
	got := h.Fetch("c", "s")
	require.Len(t, got.Messages, 1)
	h.Do("POST", servertest.At+"/ack", `{"receiptHandle":"`+got.ReceiptHandle+`"}`).Expect(204, "")
	h.Do("DELETE", servertest.At, "").Expect(204, "")
	require.EqualValues(t, 1, servertest.Decode[client.Description](h.Do("GET", "/v1/channels/c", "")).Clock)
}
