package streams

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/coder/websocket"
)

// library is the connection of the WebSocket library. A socket that waits would need as much memory for it as for all
// the rest, so there is none until a frame has to be read that isn't one of the usual ones, or the socket ends.
type library struct {
	mu    sync.Mutex
	conn  *websocket.Conn // nil: it wasn't needed yet
	limit int64           // of a frame, in bytes
}

// useLibrary returns the library's connection.
func (s *socket) useLibrary() *websocket.Conn {
	l := &s.library
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		conn, err := websocket.Accept(accepted{&s.pipe}, handshakeRequest,
			&websocket.AcceptOptions{OnPingReceived: s.pinged, OnPongReceived: s.ponged})
		if err != nil {
			panic(fmt.Errorf("the library refuses its handshake: %w", err)) // it is valid
		}
		l.conn = conn
		l.conn.SetReadLimit(l.limit)
	}
	return l.conn
}

// limitFrames limits the size of a frame.
func (s *socket) limitFrames(limit int64) {
	l := &s.library
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit = limit; l.conn != nil {
		l.conn.SetReadLimit(limit)
	}
}

// closeNow closes the connection: its client has gone, or it is closed already.
func (s *socket) closeNow() {
	s.library.mu.Lock()
	conn := s.library.conn
	s.library.mu.Unlock()
	if conn != nil {
		_ = conn.CloseNow()
	} else {
		_ = s.pipe.Close()
	}
}

// handshakeRequest is a valid handshake.
var handshakeRequest = &http.Request{Method: http.MethodGet, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{
	"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
	"Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="},
}}

// accepted is the writer of the answer to handshakeRequest, which isn't sent: the client has that of its own.
type accepted struct{ pipe *pipe }

// Header returns headers that are not sent.
func (accepted) Header() http.Header { return http.Header{} }

// WriteHeader sends nothing.
func (accepted) WriteHeader(int) {}

// Write sends nothing.
func (accepted) Write(b []byte) (int, error) { return len(b), nil }

// Hijack returns the connection of the socket.
func (a accepted) Hijack() (net.Conn, *bufio.ReadWriter, error) { return a.pipe, buffered(a.pipe), nil }
