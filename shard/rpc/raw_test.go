package rpc_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

// raw is a client that sends arbitrary HTTP/2 frames. It is used by one goroutine.
type raw struct {
	t      *testing.T
	conn   net.Conn
	framer *http2.Framer
	last   uint32 // stream
}

func dialRaw(t *testing.T, address string, settings ...http2.Setting) *raw {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.Write([]byte(http2.ClientPreface))
	require.NoError(t, err)
	r := &raw{t: t, conn: conn, framer: http2.NewFramer(conn, conn)}
	r.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	require.NoError(t, r.framer.WriteSettings(settings...))
	return r
}

// get begins a call of Get whose message should have size bytes, and sends only the given part of it.
func (r *raw) get(size int, sent []byte, end bool) {
	r.t.Helper()
	r.call(shardpb.ShardService_Get_FullMethodName, size, sent, end)
}

func (r *raw) call(method string, size int, sent []byte, end bool) {
	r.t.Helper()
	if r.last == 0 {
		r.last = 1
	} else {
		r.last += 2
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "node"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		require.NoError(r.t, encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	require.NoError(r.t, r.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: r.last, BlockFragment: block.Bytes(), EndHeaders: true}))
	message := binary.BigEndian.AppendUint32([]byte{0}, uint32(size))
	require.NoError(r.t, r.framer.WriteData(r.last, end, append(message, sent...)))
}

// answered reads until the answers of that many calls have begun.
func (r *raw) answered(calls int) {
	r.t.Helper()
	require.NoError(r.t, r.conn.SetReadDeadline(time.Now().Add(patience)))
	for calls > 0 {
		frame, err := r.framer.ReadFrame()
		require.NoError(r.t, err)
		if frame.Header().Type == http2.FrameHeaders {
			calls--
		}
	}
}

// ends reads until that many calls have ended, and returns their results: the gRPC status of each, or the end of the
// connection.
func (r *raw) ends(calls int) (how []string) {
	r.t.Helper()
	require.NoError(r.t, r.conn.SetReadDeadline(time.Now().Add(patience)))
	for len(how) < calls {
		frame, err := r.framer.ReadFrame()
		if err != nil {
			require.False(r.t, errors.Is(err, os.ErrDeadlineExceeded), "nothing ended after %s", how)
			return append(how, "closed")
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			for _, field := range f.RegularFields() {
				if field.Name == "grpc-status" {
					how = append(how, field.Value)
				}
			}
		case *http2.RSTStreamFrame:
			if f.ErrCode != http2.ErrCodeNo {
				how = append(how, f.ErrCode.String())
			}
		case *http2.PingFrame: // so that the connection isn't closed for that
			if !f.IsAck() {
				require.NoError(r.t, r.framer.WritePing(true, f.Data))
			}
		case *http2.GoAwayFrame:
			how = append(how, fmt.Sprint(f.ErrCode))
		}
	}
	return how
}
