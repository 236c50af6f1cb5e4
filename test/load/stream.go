package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Stream is a stream of messages, used by one goroutine.
type Stream struct {
	conn   *Conn           // of server-sent events
	socket *websocket.Conn // nil: server-sent events
}

// OpenEvents opens a stream of server-sent events, and returns when it has its headers. Its messages must have
// contents without the words "event: message".
func OpenEvents(ctx context.Context, address, path string) (*Stream, error) {
	c, err := Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	c.reader = bufio.NewReaderSize(c.conn, 1<<10)
	err = c.Send(Request(http.MethodGet, path, ""))
	var line string
	if err == nil {
		line, err = c.reader.ReadString('\n')
	}
	if err == nil && !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		err = fmt.Errorf("a stream was answered %q", line)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &Stream{conn: c}, nil
}

// OpenSocket opens a WebSocket with one subscription, and returns when that is confirmed.
func OpenSocket(ctx context.Context, address, channel, subscriber string) (*Stream, error) {
	c, _, err := websocket.Dial(ctx, "ws://"+address+"/v1/socket",
		&websocket.DialOptions{Subprotocols: []string{wire.SocketProtocol}})
	if err != nil {
		return nil, err
	}
	s := &Stream{socket: c}
	subscribe := fmt.Appendf(nil, `{"type":"subscribe","ref":1,"channel":%q,"subscriber":%q}`, channel, subscriber)
	err = c.Write(ctx, websocket.MessageText, subscribe)
	if err == nil {
		err = s.await(ctx, `"ok"`)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the stream.
func (s *Stream) Close() {
	if s.socket != nil {
		_ = s.socket.CloseNow() // nothing is left to be written
		return
	}
	s.conn.Close()
}

// Await returns when the next message has come.
func (s *Stream) Await(ctx context.Context) error {
	if s.socket != nil {
		return s.await(ctx, `"message"`)
	}
	for {
		line, err := s.conn.reader.ReadSlice('\n')
		switch {
		case err == bufio.ErrBufferFull: //nolint:errorlint // it is not wrapped
		case err != nil:
			return err
		case bytes.HasPrefix(line, []byte("event: message")):
			return nil
		}
	}
}

// await returns when the next frame with a word has come. Others must be pings.
func (s *Stream) await(ctx context.Context, word string) error {
	for {
		_, frame, err := s.socket.Read(ctx)
		switch {
		case err != nil:
			return err
		case bytes.Contains(frame, []byte(word)):
			return nil
		case !bytes.Contains(frame, []byte(`"ping"`)):
			return fmt.Errorf("a WebSocket was answered %q", frame)
		}
	}
}
