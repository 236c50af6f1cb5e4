// Package servertest has the test harness of the server's packages: a server on a real Redis with a client, which
// checks each answer against docs/openapi.yaml ([Start]), a recorder of logs ([Logs]), and clients of each protocol of gRPC
// ([Protocol]).
package servertest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// How long a test waits for an event without a signal before it fails, and how often it looks.
const (
	Patience = time.Minute
	Step     = time.Millisecond
)

// Logs keeps what is logged, and lets a test wait for it. It is a slog.Handler.
type Logs struct {
	mu      sync.Mutex
	records []slog.Record
	more    chan struct{} // closed with the next record
}

// Record is a log record with its attributes as text.
type Record struct {
	slog.Record
	Attributes map[string]string
}

// NewLogs returns a recorder without records.
func NewLogs() *Logs { return &Logs{more: make(chan struct{})} }

// Enabled reports true.
func (l *Logs) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs returns l.
func (l *Logs) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup returns l.
func (l *Logs) WithGroup(string) slog.Handler { return l }

// Handle keeps a record.
func (l *Logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	close(l.more)
	l.more = make(chan struct{})
	return nil
}

// Text returns all records so far as text.
func (l *Logs) Text(t testing.TB) string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var text strings.Builder
	h := slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})
	for _, r := range l.records {
		_ = h.Handle(t.Context(), r) // a builder doesn't fail
	}
	return text.String()
}

// Await waits for the first record that match accepts.
func (l *Logs) Await(t testing.TB, match func(Record) bool) Record {
	t.Helper()
	for i := 0; ; {
		l.mu.Lock()
		records, more := l.records, l.more
		l.mu.Unlock()
		for ; i < len(records); i++ {
			r := Record{Record: records[i], Attributes: map[string]string{}}
			r.Attrs(func(a slog.Attr) bool {
				r.Attributes[a.Key] = a.Value.String()
				return true
			})
			if match(r) {
				return r
			}
		}
		select {
		case <-more:
		case <-t.Context().Done():
			require.FailNow(t, "the record was not logged")
		}
	}
}

// AwaitMessage waits for the first record with a message.
func (l *Logs) AwaitMessage(t testing.TB, message string) Record {
	t.Helper()
	return l.Await(t, func(r Record) bool { return r.Message == message })
}

// Request waits for the record of a request.
func (l *Logs) Request(t testing.TB, id string) Record {
	t.Helper()
	return l.Await(t, func(r Record) bool { return r.Message == "request" && r.Attributes["requestId"] == id })
}

// Serve serves HTTP/1.1, and HTTP/2 without TLS, until the test ends, with a time limit for requests and for answers.
// It returns the URL.
func Serve(t testing.TB, h http.Handler, limit time.Duration) (url string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	hs := &http.Server{Handler: h, Protocols: protocols, ReadTimeout: limit, WriteTimeout: limit}
	ended := make(chan error, 1)
	go func() { ended <- hs.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, hs.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return "http://" + l.Addr().String()
}

// Client returns a client that speaks HTTP/2 without TLS, or HTTP/1.1.
func Client(t testing.TB, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: 16}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
