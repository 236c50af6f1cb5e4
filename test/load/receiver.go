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

// Receiver is a long poll or a stream, used by one goroutine.
type Receiver struct {
	Await func(ctx context.Context) error // returns when the next message has come
	Close func()
}

// OpenPoll sends a request that waits for one message. The answer is read once, and not decoded: that costs little, for
// thousands of concurrent clients.
func OpenPoll(ctx context.Context, address string, request []byte) (*Receiver, error) {
	c, err := Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	if err := c.send(request); err != nil {
		c.Close()
		return nil, err
	}
	return &Receiver{Close: c.Close, Await: func(context.Context) error {
		var answer [2048]byte
		n, err := c.conn.Read(answer[:])
		if err == nil && !bytes.Contains(answer[:n], []byte(`"content":`)) {
			err = fmt.Errorf("a waiting subscriber was answered %q", answer[:n])
		}
		return err
	}}, nil
}

// OpenEvents opens a stream of server-sent events, and returns when it has its headers. Its messages must have
// contents without the words "event: message".
func OpenEvents(ctx context.Context, address, path string) (*Receiver, error) {
	c, err := Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	c.reader = bufio.NewReaderSize(c.conn, 1<<10)
	err = c.send(Request(http.MethodGet, path, ""))
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
	return &Receiver{Close: c.Close, Await: func(context.Context) error {
		for {
			line, err := c.reader.ReadSlice('\n')
			switch {
			case err == bufio.ErrBufferFull: //nolint:errorlint // it is not wrapped
			case err != nil:
				return err
			case bytes.HasPrefix(line, []byte("event: message")):
				return nil
			}
		}
	}}, nil
}

// OpenSocket opens a WebSocket with one subscription, and returns when that is confirmed.
func OpenSocket(ctx context.Context, address, channel, subscriber string) (*Receiver, error) {
	c, _, err := websocket.Dial(ctx, "ws://"+address+"/v1/socket",
		&websocket.DialOptions{Subprotocols: []string{wire.SocketProtocol}})
	if err != nil {
		return nil, err
	}
	subscribe := fmt.Appendf(nil, `{"type":"subscribe","ref":1,"channel":%q,"subscriber":%q}`, channel, subscriber)
	err = c.Write(ctx, websocket.MessageText, subscribe)
	if err == nil {
		err = awaitFrame(ctx, c, `"ok"`)
	}
	r := &Receiver{
		Close: func() { _ = c.CloseNow() }, // nothing is left to be written
		Await: func(ctx context.Context) error { return awaitFrame(ctx, c, `"message"`) },
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// awaitFrame returns when the next frame with a word has come. Others must be pings.
func awaitFrame(ctx context.Context, c *websocket.Conn, word string) error {
	for {
		_, frame, err := c.Read(ctx)
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
