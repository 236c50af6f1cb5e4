package grpc

import (
	"errors"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/vanguard"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
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

// jsonCodec is vanguard's own, but calls malformed JSON the client's fault, and not an unknown error.
type jsonCodec struct{ *vanguard.JSONCodec }

func newJSONCodec(types vanguard.TypeResolver) vanguard.Codec {
	return jsonCodec{vanguard.NewJSONCodec(types)}
}

// MarshalAppend appends a message as JSON.
func (c jsonCodec) MarshalAppend(base []byte, m proto.Message) ([]byte, error) {
	return appendJSON(c.MarshalOptions, base, m)
}

// Unmarshal reads a message.
func (c jsonCodec) Unmarshal(data []byte, m proto.Message) error {
	if err := c.JSONCodec.Unmarshal(data, m); err != nil {
		return connect.NewError(connect.CodeInvalidArgument, errors.New(strings.ToValidUTF8(err.Error(), "\uFFFD")))
	}
	return nil
}
