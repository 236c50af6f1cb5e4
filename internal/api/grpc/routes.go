package grpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// RequestHeaders and ResponseHeaders are the headers that gRPC-Web and Connect clients in a web page send, and must be
// able to read.
var (
	RequestHeaders = []string{
		"Connect-Protocol-Version", "Connect-Timeout-Ms", "Grpc-Timeout", "X-Grpc-Web", "X-User-Agent",
		"Tidemark-Match", "Tidemark-Queue", "Tidemark-Ticket-Id",
	}
	ResponseHeaders = []string{"Grpc-Status", "Grpc-Message", "Grpc-Status-Details-Bin"}
)

// AddRoutes adds a route for each procedure to the router, for clients of gRPC, gRPC-Web and Connect, and Open Match's
// JSON paths. It must be called at most once.
func (s *Services) AddRoutes() {
	for _, service := range s.served {
		desc, methods := s.around(service.desc, true), descriptorOf(service.desc.ServiceName).Methods()
		for _, d := range desc.Methods {
			s.addRoute(methods.ByName(protoreflect.Name(d.MethodName)), serving{impl: service.impl, unary: d.Handler})
		}
		for _, d := range desc.Streams {
			s.addRoute(methods.ByName(protoreflect.Name(d.StreamName)),
				serving{impl: service.impl, stream: d.Handler, clientStreams: d.ClientStreams})
		}
	}
	s.router.FailUnrouted(isGRPC, failUnrouted)
}

func descriptorOf(service string) protoreflect.ServiceDescriptor {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		panic(fmt.Sprintf("find the service %s: %v", service, err)) // impossible: it is generated
	}
	return found.(protoreflect.ServiceDescriptor)
}

// procedure is a route of a method.
type procedure struct {
	serving

	method   string
	maxBytes int          // of a message
	handler  http.Handler // of the protocols Connect, gRPC and gRPC-Web
}

// shortRequestBytes is the largest message of procedures with small messages: a long call can retain its message.
const shortRequestBytes = 4 << 10

// addRoute adds the routes of a method, so that each has its own metrics.
func (s *Services) addRoute(d protoreflect.MethodDescriptor, m serving) {
	p := procedure{
		serving: m, method: "/" + string(d.Parent().FullName()) + "/" + string(d.Name()), maxBytes: s.limits.MessageBytes,
	}
	needed := needOf(p.method)
	if !needed.large {
		p.maxBytes = min(p.maxBytes, shortRequestBytes)
	}
	byGet := needed.reads && m.unary != nil
	p.handler = s.connectHandler(p.method, m, p.maxBytes, byGet)
	route := web.Route{
		Method: http.MethodPost, Path: p.method, Query: web.QueryIgnored, Action: needed.action, Open: needed.open,
		Large: needed.reads, Handle: p.serve,
	}
	if m.clientStreams {
		route.Handle = p.serveStream
	}
	api := web.API{Router: s.router, Fail: refuseBy(failCall)}
	api.Add(route)
	if byGet {
		route.Method, route.Handle = http.MethodGet, p.serveGet
		api.Add(route)
	}
	if path, ok := jsonPathOf(d); ok {
		call := jsonCall{procedure: p, jsonPath: path}
		route.Method, route.Path, route.Handle = path.verb, path.path, call.serve
		web.API{Router: s.router, Fail: refuseBy(call.fail)}.Add(route)
	}
}

// refuseBy returns how a request that isn't served is answered: in the form of the client's protocol, by fail, if its
// client has to understand the error.
func refuseBy(fail func(*web.Call, error)) func(*web.Call, error) {
	return func(c *web.Call, err error) {
		var e *fault.Error
		switch {
		case !errors.As(err, &e):
		case e.Kind == fault.Unauthenticated, e.Kind == fault.Limited, e.Slug == fault.SlugNotGranted,
			e.Slug == fault.SlugTokenInQuery:
			c.SetRetryAfter(web.ProblemOf(err).RetryAfter)
			fail(c, err)
			return
		}
		web.Fail(c, err)
	}
}

// serve serves a request that has one message.
func (p procedure) serve(c *web.Call) error {
	body, err := p.body(c, c.Request().Header.Get(compressionHeader(c.Request().Header)))
	if err != nil {
		failCall(c, err)
		return nil
	}
	message := &messageBody{Reader: bytes.NewReader(body.Bytes), read: func() {}}
	if p.stream != nil {
		message.read = sync.OnceFunc(body.Copied) // the call may last
		defer message.read()
	} else {
		defer body.Release()
	}
	if err := p.check(c, body.Bytes); err != nil {
		failCall(c, err)
		return nil
	}
	p.call(c, message)
	return nil
}

// messageBody is a body that has arrived.
type messageBody struct {
	*bytes.Reader

	read func() // called when it has been read
}

