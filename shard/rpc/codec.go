package rpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

// codec is grpc-go's own of a server, which also knows questions and answers.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// question is a request that is received. It keeps the error of a message that isn't protobuf: grpc-go would call it an internal
// error, and tell the client so.
type question struct {
	shardpb.GetRequest
	size int // of the message
	err  error
}

// answer is a large response.
type answer struct {
	*shardpb.GetResponse
	sent signal // closed when grpc-go needs the message no more
}

var errNotProtobuf = status.Error(codes.InvalidArgument, "the message isn't valid protobuf")

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	q, ok := v.(*question)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	q.size = data.Len()
	if c.CodecV2.Unmarshal(data, &q.GetRequest) != nil {
		q.err = errNotProtobuf
	}
	return nil
}

// Marshal writes a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	a, ok := v.(*answer)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	message, err := proto.Marshal(a.GetResponse)
	return mem.BufferSlice{mem.NewBuffer(&message, a.sent)}, err
}

// signal is a mem.BufferPool of one message.
type signal chan struct{}

// Get is never called.
func (s signal) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put is called when nothing refers to the message any more.
func (s signal) Put(*[]byte) { close(s) }
