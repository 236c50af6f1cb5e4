package web

import (
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// The rate at which a body of more than smallBuffer bytes must arrive: bodyRate bytes a second, after bodyHeadStart. A
// slower one would keep its share of the memory of all bodies from others.
const (
	bodyHeadStart = 10 * time.Second
	bodyRate      = 32 << 10
)

// bodyMemory is the memory of the bodies of all requests in progress. It may be used by several goroutines.
type bodyMemory struct {
	free        *semaphore.Weighted
	used        atomic.Int64 // bytes
	maxBody     int64        // the largest body
	readTimeout time.Duration
}

// share is one body's part of the memory of all bodies. It is used by one goroutine.
type share struct {
	call   *Call
	memory *bodyMemory
	taken  int64
	slow   bool // the connection has a deadline for the body
}

// grow takes memory for a body of size bytes, without waiting, and sets the time by which the client must have sent it.
// Small bodies need no memory: they are never refused.
func (s *share) grow(size int64) error {
	if size <= smallBuffer || size <= s.taken {
		return nil
	}
	if !s.memory.free.TryAcquire(size - s.taken) {
		return errBodiesFull
	}
	s.memory.used.Add(size - s.taken)
	s.taken, s.slow = size, true
	inTime := bodyHeadStart + time.Duration(size)*time.Second/bodyRate
	s.setDeadline(s.call.started.Add(inTime))
	return nil
}

// finish removes the deadline once the body has arrived: the rest of the request has the time that net/http gives it.
func (s *share) finish() {
	if s.slow {
		s.slow = false
		s.setDeadline(time.Now().Add(s.memory.readTimeout))
	}
}

func (s *share) setDeadline(at time.Time) {
	_ = http.NewResponseController(s.call.response).SetReadDeadline(at) // fails only without a connection
}

// release returns the memory.
func (s *share) release() {
	if s.taken > 0 {
		s.memory.used.Add(-s.taken)
		s.memory.free.Release(s.taken)
	}
	s.taken = 0
}

// streamStep is how much memory a streamed body takes at a time.
const streamStep = 16 << 10

// Received is for handlers that read the body themselves: it records the number of bytes read so far, and takes memory
// for the next ones, up to most bytes. The error is a *fault.Error of kind Unavailable.
func (c *Call) Received(read, most int64) error {
	if read < max(c.share.taken, smallBuffer) || c.share.taken >= most {
		return nil
	}
	return c.share.grow(min(c.share.taken+streamStep, most))
}

// ReceivedAll records that a handler has read the whole body.
func (c *Call) ReceivedAll() { c.share.finish() }
