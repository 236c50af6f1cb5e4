package v1

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/server/web"
)

// still is a service whose content never changes.
type still struct {
	Channels
	delivery channel.Delivery
}

func (s *still) Publish(_ context.Context, _ string, drafts []channel.Draft) ([]channel.Published, error) {
	return make([]channel.Published, len(drafts)), nil
}

func (s *still) Fetch(context.Context, channel.Query) (channel.Delivery, error) {
	return s.delivery, nil
}

func (s *still) Ack(context.Context, string, string, string) error { return nil }

// BenchmarkHandlers measures what a request allocates, without net/http and the service.
func BenchmarkHandlers(b *testing.B) {
	content := `"` + strings.Repeat("x", 254) + `"`
	s := &still{delivery: channel.Delivery{Receipt: strings.Repeat("h", 120)}}
	for i := range 10 {
		s.delivery.Messages = append(s.delivery.Messages, channel.Message{
			ID: ulid.Make().String(), Clock: clock.Clock(i + 1), Content: []byte(content), PublishedAt: time.UnixMilli(1_800_000_000_123),
		})
	}
	r := web.New(web.Options{
		Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), MaxBodyBytes: 1 << 20, BodyMemory: 1 << 20, ReadTimeout: time.Minute,
	})
	Register(r, Options{Channels: s, Write: func(next web.Handler) web.Handler { return next }})
	const subscriber = "/v1/channels/bench-42/subscribers/full"
	for name, call := range map[string]struct{ method, path, body string }{
		"publish": {"POST", "/v1/channels/bench-42/messages", `{"id":"01KAJ2M3V7Q8ZJ4R5T6Y7W8X9A","content":` + content + `}`},
		"fetch10": {"GET", subscriber + "/messages?max=10", ""},
		"ack":     {"POST", subscriber + "/ack", `{"receiptHandle":"` + s.delivery.Receipt + `"}`},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			body := strings.NewReader(call.body)
			request, err := http.NewRequestWithContext(b.Context(), call.method, call.path, body)
			require.NoError(b, err)
			w := &discard{header: http.Header{}}
			for b.Loop() {
				_, _ = body.Seek(0, io.SeekStart)
				clear(w.header)
				r.ServeHTTP(w, request)
			}
			require.Less(b, w.status, 300)
		})
	}
}

// discard drops what is written.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
