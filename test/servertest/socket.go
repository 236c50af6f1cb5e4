package servertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// socketPatience limits the wait for a frame, so that a fault fails a test instead of hanging it.
const socketPatience = 30 * time.Second

// Socket is a WebSocket of a client. It checks each frame against docs/asyncapi.yaml.
type Socket struct {
	t    testing.TB
	Conn *websocket.Conn
}

// Frame is a frame from a server.
type Frame struct {
	Type          string
	Ref           uint64
	Channel       string
	Subscriber    string
	ReceiptHandle string
	ID            string
	Clock         int64
	ContentType   string
	Content       json.RawMessage
	Duplicate     bool
	Differs       bool
	Reason        string
	Count         uint64
	Problem       *client.Problem
}

// Dial opens a WebSocket.
func (h *Harness) Dial(headers ...Header) *Socket {
	h.TB.Helper()
	return h.DialPath("/v1/socket", headers...)
}

// DialPath is Dial with a query.
func (h *Harness) DialPath(path string, headers ...Header) *Socket {
	h.TB.Helper()
	conn, resp, err := websocket.Dial(h.TB.Context(), h.URL+path, &websocket.DialOptions{
		HTTPHeader: headersOf(headers), Subprotocols: []string{wire.SocketProtocol}})
	require.NoError(h.TB, err)
	require.Equal(h.TB, wire.SocketProtocol, conn.Subprotocol())
	require.NotEmpty(h.TB, resp.Header.Get("X-Request-Id"))
	h.TB.Cleanup(func() { _ = conn.CloseNow() }) // it may be closed already
	conn.SetReadLimit(-1)
	return &Socket{t: h.TB, Conn: conn}
}

func headersOf(headers []Header) http.Header {
	all := http.Header{}
	for _, header := range headers {
		all.Set(header.Name, header.Value)
	}
	return all
}

// socketSchemas are the schemas of docs/asyncapi.yaml for frames from clients and from servers.
var socketSchemas = sync.OnceValues(func() (all struct{ client, server *jsonschema.Schema }, err error) {
	text, err := os.ReadFile(filepath.Join(root(), "docs", "asyncapi.yaml"))
	if err != nil {
		return all, err
	}
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return all, err
	}
	plain, err := json.Marshal(doc)
	if err != nil {
		return all, err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	if err != nil {
		return all, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("asyncapi.json", value); err != nil {
		return all, err
	}
	var errServer error
	all.client, err = compiler.Compile("asyncapi.json#/components/schemas/ClientFrame")
	all.server, errServer = compiler.Compile("asyncapi.json#/components/schemas/ServerFrame")
	return all, errors.Join(err, errServer)
})

// CheckClientFrame returns an error unless docs/asyncapi.yaml has a frame from a client.
func CheckClientFrame(t testing.TB, text string) error {
	t.Helper()
	schemas, err := socketSchemas()
	require.NoError(t, err)
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return schemas.client.Validate(value)
}

// Send sends a frame that docs/asyncapi.yaml has.
func (s *Socket) Send(text string) {
	s.t.Helper()
	require.NoError(s.t, CheckClientFrame(s.t, text), text)
	s.SendBad(text)
}

// SendBad sends a text message.
func (s *Socket) SendBad(text string) {
	s.t.Helper()
	require.NoError(s.t, s.Conn.Write(s.t.Context(), websocket.MessageText, []byte(text)))
}

// Receive returns the next frame.
func (s *Socket) Receive() Frame {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), socketPatience)
	defer cancel()
	kind, text, err := s.Conn.Read(ctx)
	require.NoError(s.t, err)
	require.Equal(s.t, websocket.MessageText, kind)
	schemas, err := socketSchemas()
	require.NoError(s.t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(s.t, err)
	require.NoError(s.t, schemas.server.Validate(value), "%s", text)
	var f Frame
	require.NoError(s.t, json.Unmarshal(text, &f))
	return f
}

// Expect receives a frame of a type.
func (s *Socket) Expect(kind string) Frame {
	s.t.Helper()
	f := s.Receive()
	require.Equal(s.t, kind, f.Type, "%+v, %+v", f, f.Problem)
	return f
}

// Request sends a frame, and receives its answer as the next frame.
func (s *Socket) Request(text, kind string) Frame {
	s.t.Helper()
	s.Send(text)
	f := s.Expect(kind)
	require.Equal(s.t, wire.RefOf([]byte(text)), f.Ref)
	return f
}

// Fails expects the error of a frame, or of a subscription.
func (s *Socket) Fails(ref uint64, slug fault.Slug) Frame {
	s.t.Helper()
	f := s.Expect(wire.FrameError)
	require.Equal(s.t, slug, f.Problem.Slug(), "%+v", f.Problem)
	require.Equal(s.t, ref, f.Ref)
	return f
}

// Ends expects the last frame, and a close frame with a code.
func (s *Socket) Ends(reason string, code websocket.StatusCode) {
	s.t.Helper()
	require.Equal(s.t, reason, s.Expect(wire.FrameEnd).Reason)
	s.Closed(code)
}

// Closed expects a close frame with a code.
func (s *Socket) Closed(code websocket.StatusCode) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), socketPatience)
	defer cancel()
	_, text, err := s.Conn.Read(ctx)
	require.Equal(s.t, code, websocket.CloseStatus(err), "%v %s", err, text)
}
