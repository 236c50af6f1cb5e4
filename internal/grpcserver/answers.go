package grpcserver

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/unsent"
)

// SendAnswers returns a copy of a service's description whose unary methods send their answers themselves. A large one,
// of [Count], is part of its call until it is written. The server needs [Codec], and has no interceptors for these
// methods.
func SendAnswers(desc *grpc.ServiceDesc) *grpc.ServiceDesc {
	made := *desc
	made.Methods, made.Streams = nil, append([]grpc.StreamDesc(nil), desc.Streams...)
	for _, method := range desc.Methods {
		made.Streams = append(made.Streams, grpc.StreamDesc{
			StreamName: method.MethodName,
			Handler: func(srv any, stream grpc.ServerStream) error {
				answer, err := method.Handler(srv, stream.Context(), stream.RecvMsg, nil)
				if err != nil {
					return err
				}
				if large, ok := answer.(*counted); ok {
					return large.send(stream)
				}
				return stream.SendMsg(answer)
			},
		})
	}
	return &made
}

// Count takes memory for the answer to a unary call if it is large, of a part that it calls part for, and returns what
// the method returns in its place. The memory is returned when the answer was written, or its call was reset, or its
// connection has ended. The answer isn't compressed. Errors: those of unsent.Part.Grow.
func Count(answer any, part func() unsent.Part) (any, error) {
	message, ok := answer.(proto.Message)
	if !ok {
		return answer, nil
	}
	size := int64(proto.Size(message))
	if size <= unsent.Small {
		return answer, nil
	}
	a := &counted{message: message, part: part(), freed: make(chan struct{})}
	if err := a.part.Grow(size); err != nil {
		return nil, err
	}
	return a, nil
}

// counted is a large answer. Codec encodes it to a buffer of which it is the pool.
type counted struct {
	message proto.Message
	part    unsent.Part
	once    sync.Once
	freed   chan struct{} // closed when grpc-go doesn't need the buffer any more: it was written, or the call was reset
}

// send sends the answer, and waits until it is written.
func (a *counted) send(stream grpc.ServerStream) error {
	defer a.part.Close()
	ctx := stream.Context()
	if err := grpc.SetSendCompressor(ctx, encoding.Identity); err != nil { // grpc-go would free the buffer early
		return fmt.Errorf("answer uncompressed: %w", err)
	}
	err := stream.SendMsg(a)
	if err != nil || ctx.Err() != nil { // grpc-go may have dropped the answer to a call that was reset at this moment
		return err
	}
	select {
	case <-a.freed:
	case <-endOf(ctx):
	}
	return nil
}

// endOf returns a channel that is closed when the connection of a call ends.
func endOf(ctx context.Context) <-chan struct{} {
	if c := connOf(ctx); c != nil {
		return c.ended
	}
	return nil
}

// encode returns the answer in a buffer.
func (a *counted) encode() (mem.BufferSlice, error) {
	data, err := proto.Marshal(a.message)
	if err != nil {
		return nil, err
	}
	a.message = nil
	return mem.BufferSlice{mem.NewBuffer(&data, a)}, nil
}

// Get returns a buffer. It is part of mem.BufferPool.
func (*counted) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put tells that the buffer isn't needed any more. It is part of mem.BufferPool.
func (a *counted) Put(*[]byte) { a.once.Do(func() { close(a.freed) }) }
