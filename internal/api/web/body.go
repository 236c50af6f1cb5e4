package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/unsent"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

const (
	smallBuffer = 1 << 10
	// largeBuffer is the largest buffer that is kept for another request, and the largest that is made before its
	// bytes have arrived: a client that only announces a large body costs no memory.
	largeBuffer = 64 << 10

	dropBytes = 8 << 20 // of a refused body are read and dropped
	dropTime  = 5 * time.Second
)

// Buffer holds the body of a request or an answer. Buffers are reused.
type Buffer struct {
	Bytes []byte
	share *share // of the memory of all bodies, for a request's body; nil: it needs none
}

// Released buffers. Those of smallBuffer bytes are apart, so that a small body, which isn't counted, holds no large
// buffer.
var (
	smallBuffers = sync.Pool{New: func() any { return &Buffer{Bytes: make([]byte, 0, smallBuffer)} }}
	largeBuffers sync.Pool
)

// newBuffer returns an empty buffer with room for size bytes: smallBuffer, if that is enough.
func newBuffer(size int) *Buffer {
	if size <= smallBuffer {
		return smallBuffers.Get().(*Buffer)
	}
	b, ok := largeBuffers.Get().(*Buffer)
	if !ok {
		b = new(Buffer)
	}
	if cap(b.Bytes) < size {
		b.Bytes = make([]byte, 0, size)
	}
	return b
}

// Release makes the buffer available to other requests, and lets the next large body be decoded. Its bytes must not be
// in use any more.
func (b *Buffer) Release() {
	if b.share != nil {
		b.share.EndTurn()
	}
	b.Copied()
}

// Copied is Release for a buffer whose bytes were copied and are yet to be decoded: [Call.Decoded] or [Call.Forget]
// follows.
func (b *Buffer) Copied() {
	if b.share != nil {
		b.share.Release()
		b.share = nil
	}
	b.Bytes = b.Bytes[:0]
	switch n := cap(b.Bytes); {
	case n == smallBuffer:
		smallBuffers.Put(b)
	case n <= largeBuffer:
		largeBuffers.Put(b)
	}
}

// Body is EncodedBody, but refuses a body that the client has compressed.
func (c *Call) Body() (*Buffer, error) {
	encoding := strings.Join(c.request.Header.Values("Content-Encoding"), ", ")
	if encoding != "" && !strings.EqualFold(encoding, "identity") {
		c.drop()
		return nil, &wire.InputError{Slug: fault.SlugInvalidBody, Offset: -1,
			Detail: fmt.Sprintf("the body has the Content-Encoding %.20q: send it without one, since only gRPC and Connect "+
				"take compressed messages", encoding)}
	}
	return c.EncodedBody()
}

