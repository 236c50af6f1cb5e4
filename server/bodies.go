package server

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/semaphore"
)

// How fast a body of more than smallBuffer bytes must come in: so many bytes a second, after so long. A slower one would
// keep its share of the memory of all bodies from others.
const (
	bodyHeadStart = 10 * time.Second
	bodyRate      = 32 << 10
)

// share is one body's part of the memory of all bodies under way. The zero value has none, and needs none. It is used by
// one goroutine.
type share struct {
	call   *call
	memory *semaphore.Weighted
	taken  int64
	slow   bool // the connection has a deadline for the body
}

// grow takes memory for a body of size bytes, without waiting, and gives the client time to send it. Small bodies need no
// memory: they are never refused.
func (s *share) grow(size int64) error {
	if size <= smallBuffer || size <= s.taken {
		return nil
	}
	if !s.memory.TryAcquire(size - s.taken) {
		return errBodiesFull
	}
	s.taken, s.slow = size, true
	inTime := bodyHeadStart + time.Duration(size)*time.Second/bodyRate
	s.setDeadline(s.call.started.Add(inTime))
	return nil
}

// finish lifts the deadline when the body has come in: the rest of the request has the time that net/http gives it.
func (s *share) finish() {
	if s.slow {
		s.slow = false
		s.setDeadline(time.Now().Add(s.call.route.server.service.Limits().MaxWait + bodyTimeout))
	}
}

func (s *share) setDeadline(at time.Time) {
	_ = http.NewResponseController(s.call.response).SetReadDeadline(at) // without a connection there is none
}

// release gives the memory back.
func (s *share) release() {
	if s.taken > 0 {
		s.memory.Release(s.taken)
	}
	*s = share{}
}

// rpcBody is the body of a gRPC or Connect call, which the connect library reads. It takes as much memory as was read,
// and never more than one message may have.
type rpcBody struct {
	io.ReadCloser
	share share
	read  int64
	most  int64
}

// rpcBodyStep is how much memory a body takes at a time.
const rpcBodyStep = 16 << 10

// Read reads a part of the body. Its errors are what the client is told.
func (b *rpcBody) Read(p []byte) (int, error) {
	if b.read >= max(b.share.taken, smallBuffer) && b.share.taken < b.most {
		if err := b.share.grow(min(b.share.taken+rpcBodyStep, b.most)); err != nil {
			return 0, connect.NewError(connect.CodeUnavailable, err)
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, connect.NewError(connect.CodeDeadlineExceeded, errBodySlow)
	default: // the end
		b.share.finish()
	}
	return n, err
}
