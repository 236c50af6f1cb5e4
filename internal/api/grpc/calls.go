package grpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/grpcserver"
	"github.com/tidemark-dev/tidemark/internal/places"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/internal/unsent"
)

// method is a procedure on one of the two listeners. It is created once, so that a call needs no lookups.
type method struct {
	path          string // /openmatch.FrontendService/GetTicket; empty for procedures that don't exist
	clientStreams bool   // the client sends a stream
	serverStreams bool   // the answer is a stream
	http          bool   // it is called on the HTTP port, where the router counts, logs and names the requests
	counts        *web.Procedure
	drained       func() <-chan struct{} // returns a channel that is closed when the server drains
	arrivals      *grpcserver.Arrivals   // on the listener of gRPC; nil: the request has arrived when the call begins
	router        *web.Router
	// onLoopback is whether the listener of gRPC is on a loopback address; nil: it is called on the HTTP port
	onLoopback *atomic.Bool
	need       need // of the client, on a service that isn't open
}

// around returns a copy of a service's description, whose handlers begin and end a call. It wraps handlers and has no
// interceptors, because grpc-go reads the message of a unary call before it calls an interceptor: the client would be
// authenticated too late, and an unreadable message neither counted nor logged.
func around(sd *grpc.ServiceDesc, newMethod func(path string) *method) *grpc.ServiceDesc {
	made := &grpc.ServiceDesc{ServiceName: sd.ServiceName, HandlerType: sd.HandlerType, Metadata: sd.Metadata}
	for _, d := range sd.Methods {
		d.Handler = newMethod("/" + sd.ServiceName + "/" + d.MethodName).unary(d.Handler)
		made.Methods = append(made.Methods, d)
	}
	for _, d := range sd.Streams {
		m := newMethod("/" + sd.ServiceName + "/" + d.StreamName)
		m.clientStreams, m.serverStreams = d.ClientStreams, d.ServerStreams
		d.Handler = m.stream(d.Handler)
		made.Streams = append(made.Streams, d)
	}
	return made
}

func (m *method) unary(handler grpc.MethodHandler) grpc.MethodHandler {
	return func(
		srv any, ctx context.Context, read func(any) error, interceptor grpc.UnaryServerInterceptor,
	) (answer any, err error) {
		c := m.begin(ctx)
		defer c.end(&err)
		if err := c.authorize(); err != nil {
			return nil, err
		}
		if err := c.holdConnection(); err != nil {
			return nil, err
		}
		receive := func(message any) error { return c.receive(message, read) }
		answer, err = handler(srv, c.ctx, receive, interceptor)
		switch {
		case err != nil:
			return nil, err
		case m.http: // before the status is sent: a refusal afterwards can only cut the answer off
			return answer, unsent.From(ctx).Grow(int64(proto.Size(answer.(proto.Message))))
		}
		return grpcserver.Count(answer, c.part)
	}
}

func (m *method) stream(handler grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, ss grpc.ServerStream) (err error) {
		c := m.begin(ss.Context())
		defer c.end(&err)
		if err := c.authorize(); err != nil {
			return err
		}
		if err := c.holdConnection(); err != nil {
			return err
		}
		return c.whileValid(func() error { return handler(srv, &stream{ServerStream: ss, call: c}) })
	}
}

// call is a call in progress. It is used by one goroutine.
type call struct {
	ctx       context.Context //nolint:containedctx // of the call, as in grpc-go
	method    *method
	request   *web.Call // on the HTTP port
	started   time.Time
	id        string // of the request; requestID returns it
	received  bool   // the first message was waited for
	refused   bool   // a message was, by its size
	headerSet bool   // setRequestIDHeader was called
	status    int    // for metrics and log
	err       error  // the cause, for the log
	client    *access.Principal
	place     *places.Place // of the connection on the listener of gRPC, while it is in use by the call
	message   *web.BodyPart // of the memory of bodies, on the listener of gRPC; nil: the message is small
	span      tracing.Span  // on the listener of gRPC; on the HTTP port it is the router's
}

func (m *method) begin(ctx context.Context) *call {
	c := &call{ctx: ctx, method: m, started: time.Now(), status: http.StatusOK}
	if m.http {
		c.request = requestOf(ctx)
		return c
	}
	if tracer := m.router.Tracer(); tracer != nil && m.path != "" && !m.need.open {
		c.ctx, c.span = tracer.Serve(ctx, metadata.ValueFromIncomingContext(ctx, metadataTraceparent), m.path[1:])
	}
	return c
}

