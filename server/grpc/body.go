package grpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"connectrpc.com/connect"

	"github.com/tidemark-dev/tidemark/server/web"
)

// body is the body of a call, which the connect library reads. It takes as much of the memory of bodies as was read, and
// never more than one message may have. It refuses malformed messages as the client's fault: the library would call some
// of them internal errors.
type body struct {
	io.ReadCloser
	call *web.Call
	read int64
	most int64 // of one message

	framed     bool // each message has a prefix: a byte of flags, and four of its length
	compressed bool // messages may be
	prefix     [prefixBytes]byte
	inPrefix   int   // how many bytes of a prefix have arrived
	left       int64 // bytes of the message that haven't arrived
}

const (
	prefixBytes    = 5
	flagCompressed = 1
	flagTrailers   = 1 << 7 // in gRPC-Web
)

func newBody(c *web.Call, most int64) *body {
	encoding := c.Request().Header.Get("Grpc-Encoding")
	return &body{
		ReadCloser: c.Request().Body, call: c, most: most,
		framed: isGRPC(c.Request()), compressed: encoding != "" && encoding != "identity",
	}
}

// isGRPC reports whether a request is a call of gRPC or gRPC-Web.
func isGRPC(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// Read reads a part of the body. Its errors except io.EOF are what the client is told.
func (b *body) Read(p []byte) (int, error) {
	if err := b.call.Received(b.read, b.most); err != nil {
		return 0, b.fail(connect.CodeUnavailable, err)
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	wrong := b.check(p[:n])
	switch {
	case wrong != nil:
		return 0, wrong // the library would continue with what was read
	case err == nil:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		wrong = b.fail(connect.CodeDeadlineExceeded, web.ErrBodySlow)
		b.call.SetOutcome(http.StatusRequestTimeout, web.ErrBodySlow)
		return n, wrong
	case b.inPrefix > 0 || b.left > 0:
		return n, b.fail(connect.CodeInvalidArgument, errors.New("the body ends within a message"))
	}
	b.call.ReceivedAll()
	return n, err
}

// check follows the messages in what was read.
func (b *body) check(p []byte) error {
	if !b.framed {
		if b.read > b.most {
			b.call.SetOutcome(http.StatusRequestEntityTooLarge, errUnreadCall) // the library tells the client
		}
		return nil
	}
	for len(p) > 0 {
		skipped := min(b.left, int64(len(p)))
		p, b.left = p[skipped:], b.left-skipped
		n := copy(b.prefix[b.inPrefix:], p)
		p, b.inPrefix = p[n:], b.inPrefix+n
		if b.inPrefix < prefixBytes {
			return nil
		}
		b.inPrefix, b.left = 0, int64(binary.BigEndian.Uint32(b.prefix[1:]))
		flags := b.prefix[0]
		switch {
		case flags&^(flagCompressed|flagTrailers) != 0:
			return b.fail(connect.CodeInvalidArgument, fmt.Errorf("a message has the unknown flags %#x", flags))
		case flags&flagCompressed != 0 && !b.compressed:
			return b.fail(connect.CodeInvalidArgument, errors.New("a message is compressed, but grpc-encoding doesn't say how"))
		case b.left > b.most:
			return b.fail(connect.CodeResourceExhausted, fmt.Errorf("a message has %d bytes, more than %d", b.left, b.most))
		}
	}
	return nil
}

// fail notes the outcome, because the library doesn't call interceptors for what it can't read.
func (b *body) fail(code connect.Code, err error) error {
	b.call.SetOutcome(statusOfCode(code), err)
	return connect.NewError(code, err)
}

// failUnrouted answers a call of a procedure that doesn't exist.
func failUnrouted(c *web.Call, err error) {
	if !errors.Is(err, web.ErrNoPath) {
		web.Fail(c, err)
		return
	}
	c.SetOutcome(http.StatusNotFound, err) // for metrics and log: on the wire it is 200, as all of gRPC's answers
	c.SetHeaders()
	unimplemented := connect.NewError(connect.CodeUnimplemented, err)
	_ = connect.NewErrorWriter().Write(c.Response(), c.Request(), unimplemented) // fails only if the client has gone
}