// Read reads a part of the body.
func (b *messageBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		b.read()
	}
	return n, err
}

// Close does nothing.
func (b *messageBody) Close() error { return nil }

// serveStream serves a request that has a stream of messages.
func (p procedure) serveStream(c *web.Call) error {
	if err := checkEncoding(c); err != nil {
		failCall(c, err)
		return nil
	}
	p.call(c, c.Request().Body)
	return nil
}

// serveGet serves a request whose message is in its query.
func (p procedure) serveGet(c *web.Call) error {
	p.call(c, http.NoBody)
	return nil
}

// body reads the body of a request, and waits until it may be decoded. The caller releases it. The memory of the body
// counts until a unary call ends or, in a call whose answer is a stream, until the message is decoded.
func (p procedure) body(c *web.Call, compression string) (*web.Buffer, error) {
	body, err := c.EncodedBody()
	if err != nil || compression != gzipName {
		return body, err
	}
	if err := c.Inflate(p.maxBytes); err != nil {
		body.Release()
		return nil, err
	}
	return body, nil
}

// check checks a message before memory is allocated for its announced size.
func (p procedure) check(c *web.Call, body []byte) error {
	if err := checkEncoding(c); err != nil {
		return err
	}
	kind, length := c.Request().Header.Get(headerContentType), len(body)
	if strings.HasPrefix(kind, typeGRPC) || strings.HasPrefix(kind, typeConnectStream) {
		const prefix = 5 // a byte of flags, and the length
		if len(body) < prefix || len(body)-prefix != int(binary.BigEndian.Uint32(body[1:])) {
			return badRequest("the body isn't one message")
		}
		length -= prefix
	}
	if length > p.maxBytes {
		return tooLarge(int64(p.maxBytes))
	}
	if length == 0 && strings.HasSuffix(withoutParameters(kind), formatJSON) {
		return badRequest("the message is empty, which isn't JSON")
	}
	return nil
}

// call passes a request to the service.
func (p procedure) call(c *web.Call, body io.ReadCloser) {
	header := c.Request().Header
	ctx, cancel, err := withTimeout(c.Context(), header, timeoutHeader(header))
	if err != nil {
		failCall(c, err)
		return
	}
	defer cancel()
	c.SetOutcome(http.StatusBadRequest, errUnreadCall) // for metrics and log, if the service isn't called
	c.SetHeaders()
	request := c.Request().WithContext(p.begin(ctx, c))
	request.Body, request.ContentLength = body, -1
	request.Header = header.Clone()
	request.Header.Del(headerGRPCTimeout)
	request.Header.Del(headerConnectTimeout)
	if kind := header.Get(headerContentType); strings.HasPrefix(kind, typeGRPC) {
		request.Header.Set(headerContentType, withoutParameters(kind)) // the connect library knows none of gRPC
	}
	p.handler.ServeHTTP(c.Response(), request)
}

// begin returns the context of a call, in which services find the request.
func (p procedure) begin(ctx context.Context, c *web.Call) context.Context {
	ctx = metadataIn(context.WithValue(ctx, requestKey{}, c), c.Request().Header)
	return grpc.NewContextWithServerTransportStream(ctx, &transport{p.method, c.Response().Header()})
}

// errUnreadCall is the error of an unreadable call. Only the client receives the details.
var errUnreadCall = errors.New("the call can't be read")

// requestKey is the context key of the *web.Call of a request on the HTTP port.
type requestKey struct{}

// requestOf returns the request of a call, or nil if it didn't come by the HTTP port.
func requestOf(ctx context.Context) *web.Call {
	c, _ := ctx.Value(requestKey{}).(*web.Call)
	return c
}

// setDeadlines sets the times until which the rest of a request may be read, and its answer be written; zero: no
// limit. If they can't be changed, they remain.
func setDeadlines(c *web.Call, read, write time.Time) {
	deadlines := http.NewResponseController(c.Response())
	_ = deadlines.SetReadDeadline(read)
	_ = deadlines.SetWriteDeadline(write)
}

// isGRPC reports whether a request is a call of gRPC or gRPC-Web.
func isGRPC(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), typeGRPC)
}

// failCall answers a call that failed before it reached a service.
func failCall(c *web.Call, err error) {
	clientErr := failedCall(c, err)
	e := connect.NewError(connect.Code(clientErr.Code()), errors.New(clientErr.Message()))
	_ = connect.NewErrorWriter().Write(c.Response(), answerable(c.Request()), e) // fails only if the client has gone
}

// failUnrouted answers a call of a procedure that doesn't exist.
func failUnrouted(c *web.Call, err error) {
	if !errors.Is(err, web.ErrNoPath) {
		web.Fail(c, err)
		return
	}
	var e *fault.Error
	errors.As(err, &e)
	failCall(c, status.Error(codes.Unimplemented, e.Detail))
}
