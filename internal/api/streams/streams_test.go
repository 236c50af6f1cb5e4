package streams_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/api/streams"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// endless is a stream that always has a message.
type endless struct {
	message channel.Message
	closed  bool
}

func (e *endless) OpenStream(context.Context, channel.StreamQuery) (streams.Stream, error) {
	return e, nil
}

func (e *endless) Next(context.Context, time.Duration) ([]channel.Arrival, error) {
	return []channel.Arrival{{Message: &e.message, Receipt: "r"}}, nil
}

func (e *endless) Take() ([]channel.Arrival, time.Time, bool) { return nil, time.Time{}, false }

func (e *endless) Began() string  { return "" }
func (e *endless) Ended() bool    { return false }
func (e *endless) CaughtUp() bool { return false }
func (e *endless) Token() string  { return "token" }
func (e *endless) Close()         { e.closed = true }

// gaps is a stream of two gaps, the second one without a receipt.
type gaps struct{ endless }

func (g *gaps) OpenStream(context.Context, channel.StreamQuery) (streams.Stream, error) {
	return g, nil
}

func (g *gaps) Next(context.Context, time.Duration) ([]channel.Arrival, error) {
	return []channel.Arrival{
		{Gap: &channel.Gap{Reason: channel.GapExpired, Count: 3}, Receipt: "r"},
		{Gap: &channel.Gap{Reason: channel.GapLost}},
	}, channel.ErrStreamDrained
}

// A gap that no message follows can be acknowledged on its own: with one channel by its ID, with many by its receipt
// handle.
func TestReceiptsOfGaps(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/v1/channels/c/subscribers/s/stream": "id: r\nevent: gap\ndata: {\"reason\":\"expired\",\"count\":3}\n\n",
		"/v1/stream?sub=c/s&sub=d/s": "event: gap\n" +
			"data: {\"channel\":\"c\",\"subscriber\":\"s\",\"reason\":\"expired\",\"count\":3,\"receiptHandle\":\"r\"}\n\n" +
			"id: token\nevent: gap\ndata: {\"channel\":\"c\",\"subscriber\":\"s\",\"reason\":\"lost\",\"count\":0}\n\n",
	} {
		registry := prometheus.NewRegistry()
		router := web.New(web.Options{Logger: slog.New(slog.DiscardHandler), Metrics: registry, MaxBodyBytes: 1 << 20,
			BodyMemory: 1 << 20, ReadTimeout: time.Minute})
		streams.Register(router, streams.Options{Streams: &gaps{}, Metrics: registry})
		client := &slowClient{ResponseRecorder: httptest.NewRecorder(), reads: 1 << 20}
		router.ServeHTTP(client, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path,
			http.NoBody))
		require.Contains(t, client.Body.String(), want)
	}
}

// slowClient is a connection whose client reads some bytes, and no more before the deadline.
type slowClient struct {
	*httptest.ResponseRecorder

	reads    int
	deadline time.Time
	failed   error
}

func (c *slowClient) SetReadDeadline(time.Time) error     { return nil }
func (c *slowClient) SetWriteDeadline(at time.Time) error { c.deadline = at; return nil }

func (c *slowClient) Write(p []byte) (int, error) {
	if c.reads -= len(p); c.reads < 0 {
		return 0, c.failed
	}
	return c.ResponseRecorder.Write(p)
}

// A client that doesn't read in time is cut off and counted. One that has gone is no slow one.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	for failed, cut := range map[error]float64{os.ErrDeadlineExceeded: 1, errors.ErrUnsupported: 0} {
		registry := prometheus.NewRegistry()
		router := web.New(web.Options{Logger: slog.New(slog.DiscardHandler), Metrics: registry, MaxBodyBytes: 1 << 20,
			BodyMemory: 1 << 20, ReadTimeout: time.Minute})
		stream := &endless{message: channel.Message{ID: "m", Content: []byte(`"` + strings.Repeat("x", 100<<10) + `"`)}}
		streams.Register(router, streams.Options{Streams: stream, Metrics: registry})
		client := &slowClient{ResponseRecorder: httptest.NewRecorder(), reads: 1 << 20, failed: failed}
		began := time.Now()
		router.ServeHTTP(client, httptest.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://localhost/v1/channels/c/subscribers/s/stream", http.NoBody))
		require.True(t, stream.closed)
		require.Greater(t, client.deadline.Sub(began), 25*time.Second, "and a second for each 32 KiB")
		require.InDelta(t, 10, strings.Count(client.Body.String(), "event: message"), 1)
		require.Zero(t, valueOf(t, registry, "tidemark_streams"))
		require.Equal(t, cut, valueOf(t, registry, "tidemark_streams_cut_total"))
		require.InDelta(t, 10, valueOf(t, registry, "tidemark_stream_messages_total"), 1)
		require.Zero(t, router.Answers().Bytes())
	}
}

// valueOf returns the value of a metric without labels that differ.
func valueOf(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
