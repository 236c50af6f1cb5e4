package servertest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Protocol is a way to call gRPC services.
type Protocol struct {
	Name    string
	Native  bool // grpc-go calls the listener of gRPC
	GRPCGo  bool // grpc-go calls the HTTP port
	HTTP2   bool // the connect library calls the HTTP port
	Options []connect.ClientOption
}

// Native is gRPC on a listener of its own.
var Native = Protocol{Name: "gRPC, native", Native: true}

// GRPCGo is plain gRPC on the HTTP port, by grpc-go.
var GRPCGo = Protocol{Name: "gRPC by grpc-go", GRPCGo: true}

// GRPC is plain gRPC on the HTTP port.
var GRPC = Protocol{Name: "gRPC", HTTP2: true, Options: []connect.ClientOption{connect.WithGRPC()}}

// Protocols are all ways to call gRPC services.
var Protocols = []Protocol{
	Native,
	GRPCGo,
	GRPC,
	{Name: "gRPC on HTTP 1.1", Options: []connect.ClientOption{connect.WithGRPC()}},
	{Name: "gRPC-Web", HTTP2: true, Options: []connect.ClientOption{connect.WithGRPCWeb()}},
	{Name: "gRPC-Web on HTTP 1.1", Options: []connect.ClientOption{connect.WithGRPCWeb()}},
	{Name: "Connect", HTTP2: true},
	{Name: "Connect on HTTP 1.1"},
	{Name: "Connect with JSON", HTTP2: true, Options: []connect.ClientOption{connect.WithProtoJSON()}},
	{Name: "Connect with gzip", HTTP2: true, Options: []connect.ClientOption{connect.WithSendGzip()}},
}

// Dial returns a connection for generated clients. Native protocols call address, the others url. Errors have a gRPC
// status, whichever the protocol.
func (p Protocol) Dial(t testing.TB, address, url string) grpc.ClientConnInterface {
	t.Helper()
	if p.GRPCGo {
		address = strings.TrimPrefix(url, "http://")
	} else if !p.Native {
		return &connectConn{url: url, client: Client(t, p.HTTP2), options: p.Options}
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// connectConn calls by the connect library.
type connectConn struct {
	url     string
	client  connect.HTTPClient
	options []connect.ClientOption
}

type dynamicClient = connect.Client[dynamicpb.Message, dynamicpb.Message]

// of returns a client of a method whose answers have a type.
func (c *connectConn) of(method string, answer protoreflect.MessageDescriptor) *dynamicClient {
	initialize := func(_ connect.Spec, message any) error {
		if m, ok := message.(*dynamicpb.Message); ok {
			*m = *dynamicpb.NewMessage(answer)
		}
		return nil
	}
	options := append([]connect.ClientOption{connect.WithResponseInitializer(initialize)}, c.options...)
	return connect.NewClient[dynamicpb.Message, dynamicpb.Message](c.client, c.url+method, options...)
}

// Invoke calls a method that has one answer.
func (c *connectConn) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	response, err := c.of(method, reply.(proto.Message).ProtoReflect().Descriptor()).CallUnary(ctx,
		requestOf(ctx, args))
	if err != nil {
		return statusOf(err)
	}
	for _, o := range options {
		if header, ok := o.(grpc.HeaderCallOption); ok {
			*header.HeaderAddr = metadata.MD{}
			for name, values := range response.Header() {
				header.HeaderAddr.Set(name, values...)
			}
		}
	}
	return copyInto(reply, response.Msg)
}

// NewStream calls a method whose answer is a stream, when its first message is asked for.
func (c *connectConn) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (
	grpc.ClientStream, error) {
	return &connectStream{conn: c, ctx: ctx, method: method}, nil
}

func requestOf(ctx context.Context, message any) *connect.Request[dynamicpb.Message] {
	m := dynamicpb.NewMessage(message.(proto.Message).ProtoReflect().Descriptor())
	_ = copyInto(m, message.(proto.Message)) // the same type
	request := connect.NewRequest(m)
	sent, _ := metadata.FromOutgoingContext(ctx)
	for name, values := range sent {
		request.Header()[http.CanonicalHeaderKey(name)] = values
	}
	return request
}

func copyInto(to any, from proto.Message) error {
	data, err := proto.Marshal(from)
	if err != nil {
		return err
	}
	return proto.Unmarshal(data, to.(proto.Message))
}

// statusOf returns an error with a gRPC status.
func statusOf(err error) error {
	var e *connect.Error
	if errors.As(err, &e) {
		return status.Error(codes.Code(e.Code()), e.Message())
	}
	return err
}

// connectStream is a stream of answers.
type connectStream struct {
	grpc.ClientStream
	conn    *connectConn
	ctx     context.Context //nolint:containedctx // of the call, as in grpc-go
	method  string
	request any
	answers *connect.ServerStreamForClient[dynamicpb.Message]
}

func (s *connectStream) Context() context.Context { return s.ctx }
func (s *connectStream) CloseSend() error         { return nil }

func (s *connectStream) SendMsg(message any) error {
	s.request = message
	return nil
}

func (s *connectStream) RecvMsg(message any) (err error) {
	if s.answers == nil {
		client := s.conn.of(s.method, message.(proto.Message).ProtoReflect().Descriptor())
		if s.answers, err = client.CallServerStream(s.ctx, requestOf(s.ctx, s.request)); err != nil {
			return statusOf(err)
		}
	}
	if s.answers.Receive() {
		return copyInto(message, s.answers.Msg())
	}
	defer func() { _ = s.answers.Close() }() // it has ended
	if err := s.answers.Err(); err != nil {
		return statusOf(err)
	}
	return io.EOF
}
