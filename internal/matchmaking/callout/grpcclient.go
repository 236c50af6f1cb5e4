package callout

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// Keys of the queue's name in a gRPC call.
const (
	metadataQueue  = "tidemark-queue" // of the call
	extensionQueue = "tidemark.queue" // of the profile, a google.protobuf.StringValue
)

const (
	grpcMessageBytes = 4 << 20 // of one message, the default of gRPC's own servers
	grpcHeaderBytes  = 64 << 10
	// gRPC's servers close connections, with their calls, after more than one PING in 5 minutes
	grpcPingAfter   = 6 * time.Minute
	grpcPingTimeout = 5 * time.Second  // also for TCP to acknowledge sent data
	grpcIdle        = 30 * time.Second // an unused connection is closed
)

// grpcBackoff is the pause after a failed connection attempt. Calls fail at once meanwhile.
var grpcBackoff = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
	MaxDelay: 2 * time.Second}

// dialGRPC returns a client of a gRPC service, which connects with its first call. For an http:// URL it uses HTTP/2
// with prior knowledge, as gRPC servers without TLS expect. The address of each connection is checked against targets.
func dialGRPC(address string, targets *jsonhttp.Targets) (*grpc.ClientConn, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("invalid URL")
	}
	security, port := insecure.NewCredentials(), "80"
	if u.Scheme == "https" {
		security, port = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}), "443"
	}
	if u.Port() != "" {
		port = u.Port()
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(security), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(grpcMessageBytes)),
		grpc.WithMaxHeaderListSize(grpcHeaderBytes),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: grpcPingAfter, Timeout: grpcPingTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: grpcBackoff, MinConnectTimeout: jsonhttp.DialTimeout}),
		grpc.WithIdleTimeout(grpcIdle), grpc.WithStreamInterceptor(withURL(u)),
	}
	if targets != nil {
		options = append(options, grpc.WithNoProxy(),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				return targets.DialContext(ctx, "tcp", addr)
			}))
	}
	return grpc.NewClient("passthrough:///"+net.JoinHostPort(u.Hostname(), port), options...)
}

// closeConn closes the connection of a function or an evaluator. It runs when the garbage collector has found that
// object unused: functions and evaluators have no Close method.
func closeConn(conn *grpc.ClientConn) { _ = conn.Close() }

// withURL returns an interceptor that adds a URL's path to methods, and its credentials to calls.
func withURL(u *url.URL) grpc.StreamClientInterceptor {
	path, authorization := strings.TrimSuffix(u.Path, "/"), ""
	if u.User != nil {
		password, _ := u.User.Password()
		authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return func(
		ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer,
		options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		if authorization != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", authorization)
		}
		return next(ctx, desc, conn, path+method, options...)
	}
}

// inQueue returns the context of a call of a method about a queue, and its span, of which the service is told.
func inQueue(ctx context.Context, method, queue string) (context.Context, tracing.Span) {
	ctx = metadata.AppendToOutgoingContext(ctx, metadataQueue, queue)
	if !tracing.Recorded(ctx) {
		return ctx, tracing.Span{}
	}
	method = strings.TrimPrefix(method, "/")
	ctx, span := tracing.Call(ctx, method, tracing.Text("rpc.system.name", "grpc"), tracing.Text("rpc.method", method),
		tracing.Text(tracing.Queue, queue))
	if parent := tracing.Header(ctx); parent != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", parent)
	}
	return ctx, span
}

// endSpan ends the span of a call.
func endSpan(span tracing.Span, err error) {
	if span.Recorded() {
		name := code.Code(status.Code(err)).String() // such as NOT_FOUND
		span.Set(tracing.Text("rpc.response.status_code", name))
		if err != nil {
			span.Fail(name)
		}
	}
	span.End()
}

// runFunction calls Open Match's MatchFunction service, and passes its responses to each, as they arrive.
func runFunction(ctx context.Context, conn *grpc.ClientConn, queue string, request *openmatch.RunRequest,
	each func(*openmatch.RunResponse) error) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ctx, span := inQueue(ctx, openmatch.MatchFunction_Run_FullMethodName, queue)
	defer func() { endSpan(span, err) }()
	stream, err := openmatch.NewMatchFunctionClient(conn).Run(ctx, request)
	if err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return asServiceError(stream, err)
		}
		if err := each(answer); err != nil {
			return err
		}
	}
}

// serviceError is the status with which a service of gRPC has ended a call. It has a message.
type serviceError struct{ error }

// GRPCStatus returns the status.
func (e *serviceError) GRPCStatus() *status.Status { return status.Convert(e.error) }

func (e *serviceError) Unwrap() error { return e.error }

// libraryCodes are the codes of errors that grpc-go makes itself.
var libraryCodes = []codes.Code{
	codes.Unavailable, codes.Internal, codes.Canceled, codes.DeadlineExceeded, codes.ResourceExhausted,
}

// asServiceError returns the error of a stream as a *serviceError if the service itself has ended the call so. Errors
// with the codes that grpc-go uses too are returned as they are: its messages may have an address. So are those of
// answers that aren't of gRPC: their messages may have a part of the answer.
func asServiceError(stream grpc.ClientStream, err error) error {
	s := status.Convert(err)
	if slices.Contains(libraryCodes, s.Code()) {
		return err
	}
	header, _ := stream.Header() // an answer that is only a status has none
	for _, md := range []metadata.MD{header, stream.Trailer()} {
		kind := md.Get("content-type")
		if s.Message() != "" && len(kind) == 1 && strings.HasPrefix(kind[0], "application/grpc") {
			return &serviceError{err}
		}
	}
	return err
}

// callError returns the reason for the failure of a call whose context, call, was derived from ctx: the end of ctx, the
// call's timeout, or err. The service may report the deadline before the caller's context does.
func callError(ctx, call context.Context, err error) error {
	late := errors.Is(call.Err(), context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
	end, hasEnd := ctx.Deadline()
	until, _ := call.Deadline()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case late && hasEnd && end.Equal(until):
		return context.DeadlineExceeded
	case late:
		return jsonhttp.ErrTimeout
	}
	return err
}
