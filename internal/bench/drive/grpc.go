package drive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// GRPC makes gRPC calls on one connection, and costs as little as it can: many players share it, and no
// call has a goroutine. One goroutine makes calls and reads what comes back.
type GRPC struct {
	conn    net.Conn
	out     *bufio.Writer
	reader  *bufio.Reader
	framer  *http2.Framer
	headers map[string][]byte // of each method
	next    uint32            // stream
	streams map[uint32]*grpcStream
	unread  uint32 // bytes that were read since the last window update
	stop    func() bool
}

// grpcStream is one call.
type grpcStream struct {
	data    []byte
	message func(payload []byte) error // is called for every message
}

const grpcWindow = 1 << 30

// DialGRPC opens a connection, which ctx closes when it ends.
func DialGRPC(ctx context.Context, address string) (*GRPC, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &GRPC{
		conn: conn, out: bufio.NewWriterSize(conn, 64<<10), reader: bufio.NewReaderSize(conn, 64<<10),
		headers: make(map[string][]byte), next: 1, streams: make(map[uint32]*grpcStream),
		stop: context.AfterFunc(ctx, func() { _ = conn.Close() }),
	}
	c.framer = http2.NewFramer(c.out, c.reader)
	if _, err := c.out.WriteString(http2.ClientPreface); err != nil {
		return nil, err
	}
	// Without a table of its own each block of headers stands for itself, and needn't be read.
	err = c.framer.WriteSettings(
		http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: grpcWindow},
		http2.Setting{ID: http2.SettingEnablePush, Val: 0})
	if err == nil {
		err = c.framer.WriteWindowUpdate(0, grpcWindow)
	}
	return c, err
}

// Close closes the connection.
func (c *GRPC) Close() {
	c.stop()
	_ = c.conn.Close() // nothing is left to be written
}

// Call starts a call and returns its stream. Nothing is sent before the next flush.
func (c *GRPC) Call(method string, request []byte, message func([]byte) error) (uint32, error) {
	id := c.next
	c.next += 2
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headersOf(method), EndHeaders: true})
	if err != nil {
		return 0, err
	}
	body := make([]byte, 5, 5+len(request))
	binary.BigEndian.PutUint32(body[1:], uint32(len(request)))
	c.streams[id] = &grpcStream{message: message}
	return id, c.framer.WriteData(id, true, append(body, request...))
}

// Cancel ends a call.
func (c *GRPC) Cancel(id uint32) error {
	delete(c.streams, id)
	return c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
}

func (c *GRPC) headersOf(method string) []byte {
	if block := c.headers[method]; block != nil {
		return block
	}
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSize(0)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a buffer doesn't fail
	}
	c.headers[method] = block.Bytes()
	return block.Bytes()
}

// Run handles what comes until done says so. What was written meanwhile goes out when nothing more is there to read.
func (c *GRPC) Run(done func() bool) error {
	for !done() {
		if c.reader.Buffered() == 0 {
			if err := c.flush(); err != nil {
				return err
			}
		}
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return err
		}
		if err := c.handle(frame); err != nil {
			return err
		}
	}
	return c.flush()
}

func (c *GRPC) flush() error {
	if c.unread > grpcWindow/2 {
		if err := c.framer.WriteWindowUpdate(0, c.unread); err != nil {
			return err
		}
		c.unread = 0
	}
	return c.out.Flush()
}

func (c *GRPC) handle(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.framer.WritePing(true, f.Data)
		}
	case *http2.DataFrame:
		c.unread += uint32(len(f.Data()))
		if s := c.streams[f.StreamID]; s != nil {
			s.data = append(s.data, f.Data()...)
			return s.messages()
		}
	case *http2.HeadersFrame:
		if s := c.streams[f.StreamID]; s != nil && f.StreamEnded() {
			delete(c.streams, f.StreamID)
			return grpcStatus(f.HeaderBlockFragment())
		}
	case *http2.RSTStreamFrame:
		if c.streams[f.StreamID] != nil {
			return fmt.Errorf("the server reset a call: %s", f.ErrCode)
		}
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server ends the connection: %s", f.ErrCode)
	}
	return nil
}

// messages hands over those that have come whole.
func (s *grpcStream) messages() error {
	for len(s.data) >= 5 {
		size := int(binary.BigEndian.Uint32(s.data[1:5]))
		if len(s.data) < 5+size {
			return nil
		}
		payload := s.data[5 : 5+size]
		s.data = s.data[5+size:]
		if err := s.message(payload); err != nil {
			return err
		}
	}
	return nil
}

// grpcStatus is the error that trailers tell of.
func grpcStatus(block []byte) error {
	var status, text string
	d := hpack.NewDecoder(0, func(f hpack.HeaderField) {
		switch f.Name {
		case "grpc-status":
			status = f.Value
		case "grpc-message":
			text = f.Value
		}
	})
	if _, err := d.Write(block); err != nil {
		return fmt.Errorf("read the trailers of a call: %w", err)
	}
	if status != "0" {
		return fmt.Errorf("a call ended with gRPC status %q: %s", status, text)
	}
	return nil
}
