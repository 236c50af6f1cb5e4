package server

import (
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// How fast a body of more than smallBuffer bytes must come in: so many bytes a second, after so long. A slower one would
// keep its share of the memory of all bodies from others.
const (
	bodyHeadStart = 10 * time.Second
	bodyRate      = 32 << 10
)

// bodyMemory is the memory of all bodies under way. It may be used by several goroutines.
type bodyMemory struct {
	free *semaphore.Weighted
	used atomic.Int64 // bytes
}

// share is one body's part of the memory of all bodies under way. It is used by one goroutine.
type share struct {
	call   *call
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

// release returns the memory.
func (s *share) release() {
	if s.taken > 0 {
		s.memory.used.Add(-s.taken)
		s.memory.free.Release(s.taken)
	}
	s.taken = 0
}