// holdConnection keeps the connection of an admitted call on the listener of gRPC from giving way to others until the
// call ends. Error: web.ErrConnections if it gave way already.
func (c *call) holdConnection() error {
	if m := c.method; !m.http && m.path != "" && !m.need.open {
		c.place = grpcserver.PlaceOf(c.ctx)
		if !c.place.Begin(c.client != nil && c.client.Kind != access.Nobody) {
			return web.ErrConnections
		}
	}
	return nil
}

// end ends a call with the error of its handler, and replaces that with the error for the client. It must be deferred.
func (c *call) end(err *error) {
	if p := recover(); p != nil {
		c.logPanic(p)
		*err = web.ErrPanic
	}
	*err = c.explain(*err)
	c.place.End()
	c.message.Release()
	c.setRequestIDHeader() // of an answer without a message
	c.setRequestIDTrailer(*err)
	c.finish()
	c.endSpan(status.Code(*err))
}

// endSpan ends the span of the call.
func (c *call) endSpan(outcome codes.Code) {
	if c.span.Recorded() {
		name := code.Code(outcome).String() // such as NOT_FOUND
		c.span.Set(tracing.Text("rpc.system.name", "grpc"), tracing.Text("rpc.method", c.method.path[1:]),
			tracing.Text("rpc.response.status_code", name))
		if c.status >= http.StatusInternalServerError {
			c.span.Fail(name)
		}
	}
	c.span.End()
}

// finish counts and logs the call.
func (c *call) finish() {
	if c.request != nil {
		// A deadline of a closed stream would keep it in memory until then.
		if c.method.serverStreams && c.ctx.Err() == nil {
			setDeadlines(c.request, time.Time{}, time.Now().Add(web.AnswerTimeout)) // for the end of the answer
		}
		c.request.SetOutcome(c.status, c.err)
		return
	}
	c.method.counts.Done(c.ctx, web.Outcome{
		Path: c.path(), Status: c.status, Err: c.err, Elapsed: time.Since(c.started), Principal: c.client, About: c.about,
	})
}

// path returns the procedure, which may be invented by the client.
func (c *call) path() string {
	if c.method.path == "" {
		path, _ := grpc.Method(c.ctx)
		return path
	}
	return c.method.path
}

func (c *call) about() (id, client string) {
	return c.requestID(), clientAddress(c.ctx, c.method.router)
}

// clientName returns whose share of the memory of answers the answer takes.
func (c *call) clientName() string {
	return web.Client(c.client, clientAddress(c.ctx, c.method.router))
}

// clientAddress returns the address of the client of a call on the listener of gRPC, or "" if it isn't known.
func clientAddress(ctx context.Context, router *web.Router) string {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	return router.Client(from.Addr.String(), metadata.ValueFromIncomingContext(ctx, metadataForwarded))
}

const (
	metadataRequestID   = "x-request-id"
	metadataForwarded   = "x-forwarded-for"
	metadataTraceparent = "traceparent"
)

// requestID returns the ID that the client sent, or a new one. It is generated on first use.
func (c *call) requestID() string {
	if c.id == "" {
		c.id = web.RequestID(c.sentID(), c.started)
	}
	return c.id
}

func (c *call) sentID() []string {
	return metadata.ValueFromIncomingContext(c.ctx, metadataRequestID)
}

// setRequestIDHeader adds the request's ID to the headers of the answer if the client sent one. Other clients don't
// need the ID of a successful call, and a header with a new value in each answer is expensive. On the HTTP port the
// router adds it.
func (c *call) setRequestIDHeader() {
	if c.headerSet || c.request != nil {
		return
	}
	c.headerSet = true
	if len(c.sentID()) > 0 {
		_ = grpc.SetHeader(c.ctx, metadata.MD{metadataRequestID: {c.requestID()}}) // fails only if the client has gone
	}
}

// setRequestIDTrailer adds the request's ID, which is also in the log, to the trailers of a failed call's answer.
func (c *call) setRequestIDTrailer(err error) {
	if err != nil && c.request == nil && c.ctx.Err() == nil {
		_ = grpc.SetTrailer(c.ctx, metadata.MD{metadataRequestID: {c.requestID()}}) // fails only outside of calls
	}
}

// explain converts an error of the service to the error for the client.
func (c *call) explain(err error) error {
	if err == nil {
		return nil
	}
	if ended := grpcserver.Ended(c.ctx); ended != nil {
		err = ended
	}
	clientErr := clientErrorOf(c.ctx, err)
	c.status, c.err = statusOf(clientErr.Code(), err), err
	if c.status == http.StatusGatewayTimeout && c.ctx.Err() != nil {
		c.status = web.StatusClientGone // the deadline was the client's
	}
	return clientErr.Err()
}

