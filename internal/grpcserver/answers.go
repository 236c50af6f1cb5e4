package grpcserver

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/unsent"
)

// Count takes memory for the answer to a unary call if it is large, for a part that it calls part for, and returns the
// answer to send in its place. The memory is returned when grpc-go frees the encoded answer, or drops it: it was written,
// or the call was reset. The end of the connection returns all. The answer isn't compressed. Errors: those of unsent.Part.Grow.
func Count(ctx context.Context, answer any, part func() unsent.Part) (any, error) {
	message, ok := answer.(proto.Message)
	if !ok {
		return answer, nil
	}
	size := int64(proto.Size(message))
	if size <= unsent.Small {
		return answer, nil
	}
	a := &counted{message: message, part: part()}
	if err := a.part.Grow(size); err != nil {
		return nil, err
	}
	a.on = answersOn(ctx)
	a.on.add(a)
	if err := grpc.SetSendCompressor(ctx, encoding.Identity); err != nil { // grpc-go would free the answer early
		a.on.remove(a)
		return nil, fmt.Errorf("answer uncompressed: %w", err)
	}
	return a, nil
}

// answersOn returns the answers on the connection of a call.
func answersOn(ctx context.Context) *answers {
	if c := connOf(ctx); c != nil {
		return &c.answers
	}
	return &answers{ended: true}
}

// counted is the answer to a unary call, for Codec to encode. It is also the pool of the buffer that it is encoded to:
// grpc-go returns that when it doesn't need it any more.
type counted struct {
	message proto.Message // nil once it is encoded
	part    unsent.Part
	on      *answers
}

// encode returns the encoded answer.
func (a *counted) encode() ([]byte, error) {
	message := a.message
	a.message = nil
	return proto.Marshal(message)
}

// Get returns a buffer. It is part of mem.BufferPool.
func (*counted) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put returns the memory of the answer. It is part of mem.BufferPool.
func (a *counted) Put(*[]byte) { a.drop() }

// drop returns the memory of the answer. The garbage collector calls it, too: grpc-go doesn't return the buffer of a
// call that is reset just before it is queued.
func (a *counted) drop() { a.on.remove(a) }

// answers are the answers on a connection that were not written. All methods may be called by several goroutines.
type answers struct {
	mu    sync.Mutex
	open  map[*counted]struct{}
	ended bool // the connection
}

// add adds an answer. If the connection has ended, it returns the answer's memory.
func (s *answers) add(a *counted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		a.part.Close()
		return
	}
	if s.open == nil {
		s.open = map[*counted]struct{}{}
	}
	s.open[a] = struct{}{}
}

// remove removes an answer and returns its memory.
func (s *answers) remove(a *counted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, a)
	a.part.Close()
}

// end returns the memory of all answers, since the connection has ended.
func (s *answers) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for a := range s.open {
		a.part.Close()
	}
	s.open = nil
}
