package grpc

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/grpcserver"
)

// serving is a method on the HTTP port. One of unary and stream is set.
type serving struct {
	impl          any
	unary         grpc.MethodHandler
	stream        grpc.StreamHandler
	clientStreams bool // the client sends a stream
}

// connectHandler returns the handler of a method for the protocols Connect, gRPC and gRPC-Web. Requests may have
// messages of maxBytes, also when they are decompressed. Answers aren't compressed. byGet is set if Connect's clients
// may call it by GET.
func (s *Services) connectHandler(path string, m serving, maxBytes int, byGet bool) http.Handler {
	options := []connect.HandlerOption{
		connect.WithReadMaxBytes(maxBytes),
		connect.WithSendMaxBytes(max(largestAnswer, 4*s.limits.MessageBytes)), // JSON is longer
		connect.WithCompression(gzipName, func() connect.Decompressor { return &inflater{maxBytes: maxBytes} },
			func() connect.Compressor { return gzip.NewWriter(io.Discard) }),
		connect.WithCompressMinBytes(math.MaxInt),
		connect.WithCodec(protoCodec{}), connect.WithCodec(jsonCodec{formatJSON}),
		connect.WithCodec(jsonCodec{formatJSON + "; charset=utf-8"}),
	}
	if byGet {
		options = append(options, connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	}
	switch {
	case m.clientStreams:
		return connect.NewBidiStreamHandler(path, func(ctx context.Context, b *connect.BidiStream[received, answered]) error {
			return connectError(m.stream(m.impl, &connectStream{ctx: ctx, conn: b.Conn()}))
		}, options...)
	case m.stream != nil:
		return connect.NewServerStreamHandler(path, func(
			ctx context.Context, r *connect.Request[received], answers *connect.ServerStream[answered],
		) error {
			return connectError(m.stream(m.impl, &connectStream{ctx: ctx, conn: answers.Conn(), request: r.Msg}))
		}, options...)
	}
	return connect.NewUnaryHandler(path, func(
		ctx context.Context, r *connect.Request[received],
	) (*connect.Response[answered], error) {
		answer, err := m.unary(m.impl, ctx, r.Msg.decode, nil)
		if err != nil {
			return nil, connectError(err)
		}
		return connect.NewResponse(&answered{answer.(proto.Message)}), nil
	}, options...)
}

// connectError returns an error with a gRPC status in the form of the connect library.
func connectError(err error) error {
	if err == nil {
		return nil
	}
	clientErr := status.Convert(err)
	converted := connect.NewError(connect.Code(clientErr.Code()), errors.New(clientErr.Message()))
	for _, detail := range clientErr.Proto().GetDetails() {
		if d, err := connect.NewErrorDetail(detail); err == nil {
			converted.AddDetail(d)
		}
	}
	return converted
}

// received is a message of a client. It is decoded by the call, which knows its type and counts errors.
type received struct {
	data      []byte // nil after decode
	unmarshal func([]byte, proto.Message) error
}

// decode decodes the message into that of a *grpcserver.Received, and drops it: the call may last.
func (r *received) decode(into any) error {
	into.(*grpcserver.Received).Decode(len(r.data), func(message any) error {
		if r.unmarshal == nil { // the connect library decodes no empty messages
			return nil
		}
		return r.unmarshal(r.data, message.(proto.Message))
	})
	r.data = nil
	return nil
}

// answered is the answer of a unary call.
type answered struct{ message proto.Message }

// messageOf returns the message to encode: an answer, or the status that the connect library sends for an error.
func messageOf(v any) proto.Message {
	if a, ok := v.(*answered); ok {
		return a.message
	}
	return v.(proto.Message)
}

// protoCodec is the connect library's codec of protobuf.
type protoCodec struct{}

// Name returns the name in content types.
func (protoCodec) Name() string { return formatProto }

// Marshal encodes a message.
func (c protoCodec) Marshal(v any) ([]byte, error) { return c.MarshalAppend(nil, v) }

// MarshalAppend appends a message. The connect library has buffers for it.
func (protoCodec) MarshalAppend(data []byte, v any) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(data, messageOf(v))
}

// Unmarshal reads a message.
func (protoCodec) Unmarshal(data []byte, v any) error {
	*v.(*received) = received{bytes.Clone(data), func(data []byte, m proto.Message) error {
		if proto.Unmarshal(data, m) != nil {
			return grpcserver.ErrNotProtobuf
		}
		return nil
	}}
	return nil
}

// jsonCodec is the connect library's codec of JSON, by its name in content types.
type jsonCodec struct{ name string }

// Name returns the name in content types.
func (c jsonCodec) Name() string { return c.name }

// Marshal encodes a message.
func (c jsonCodec) Marshal(v any) ([]byte, error) { return c.MarshalAppend(nil, v) }

// MarshalAppend appends a message. The connect library has buffers for it.
func (jsonCodec) MarshalAppend(data []byte, v any) ([]byte, error) {
	return appendJSON(protojson.MarshalOptions{Resolver: jsonTypes, EmitUnpopulated: true}, data, messageOf(v))
}

// Unmarshal reads a message.
func (jsonCodec) Unmarshal(data []byte, v any) error {
	*v.(*received) = received{bytes.Clone(data), readJSON}
	return nil
}

// connectStream is the stream of a call.
type connectStream struct {
	grpc.ServerStream                 // nil: only the methods below are called
	ctx               context.Context //nolint:containedctx // of the call, as in grpc-go
	conn              connect.StreamingHandlerConn
	request           *received // nil: the client sends a stream
}

// Context returns the context of the call.
func (s *connectStream) Context() context.Context { return s.ctx }

// SendMsg sends a message.
func (s *connectStream) SendMsg(message any) error { return s.conn.Send(message) }

// RecvMsg reads a message.
func (s *connectStream) RecvMsg(message any) error {
	next := s.request
	if next == nil {
		next = new(received)
		if err := s.conn.Receive(next); err != nil {
			return clientsError(err)
		}
	}
	return next.decode(message)
}

// clientsError returns an error of the connect library with a gRPC status.
func clientsError(err error) error {
	var e *connect.Error
	if errors.As(err, &e) {
		return status.Error(codes.Code(e.Code()), e.Message())
	}
	return err
}

// transport takes the headers of the answer to a unary call from grpc.SetHeader.
type transport struct {
	method string
	header http.Header
}

// Method returns the procedure.
func (t *transport) Method() string { return t.method }

// SetHeader adds headers.
func (t *transport) SetHeader(md metadata.MD) error {
	for name, values := range md {
		for _, value := range values {
			t.header.Add(name, value)
		}
	}
	return nil
}

// SendHeader adds headers, which are sent with the answer.
func (t *transport) SendHeader(md metadata.MD) error { return t.SetHeader(md) }

// SetTrailer does nothing: on the HTTP port no trailers are set.
func (t *transport) SetTrailer(metadata.MD) error { return nil }
