package grpc

import (
	"container/list"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/server/web"
)

// method is a procedure, and what its calls have in common. It is made once, so that a call looks nothing up.
type method struct {
	path     string // /openmatch.FrontendService/GetTicket
	asks     bool   // the client sends a stream
	streams  bool   // its answer is a stream
	http     bool   // it is called on the HTTP port, whose plumbing counts, logs and names the requests
	counts   *web.Procedure
	drained  <-chan struct{} // closed when the server drains
	arrivals *arrivals       // of the listener of gRPC; nil: the request has arrived when the call begins
	router   *web.Router
	need     need // of the client, on a service that isn't open
}

// intercept returns a handler with what all calls have in common. Its parts are called one after the other, and not each by the
// one before: what a call that waits has on its stack costs time, too.
func intercept(m *method, handler grpc.StreamHandler) grpc.StreamHandler {
	if m.asks {
		handler = drained(m, handler)
	}
	if m.path != "" && !m.need.open && (m.router.Guard() != nil || !m.http && m.router.Limited()) {
		handler = authorized(m, handler)
	}
	return func(srv any, ss grpc.ServerStream) (err error) {
		c := begin(m, ss)
		defer c.end(&err)
		return handler(srv, c)
	}
}

// call is a call in progress, and its stream. It is used by one goroutine.
type call struct {
	grpc.ServerStream
	method   *method
	request  *request // on the HTTP port
	started  time.Time
	id       string        // of the request; requestID returns it
	received bool          // the first message has arrived
	arrival  *list.Element // the place in arrivals
	refused  atomic.Bool   // the message took too long to arrive
	headed   bool          // head was called
	status   int           // for metrics and log; 0: the call succeeded
	err      error         // what went wrong, for the log
	client   *access.Principal
}

func begin(m *method, ss grpc.ServerStream) *call {
	c := &call{ServerStream: ss, method: m, started: time.Now(), status: http.StatusOK}
	if m.http {
		c.request = requestOf(ss.Context())
	}
	return c
}

// end ends a call with the error of its handler, and turns that into what the client is told. It must be deferred.
func (c *call) end(err *error) {
	if p := recover(); p != nil {
		c.logPanic(p)
		*err = web.ErrPanic
	}
	*err = c.explain(*err)
	c.head() // of an answer without a message
	c.trail(*err)
	c.finish()
}

// finish counts and logs the call.
func (c *call) finish() {
	if c.request != nil {
		if c.method.streams && c.Context().Err() == nil { // a deadline of a closed stream would keep it in memory until then
			c.request.setDeadlines(time.Time{}, time.Now().Add(web.AnswerTimeout)) // for the end of the answer
		}
		c.request.tell(func(w *web.Call) { w.SetOutcome(c.status, c.err) })
		return
	}
	c.method.counts.Done(c.Context(), web.Outcome{
		Path: c.path(), Status: c.status, Err: c.err, Elapsed: time.Since(c.started), Principal: c.client, About: c.about,
	})
}

// path returns the procedure. That of a call without a method is the client's.
func (c *call) path() string {
	if c.method.path == "" {
		path, _ := grpc.MethodFromServerStream(c.ServerStream)
		return path
	}
	return c.method.path
}

func (c *call) about() (id, client string) {
	return c.requestID(), c.method.clientOf(c.Context())
}

// clientOf returns the address of the client of a call on the listener of gRPC, or "" if it isn't known.
func (m *method) clientOf(ctx context.Context) string {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	return m.router.Client(from.Addr.String(), metadata.ValueFromIncomingContext(ctx, metadataForwarded))
}

const (
	metadataRequestID = "x-request-id"
	metadataForwarded = "x-forwarded-for"
)

// requestID returns the ID that the client sent, or a new one. It is made when it is first needed.
func (c *call) requestID() string {
	if c.id == "" {
		c.id = web.RequestID(c.sentID(), c.started)
	}
	return c.id
}

func (c *call) sentID() []string {
	return metadata.ValueFromIncomingContext(c.Context(), metadataRequestID)
}

// head puts the request's ID into the headers of the answer if the client sent one. Other clients have no use for the ID of a
// call that succeeds, and a header that has a new value in each answer takes much time. On the HTTP port each answer has it.
func (c *call) head() {
	if c.headed || c.request != nil {
		return
	}
	c.headed = true
	if len(c.sentID()) > 0 {
		_ = c.SetHeader(metadata.MD{metadataRequestID: {c.requestID()}}) // fails only if the client has gone
	}
}

