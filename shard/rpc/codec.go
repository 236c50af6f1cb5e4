package rpc

import (
	"sync/atomic"

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

// answer is a response that the connection counts until it was sent: grpc-go keeps it when SendMsg has returned.
type answer struct {
	*shardpb.GetResponse
	delivery *delivery
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
	message := mem.DefaultBufferPool().Get(proto.Size(a.GetResponse))
	var err error
	*message, err = proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*message)[:0], a.GetResponse)
	return mem.BufferSlice{mem.NewBuffer(message, a.delivery)}, err
}

// delivery is a mem.BufferPool of one message.
type delivery struct {
	unread *atomic.Int64 // bytes of the connection
	size   int64
	sent   chan struct{} // closed when the message was; nil: nobody waits for it
}

// countedBytes is the smallest payload whose message grpc-go gives back.
const countedBytes = 1 << 10

// begin counts the message, and reports whether the client has left little unread.
func (d *delivery) begin() bool { return d.unread.Add(d.size) <= mostUnread }

// Get is never called.
func (d *delivery) Get(length int) *[]byte { return mem.DefaultBufferPool().Get(length) }

// Put is called when nothing refers to the message any more.
func (d *delivery) Put(message *[]byte) {
	mem.DefaultBufferPool().Put(message)
	d.unread.Add(-d.size)
	if d.sent != nil {
		close(d.sent)
	}
}
