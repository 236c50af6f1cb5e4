package grpcserver

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// ErrNotProtobuf is the error of a message that can't be decoded.
var ErrNotProtobuf = status.Error(codes.InvalidArgument, "the message isn't valid protobuf")

// Received is a message for Codec to decode into. Streams that aren't grpc-go's own decode into Message, and set Err.
type Received struct {
	Message any
	Err     error // why the message can't be decoded
}

// Receive reads a message with read: the RecvMsg of a stream, or the decoder of a grpc.MethodHandler. If the message
// can't be decoded, the error is ErrNotProtobuf; grpc-go would call it an internal error.
func Receive(read func(any) error, message any) error {
	received := &Received{Message: message}
	if err := read(received); err != nil {
		return err
	}
	if received.Err != nil {
		return ErrNotProtobuf
	}
	return nil
}

// codec is grpc-go's codec of protobuf, which also decodes into *Received and encodes *counted.
type codec struct{ encoding.CodecV2 }

// Codec returns the codec for grpc.ForceServerCodecV2 of servers that use Receive or Server.Count.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// Marshal encodes a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	a, ok := v.(*counted)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	data, err := a.encode()
	if err != nil {
		a.Put(nil)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(&data, a)}, nil
}

// Unmarshal decodes a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	received, ok := v.(*Received)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	received.Err = c.CodecV2.Unmarshal(data, received.Message)
	return nil
}