func (c *call) logPanic(p any) {
	if c.request != nil {
		c.request.LogPanic(p)
		return
	}
	c.method.counts.LogPanic(c.requestID(), p)
}

// receive reads a message.
func (c *call) receive(message any, read func(any) error) error {
	first := !c.received
	c.received = true
	if err := c.read(message, read, first); err != nil {
		return err
	}
	if err := c.authorizeMessage(message, first); err != nil || !first || c.method.http || c.method.need.open {
		return err
	}
	return c.method.router.Answers().Check(c.clientName)
}

// part returns the part of the answer to a call in the memory of all answers.
func (c *call) part() unsent.Part {
	if c.method.need.reads {
		return c.method.router.Answers().Part(c.clientName)
	}
	return c.method.router.Answers().Granted(c.clientName)
}

// read reads a message. Only the first one must arrive in time: streams of requests may pause between them.
func (c *call) read(message any, read func(any) error, first bool) (err error) {
	if first && c.method.arrivals != nil {
		err = c.method.arrivals.Receive(c.ctx, c.clientName, func() error { return grpcserver.Receive(read, message, c) })
	} else {
		err = grpcserver.Receive(read, message, c)
	}
	if first {
		c.arrived()
	}
	if errors.Is(err, grpcserver.ErrNotProtobuf) {
		return notProtobuf(c.ctx, err)
	}
	ended := errors.Is(err, errDraining) || errors.Is(err, access.ErrExpired) || errors.Is(err, access.ErrRevoked)
	if err == nil || ended || c.refused || errors.Is(err, io.EOF) {
		return err
	}
	return &unreadError{cause: err}
}

// Admit counts a message, before it is decoded, as further requests and in the memory of all bodies: until a unary call
// ends or, in a call whose answer is a stream, until the message is decoded. So what calls have sent takes at most as
// much memory as all bodies, of which each client has a share. On the HTTP port both were counted with the body: here
// only what a message has more when it is decompressed, which is done in turns.
func (c *call) Admit(size int) (err error) {
	switch {
	case c.request == nil:
		if size > web.SmallBody && !c.method.clientStreams {
			c.message = c.method.router.BodyPart()
			err = c.message.Grow(c.client, clientAddress(c.ctx, c.method.router), int64(size))
		}
		if err == nil {
			err = web.CountBody(c.ctx, int64(size))
		}
	case !c.method.clientStreams:
		err = c.request.Inflated(size)
	}
	c.refused = err != nil
	return err
}

// arrived lets the next large body be decoded. A call whose answer is a stream may last: it doesn't keep the memory of
// the message, and has no deadlines of net/http.
func (c *call) arrived() {
	switch {
	case c.request == nil && c.method.serverStreams:
		c.message.Release()
	case c.request == nil:
	case c.method.serverStreams:
		c.request.Forget()
		setDeadlines(c.request, time.Time{}, time.Time{})
	default:
		c.request.Decoded()
	}
}

// unreadError is the error of a message that could not be read. grpc-go has sent it to the client already.
type unreadError struct{ cause error }

func (e *unreadError) Error() string { return "read the message: " + e.cause.Error() }
func (e *unreadError) Unwrap() error { return e.cause }

// stream is the stream of a call.
type stream struct {
	grpc.ServerStream
	*call
}

// Context returns the context of the call.
func (s *stream) Context() context.Context { return s.ctx }

// SendMsg sends a message.
func (s *stream) SendMsg(message any) error {
	s.setRequestIDHeader()
	return s.ServerStream.SendMsg(message)
}

// RecvMsg reads a message.
func (s *stream) RecvMsg(message any) error {
	if !s.method.clientStreams {
		return s.receive(message, s.ServerStream.RecvMsg)
	}
	return s.receive(message, s.readUntilDrained)
}

// readUntilDrained reads a message unless the server drains: other waiting calls are ended by the services. After an
// error the reading goroutine ends with the call, whose message nobody reads any more.
func (s *stream) readUntilDrained(message any) error {
	read := make(chan error, 1)
	go func() { read <- s.ServerStream.RecvMsg(message) }()
	select {
	case err := <-read:
		return err
	case <-s.method.drained():
		return errDraining
	case <-s.ctx.Done():
		if ended := credentialEnd(s.ctx); ended != nil {
			return ended
		}
		return <-read // it ends with the call
	}
}

// unknown answers calls of procedures that don't exist.
func unknown(any, grpc.ServerStream) error { return errNoProcedure }

var errNoProcedure = status.Error(codes.Unimplemented, web.ErrNoPath.Detail)
