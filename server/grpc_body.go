package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"connectrpc.com/connect"
)

// rpcBody is the body of a gRPC or Connect call, which the connect library reads. It takes as much of the memory of bodies
// as was read, and never more than one message may have. What it finds wrong is the client's fault; the library would
// call some of it internal errors.
type rpcBody struct {
	io.ReadCloser
	call *call
	read int64
	most int64 // of one message

	framed     bool // each message has a prefix: a byte of flags, and four of its length
	compressed bool // messages may be
	prefix     [rpcPrefix]byte
	inPrefix   int   // how many bytes of a prefix have come in
	left       int64 // bytes of the message that haven't come in
}

const (
	rpcPrefix     = 5
	rpcCompressed = 1        // flag
	rpcTrailers   = 1 << 7   // flag, in gRPC-Web
	rpcBodyStep   = 16 << 10 // how much memory a body takes at a time
)

func newRPCBody(c *call, most int64) *rpcBody {
	encoding := c.request.Header.Get("Grpc-Encoding")
	return &rpcBody{
		ReadCloser: c.request.Body, call: c, most: most,
		framed: isGRPC(c.request), compressed: encoding != "" && encoding != "identity",
	}
}

// isGRPC reports whether a request is a call of gRPC or gRPC-Web.
func isGRPC(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get(headerContentType), "application/grpc")
}

// Read reads a part of the body. Its errors but io.EOF are what the client is told.
func (b *rpcBody) Read(p []byte) (int, error) {
	if b.read >= max(b.call.share.taken, smallBuffer) && b.call.share.taken < b.most {
		if err := b.call.share.grow(min(b.call.share.taken+rpcBodyStep, b.most)); err != nil {
			return 0, b.fail(connect.CodeUnavailable, err)
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	wrong := b.check(p[:n])
	switch {
	case wrong != nil:
		return 0, wrong // the library would go on with what there is
	case err == nil:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		wrong = b.fail(connect.CodeDeadlineExceeded, errBodySlow)
		b.call.status = statusOf(errBodySlow.Kind)
		return n, wrong
	case b.inPrefix > 0 || b.left > 0:
		return n, b.fail(connect.CodeInvalidArgument, errors.New("the body ends within a message"))
	}
	b.call.share.finish()
	return n, err
}

// check follows the messages in what was read.
func (b *rpcBody) check(p []byte) error {
	if !b.framed {
		if b.read > b.most {
			b.call.status = http.StatusRequestEntityTooLarge // the library tells the client
		}
		return nil
	}
	for len(p) > 0 {
		skipped := min(b.left, int64(len(p)))
		p, b.left = p[skipped:], b.left-skipped
		n := copy(b.prefix[b.inPrefix:], p)
		p, b.inPrefix = p[n:], b.inPrefix+n
		if b.inPrefix < rpcPrefix {
			return nil
		}
		b.inPrefix, b.left = 0, int64(binary.BigEndian.Uint32(b.prefix[1:]))
		flags := b.prefix[0]
		switch {
		case flags&^(rpcCompressed|rpcTrailers) != 0:
			return b.fail(connect.CodeInvalidArgument, fmt.Errorf("a message has the unknown flags %#x", flags))
		case flags&rpcCompressed != 0 && !b.compressed:
			return b.fail(connect.CodeInvalidArgument, errors.New("a message is compressed, but grpc-encoding doesn't say how"))
		case b.left > b.most:
			return b.fail(connect.CodeResourceExhausted, fmt.Errorf("a message has %d bytes, more than %d", b.left, b.most))
		}
	}
	return nil
}

// fail notes the outcome, since the library doesn't call interceptors for what it can't read.
func (b *rpcBody) fail(code connect.Code, err error) error {
	b.call.status, b.call.err = statusOfCode(code), err
	return connect.NewError(code, err)
}

// unimplemented answers a call of gRPC to a method that there isn't.
func (c *call) unimplemented() {
	c.status = http.StatusNotFound // for metrics and log: on the wire it is 200, as all of gRPC's answers
	c.setHeaders()
	err := connect.NewError(connect.CodeUnimplemented, errNoPath)
	_ = connect.NewErrorWriter().Write(c.response, c.request, err) // the client has gone: there is nobody to answer
}
