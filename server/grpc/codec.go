package grpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// codec is grpc-go's own, but keeps the error of a message that isn't protobuf: grpc-go would call it an internal error, and
// tell the client so.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// received is a message for codec to read into.
type received struct {
	message any
	err     error
}

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*received)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	r.err = c.CodecV2.Unmarshal(data, r.message)
	return nil
}

var errNotProtobuf = status.Error(codes.InvalidArgument, "the message isn't valid protobuf")
