package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
)

const (
	smallBuffer = 1 << 10
	// largeBuffer is the largest buffer that is kept for another request, and the largest that is made before its
	// bytes have come in: a client that only announces a large body costs no memory.
	largeBuffer = 64 << 10

	dropBytes = 8 << 20 // of a refused body are read, and dropped
	dropTime  = 5 * time.Second
)

// buffer holds a request's or an answer's body, and is kept for the next one.
type buffer struct {
	bytes []byte
	share *share // of the memory of all bodies, for a request's body; nil: it needs none
}

var buffers = sync.Pool{New: func() any { return &buffer{bytes: make([]byte, 0, smallBuffer)} }}

// newBuffer gives an empty buffer with room for size bytes.
func newBuffer(size int) *buffer {
	b := buffers.Get().(*buffer)
	if cap(b.bytes) < size {
		b.bytes = make([]byte, 0, size)
	}
	return b
}

// release gives the buffer back. Nothing may refer to its bytes any more.
func (b *buffer) release() {
	if b.share != nil {
		b.share.release()
		b.share = nil
	}
	if cap(b.bytes) <= largeBuffer {
		b.bytes = b.bytes[:0]
		buffers.Put(b)
	}
}

// body reads the request's body. The caller releases it, or leaves it: then its memory counts until the call has finished.
func (c *call) body() (*buffer, error) {
	limit, length := c.route.server.options.MaxBodyBytes, c.request.ContentLength
	if length > limit {
		c.drop()
		return nil, bodyTooLarge(limit)
	}
	if length == 0 {
		return newBuffer(0), nil
	}
	size := smallBuffer
	if length > 0 {
		size = int(min(length, largeBuffer))
	}
	b := newBuffer(size)
	b.share = &c.share
	err := b.share.grow(int64(size))
	if err == nil {
		err = b.read(c.request.Body, length, limit)
	}
	if err != nil {
		b.release()
		if !errors.Is(err, errBodySlow) { // else net/http finds the deadline passed, and doesn't wait for the rest either
			c.drop()
		}
		return nil, err
	}
	b.share.finish()
	return b, nil
}

// drop reads a part of a body that is refused, so that a client that sends all of it before it reads sees the answer and
// not a broken connection. A client that waits to be told to continue is answered at once.
func (c *call) drop() {
	if c.request.ProtoMajor > 1 || c.request.Header["Expect"] != nil {
		return // an HTTP/2 stream is answered while it is still being sent
	}
	controller := http.NewResponseController(c.response)
	_ = controller.SetReadDeadline(time.Now().Add(dropTime)) // without a connection there is none
	_, _ = io.CopyN(io.Discard, c.request.Body, dropBytes)   // any error is the end
}

// read reads as many bytes as are announced, or where length is negative all there are.
func (b *buffer) read(r io.Reader, length, limit int64) error {
	for int64(len(b.bytes)) != length {
		if len(b.bytes) == cap(b.bytes) {
			if err := b.grow(length, limit); err != nil {
				return err
			}
		}
		n, err := r.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case int64(len(b.bytes)) > limit:
			return bodyTooLarge(limit)
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errBodySlow
		case err != nil:
			return fmt.Errorf("%w: %w", errBodyCutShort, err)
		}
	}
	return nil
}

// grow doubles the buffer, up to the announced length, or to one byte more than the limit, which shows that a body is
// larger.
func (b *buffer) grow(length, limit int64) error {
	most := length
	if length < 0 {
		most = limit + 1
	}
	size := min(2*int64(cap(b.bytes)), most)
	if err := b.share.grow(size); err != nil {
		return err
	}
	b.bytes = append(make([]byte, 0, size), b.bytes...)
	return nil
}

func bodyTooLarge(limit int64) error {
	return &fault.Error{
		Kind: fault.TooLarge, Slug: fault.SlugBodyTooLarge,
		Detail: fmt.Sprintf("the body has more than %d bytes", limit),
	}
}