// EncodedBody reads the request's body, waits for its turn to be decoded, and then counts it as further requests if it
// is large: a body that is refused for lack of memory or turns isn't counted, and one that can't be decoded is. The
// caller releases the buffer, or drops it: then its memory counts until the call has finished. A body may arrive
// slowly, so it is an error if the client's credential isn't valid any more when it has arrived.
func (c *Call) EncodedBody() (*Buffer, error) {
	limit, length := c.route.router.bodies.maxBody, c.request.ContentLength
	if length > limit {
		c.drop()
		return nil, bodyTooLarge(limit)
	}
	if length == 0 {
		return newBuffer(0), nil
	}
	if length > requestBytes { // it is counted when it has arrived, but not received for nothing
		if err := limits.From(c.ctx).Affords(furtherRequests(length)); err != nil {
			c.drop()
			return nil, err
		}
	}
	size := smallBuffer
	if length > 0 {
		size = int(min(length, largeBuffer))
	}
	b := newBuffer(size)
	b.share = &c.share
	c.bodyRead = true
	err := b.share.grow(int64(cap(b.Bytes))) // a reused buffer may be larger
	if err == nil && !b.share.slow {
		b.share.expect(0)
	}
	if err == nil {
		err = b.read(c.request.Body, length, limit)
	}
	if err != nil {
		b.Release()
		if !errors.Is(err, ErrBodySlow) { // otherwise the deadline has passed, and net/http doesn't wait for the rest
			c.drop()
		}
		return nil, err
	}
	b.share.finish()
	b.share.sent = int64(len(b.Bytes))
	if len(b.Bytes) > unsent.Small {
		err = c.checkUnread() // the answer may be as large
	}
	if err == nil {
		err = b.share.awaitTurn(len(b.Bytes))
	}
	if err == nil {
		err = c.route.router.guard.Valid(c.Principal())
	}
	if err == nil {
		err = CountBody(c.ctx, int64(len(b.Bytes)))
	}
	if err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// Decoded lets the next large body be decoded. Buffer.Release and the end of the call do so, too: Decoded is for
// handlers that need the bytes, or wait, after they have decoded them.
func (c *Call) Decoded() { c.share.EndTurn() }

// Inflate waits until a body that is compressed may be decoded: a message of up to maxBytes is as much work as if it
// had been sent as it is. [Call.Inflated] follows. Errors: kind Unavailable.
func (c *Call) Inflate(maxBytes int) error { return c.share.awaitTurn(maxBytes) }

// Inflated counts a message that has more bytes than its body, which is compressed: as further requests, and in the
// memory of all bodies until the call ends. Errors: kinds Limited and Unavailable.
func (c *Call) Inflated(size int) error {
	if int64(size) <= c.share.sent {
		return nil
	}
	if err := c.share.Grow(c.Principal(), c.request.RemoteAddr, int64(size)); err != nil {
		return err
	}
	return CountBody(c.ctx, int64(size))
}

// Forget is Decoded for calls that last without their message: it returns the memory of the body, too.
func (c *Call) Forget() {
	c.share.EndTurn()
	c.share.Release()
}

// Content reads a body that is one JSON value, and returns the part of the buffer that is the value. The rules of Body
// for its buffer apply.
func (c *Call) Content() (*Buffer, json.RawMessage, error) {
	body, err := c.Body()
	if err != nil {
		return nil, nil, err
	}
	content, err := wire.DecodeContent(body.Bytes)
	if err != nil {
		body.Release()
		return nil, nil, err
	}
	c.Decoded()
	return body, content, nil
}

// ContentOf reads a body that is the content of a message of a content type, and returns it: a JSON value
// as Content does, and any other body as it is, which may be empty. The rules of Body for its buffer apply.
func (c *Call) ContentOf(contentType string) (*Buffer, []byte, error) {
	if contentType == "" {
		return c.Content()
	}
	body, err := c.Body()
	if err != nil {
		return nil, nil, err
	}
	c.Decoded()
	return body, body.Bytes, nil
}

// formType is the type of a body that says nothing about it: curl -d, wget and others send it by default.
const formType = "application/x-www-form-urlencoded"

// ContentType returns the content type of a message that the body is, as that of a channel.Draft: "" for JSON, which is
// also the type of a body without Content-Type, and of formType. The error is an *InputError with fault.SlugContentType.
func (c *Call) ContentType() (string, error) {
	text := strings.Join(c.request.Header[headerContentType], ", ")
	if name, _, _ := strings.Cut(text, ";"); text == "" || strings.EqualFold(name, formType) {
		return "", nil
	}
	return wire.ParseContentType(text)
}

// leaveBody limits the time in which net/http waits for a body that was not read, before it sends the answer.
func (c *Call) leaveBody() {
	if !c.bodyRead && c.request != nil && c.request.ContentLength != 0 && c.request.ProtoMajor == 1 {
		c.share.setDeadline(time.Now().Add(dropTime))
	}
}

// drop reads a part of a refused body, so that a client that sends all of it before it reads sees the answer and not a
// broken connection. A client that waits for 100 Continue is answered at once.
func (c *Call) drop() {
	if c.request.ProtoMajor > 1 || c.request.Header["Expect"] != nil {
		return // an HTTP/2 stream is answered while its request is still being sent
	}
	c.bodyRead = true // the client has no more time afterwards
	c.share.setDeadline(time.Now().Add(dropTime))
	_, _ = io.CopyN(io.Discard, c.request.Body, dropBytes) // any error ends the reading
}

// read reads as many bytes as are announced or, if length is negative, all there are.
func (b *Buffer) read(r io.Reader, length, limit int64) error {
	for int64(len(b.Bytes)) != length {
		if len(b.Bytes) == cap(b.Bytes) {
			if err := b.grow(length, limit); err != nil {
				return err
			}
		}
		n, err := r.Read(b.Bytes[len(b.Bytes):cap(b.Bytes)])
		b.Bytes = b.Bytes[:len(b.Bytes)+n]
		switch {
		case int64(len(b.Bytes)) > limit:
			return bodyTooLarge(limit)
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return ErrBodySlow
		case err != nil:
			return fmt.Errorf("%w: %w", errBodyCutShort, err)
		}
	}
	return nil
}

// grow doubles the buffer, up to the announced length or, if there is none, to one byte more than the limit, which
// shows that a body is too large.
func (b *Buffer) grow(length, limit int64) error {
	if length < 0 {
		length = limit + 1
	}
	size := min(2*int64(cap(b.Bytes)), length)
	if err := b.share.grow(size); err != nil {
		return err
	}
	b.Bytes = append(make([]byte, 0, size), b.Bytes...)
	return nil
}

func bodyTooLarge(limit int64) error {
	return &fault.Error{
		Kind: fault.TooLarge, Slug: fault.SlugBodyTooLarge,
		Detail: fmt.Sprintf("the body has more than %d bytes", limit),
	}
}