// trail puts the request's ID, under which the log has a failed call, into the trailers of its answer.
func (c *call) trail(err error) {
	if err != nil && c.request == nil && c.Context().Err() == nil {
		c.SetTrailer(metadata.MD{metadataRequestID: {c.requestID()}})
	}
}

// explain returns what the client is told about an error of the service.
func (c *call) explain(err error) error {
	if err == nil {
		return nil
	}
	told := toldOf(c.Context(), err)
	c.status, c.err = statusOf(told.Code(), err), err
	if c.status == http.StatusGatewayTimeout && c.Context().Err() != nil {
		c.status = web.StatusClientGone // the deadline was the client's
	}
	return told.Err()
}

func (c *call) logPanic(p any) {
	if c.request != nil {
		c.request.tell(func(w *web.Call) { w.LogPanic(p) })
		return
	}
	c.method.counts.LogPanic(c.requestID(), p)
}

// drained ends a call whose client sends a stream when the server drains. The services end other calls that wait.
func drained(m *method, next grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, ss grpc.ServerStream) error {
		return next(srv, &drainedStream{ServerStream: ss, drained: m.drained})
	}
}

type drainedStream struct {
	grpc.ServerStream
	drained <-chan struct{}
}

// RecvMsg reads a message. After an error the goroutine that reads ends with the call.
func (s *drainedStream) RecvMsg(message any) error {
	read := make(chan error, 1)
	go func() { read <- s.ServerStream.RecvMsg(message) }()
	select {
	case err := <-read:
		return err
	case <-s.drained:
		return errDraining
	case <-s.Context().Done():
		if ended := credentialEnd(s.Context()); ended != nil {
			return ended
		}
		return <-read // it ends with the call
	}
}

// unreadError is the error of a message that could not be read. grpc-go has told the client already.
type unreadError struct{ cause error }

func (e *unreadError) Error() string { return "read the message: " + e.cause.Error() }
func (e *unreadError) Unwrap() error { return e.cause }

// RecvMsg reads a message.
func (c *call) RecvMsg(message any) error {
	in := &received{message: message}
	if c.received { // streams of requests may pause between them
		return c.unread(c.ServerStream.RecvMsg(in), in)
	}
	if c.method.arrivals != nil {
		c.method.arrivals.begin(c)
		defer c.method.arrivals.end(c)
	}
	err := c.ServerStream.RecvMsg(in)
	c.received = true
	c.lift()
	return c.unread(err, in)
}

// unread returns why a message was not read, or nil.
func (c *call) unread(err error, in *received) error {
	switch {
	case err != nil && c.refused.Load():
		return errSlow
	case err == nil && in.err != nil:
		return errNotProtobuf
	case err == nil || errors.Is(err, io.EOF):
		return err
	}
	return &unreadError{cause: err}
}

// lift removes the deadlines that net/http has for a request whose answer is a stream: it may last as long as the client
// wants.
func (c *call) lift() {
	if c.request != nil && c.method.streams {
		c.request.setDeadlines(time.Time{}, time.Time{})
	}
}

// SendMsg sends a message.
func (c *call) SendMsg(message any) error {
	c.head()
	return c.ServerStream.SendMsg(message)
}

// intercepted returns the description of a service whose handlers are those of intercept. Methods with one answer become
// streams with one message: grpc-go reads the messages of other methods before it calls any code of ours, so that what can't
// be read would be neither counted nor logged.
func intercepted(sd *grpc.ServiceDesc, newMethod func(path string) *method) *grpc.ServiceDesc {
	made := &grpc.ServiceDesc{ServiceName: sd.ServiceName, HandlerType: sd.HandlerType, Metadata: sd.Metadata}
	for _, d := range sd.Methods {
		one := func(srv any, ss grpc.ServerStream) error {
			answer, err := d.Handler(srv, ss.Context(), ss.RecvMsg, nil)
			if err != nil {
				return err
			}
			return ss.SendMsg(answer)
		}
		m := newMethod("/" + sd.ServiceName + "/" + d.MethodName)
		made.Streams = append(made.Streams, grpc.StreamDesc{StreamName: d.MethodName, ServerStreams: true, Handler: intercept(m, one)})
	}
	for _, d := range sd.Streams {
		m := newMethod("/" + sd.ServiceName + "/" + d.StreamName)
		m.asks, m.streams = d.ClientStreams, d.ServerStreams
		d.Handler = intercept(m, d.Handler)
		made.Streams = append(made.Streams, d)
	}
	return made
}

// unknown answers calls of procedures that don't exist.
func unknown(any, grpc.ServerStream) error { return errNoProcedure }

var errNoProcedure = status.Error(codes.Unimplemented, web.ErrNoPath.Detail)
