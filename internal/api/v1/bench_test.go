package v1

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/access"
	accessjwt "github.com/tidemark-dev/tidemark/internal/access/jwt"
	accesskeys "github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// still is a service whose contents never change.
type still struct {
	Channels
	delivery channel.Delivery
}

func (s *still) Publish(_ context.Context, r channel.PublishRequest) ([]channel.Published, error) {
	return make([]channel.Published, len(r.Drafts)), nil
}

func (s *still) Fetch(context.Context, channel.Query) (channel.Delivery, error) {
	return s.delivery, nil
}

func (s *still) Ack(context.Context, string, string, string) error { return nil }

// credentials returns a guard with one API key and one token key, and credentials that may publish.
func credentials(b *testing.B) (g *access.Guard, apiKey, token string) {
	b.Helper()
	const grants = `[{"actions":["publish","subscribe"],"channels":["bench-*"]}]`
	record, apiKey, err := accesskeys.Generate(accesskeys.NewKey{Grants: []byte(grants)}, time.Now())
	require.NoError(b, err)
	keys, err := json.Marshal([]accesskeys.Key{record})
	require.NoError(b, err)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(b, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	require.NoError(b, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: private}, nil)
	require.NoError(b, err)
	token, err = jwt.Signed(signer).Claims(map[string]any{
		"sub": "ann", "iss": "https://issuer.example", "exp": time.Now().Add(time.Hour).Unix(),
		"tidemark": json.RawMessage(grants),
	}).Serialize()
	require.NoError(b, err)
	file, keyFile := filepath.Join(b.TempDir(), "keys"), filepath.Join(b.TempDir(), "token.pem")
	require.NoError(b, os.WriteFile(file, keys, 0o600))
	require.NoError(b, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	registry, err := accesskeys.New(accesskeys.Options{File: file, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	verifier, err := accessjwt.New(accessjwt.Options{Keys: []string{keyFile}, Algorithms: []string{"EdDSA"}})
	require.NoError(b, err)
	g, err = access.New(access.Options{Authenticators: []access.Authenticator{registry, verifier}, Revoked: registry})
	require.NoError(b, err)
	return g, apiKey, token
}

// BenchmarkHandlers measures the allocations of a request, without net/http and the service. Requests with a credential
// are sent to a service that requires one.
func BenchmarkHandlers(b *testing.B) {
	content := `"` + strings.Repeat("x", 254) + `"`
	s := &still{delivery: channel.Delivery{Receipt: strings.Repeat("h", 120)}}
	for i := range 10 {
		s.delivery.Messages = append(s.delivery.Messages, channel.Message{
			ID: ulid.Make().String(), Clock: clock.Clock(i + 1), Content: []byte(content),
			PublishedAt: time.UnixMilli(1_800_000_000_123),
		})
	}
	guard, apiKey, token := credentials(b)
	routers := map[bool]*web.Router{}
	for _, closed := range []bool{false, true} {
		o := web.Options{
			Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), MaxBodyBytes: 1 << 20,
			BodyMemory: 1 << 20, ReadTimeout: time.Minute,
		}
		if closed {
			o.Guard = guard
		}
		routers[closed] = web.New(o)
		Register(routers[closed], Options{Channels: s})
	}
	const subscriber = "/v1/channels/bench-42/subscribers/full"
	const messages = "/v1/channels/bench-42/messages"
	message := `{"id":"01KAJ2M3V7Q8ZJ4R5T6Y7W8X9A","content":` + content + `}`
	for name, call := range map[string]struct{ method, path, body, credential string }{
		"publish":     {"POST", messages, message, ""},
		"publish key": {"POST", messages, message, apiKey},
		"publish jwt": {"POST", messages, message, token},
		"fetch10":     {"GET", subscriber + "/messages?max=10", "", ""},
		"fetch10 key": {"GET", subscriber + "/messages?max=10", "", apiKey},
		"ack":         {"POST", subscriber + "/ack", `{"receiptHandle":"` + s.delivery.Receipt + `"}`, ""},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			body := strings.NewReader(call.body)
			request, err := http.NewRequestWithContext(b.Context(), call.method, call.path, body)
			require.NoError(b, err)
			request.RemoteAddr = "192.0.2.1:12345"
			if call.credential != "" {
				request.Header.Set("Authorization", "Bearer "+call.credential)
			}
			r, w := routers[call.credential != ""], &discard{header: http.Header{}}
			for b.Loop() {
				_, _ = body.Seek(0, io.SeekStart)
				clear(w.header)
				r.ServeHTTP(w, request)
			}
			require.Less(b, w.status, 300)
		})
	}
}

// discard is a response writer that drops its input.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
