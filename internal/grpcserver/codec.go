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

// Received is a message for Codec to decode into. Streams that aren't grpc-go's own call Decode.
type Received struct {
	Message  any
	Admitter Admitter // nil: every message is decoded
	Err      error    // why the message wasn't decoded
}

// Decode decodes a message of size bytes with decode, if it is admitted, and sets Err.
func (r *Received) Decode(size int, decode func(message any) error) {
	if r.Admitter != nil {
		if r.Err = r.Admitter.Admit(size); r.Err != nil {
			return
		}
	}
	r.Err = decode(r.Message)
}

// Admitter decides on messages by their size.
type Admitter interface {
	// Admit returns an error if a message of size bytes may not be decoded.
	Admit(size int) error
}

// Receive reads a message with read: the RecvMsg of a stream, or the decoder of a grpc.MethodHandler. a may be nil. If the
// message can't be decoded, the error is ErrNotProtobuf; grpc-go would call it an internal error.
func Receive(read func(any) error, message any, a Admitter) error {
	received := &Received{Message: message, Admitter: a}
	if err := read(received); err != nil {
		return err
	}
	return received.Err
}

// codec is grpc-go's codec of protobuf, which also decodes into *Received and encodes *counted.
type codec struct{ encoding.CodecV2 }

// Codec returns the codec for grpc.ForceServerCodecV2 of servers that use Receive or SendAnswers.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// Marshal encodes a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if a, ok := v.(*counted); ok {
		return a.encode()
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal decodes a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	received, ok := v.(*Received)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	received.Decode(data.Len(), func(message any) error {
		if c.CodecV2.Unmarshal(data, message) != nil {
			return ErrNotProtobuf
		}
		return nil
	})
	return nil
}
