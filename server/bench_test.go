package server_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/server"
)

// benchMessages returns what every fetch of the benchmark answers.
func benchMessages() []channel.Message {
	messages := make([]channel.Message, 10)
	for i := range messages {
		messages[i] = channel.Message{
			ID: ulid.Make().String(), Clock: clock.Clock(i + 1), Content: []byte(`"` + strings.Repeat("x", 254) + `"`),
			PublishedAt: time.UnixMilli(1_800_000_000_123),
		}
	}
	return messages
}

func benchHandler(ctx context.Context) (http.Handler, error) {
	ring, err := receipt.NewKeyring(benchKey)
	if err != nil {
		return nil, err
	}
	policies, err := channel.NewPolicies(channel.Policy{TTL: time.Hour, MaxMessageBytes: 1 << 20}, nil)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	service, err := channel.NewService(channel.Options{
		Store: &memory{messages: benchMessages()}, Receipts: ring, Policies: policies, Limits: channel.DefaultLimits(), Logger: log,
	})
	if err != nil {
		return nil, err
	}
	go func() { _ = service.Run(ctx) }()
	return server.New(server.Options{Service: service, Logger: log}).Handler(), nil
}

var benchKey = receipt.Key(strings.Repeat("k", receipt.MinKeyBytes))

// memory is a store whose content never changes.
type memory struct {
	channel.Store
	clock    atomic.Int64
	messages []channel.Message
}

func (m *memory) Publish(_ context.Context, r channel.PublishRequest) ([]channel.Published, error) {
	published := make([]channel.Published, len(r.Drafts))
	for i, d := range r.Drafts {
		published[i] = channel.Published{ID: d.ID, Clock: clock.Clock(m.clock.Add(1))}
	}
	return published, nil
}

func (m *memory) Fetch(_ context.Context, r channel.FetchRequest) (channel.Batch, error) {
	if r.Subscriber == "empty" {
		return channel.Batch{}, nil
	}
	return channel.Batch{Through: 10, Clock: 10, Messages: m.messages}, nil
}

func (m *memory) Ack(context.Context, channel.AckRequest) error { return nil }

func (m *memory) Positions(_ context.Context, channels []string) []channel.PositionResult {
	return make([]channel.PositionResult, len(channels))
}

func (m *memory) Listen(_ string, sink func(channel.Event)) (stop func()) {
	sink(channel.Event{Kind: channel.EventConfirmed})
	return func() {}
}

type benchCall struct{ name, method, path, body string }

func benchCalls() []benchCall {
	const full = "/v1/channels/bench-42/subscribers/full"
	message := `{"id":"01KAJ2M3V7Q8ZJ4R5T6Y7W8X9A","content":"` + strings.Repeat("x", 254) + `"}`
	ack := `{"receiptHandle":"` + receiptOf("bench-42", "full") + `"}`
	return []benchCall{
		{"publish", "POST", "/v1/channels/bench-42/messages", message},
		{"fetch10", "GET", full + "/messages?max=10", ""},
		{"fetch0", "GET", "/v1/channels/bench-42/subscribers/empty/messages", ""},
		{"ack", "POST", full + "/ack", ack},
	}
}

func receiptOf(name, subscriber string) string {
	ring, err := receipt.NewKeyring(benchKey)
	if err != nil {
		panic(err)
	}
	return ring.Sign(receipt.Receipt{Channel: name, Subscriber: subscriber, Clock: 10})
}

// BenchmarkHandler measures what the server allocates for a request, without net/http, the network and a storage.
func BenchmarkHandler(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	handler, err := benchHandler(ctx)
	require.NoError(b, err)
	for _, call := range benchCalls() {
		b.Run(call.name, func(b *testing.B) {
			b.ReportAllocs()
			body := strings.NewReader(call.body)
			request, err := http.NewRequestWithContext(b.Context(), call.method, call.path, body)
			require.NoError(b, err)
			w := &nowhere{header: http.Header{}}
			for b.Loop() {
				_, _ = body.Seek(0, io.SeekStart)
				clear(w.header)
				handler.ServeHTTP(w, request)
			}
			require.Less(b, w.status, 300)
		})
	}
}

// nowhere discards what is written.
type nowhere struct {
	header http.Header
	status int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(status int)      { n.status = status }
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }
