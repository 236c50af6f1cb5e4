package server

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/health"
	"github.com/tidemark-dev/tidemark/openmatch/health/healthconnect"
	"github.com/tidemark-dev/tidemark/openmatch/openmatchconnect"
)

// matchmaker is what Open Match's services need. *service.Service is one.
type matchmaker interface {
	players
	pools
}

// rpc is the services that are called by gRPC, gRPC-Web and Connect. Their requests go the way of all others, through
// route.serve; the connect library reads and writes what is in them.
type rpc struct {
	server  *Server
	drained chan struct{} // closed when the server begins to drain
}

// addRPC adds the routes of the services.
func (s *Server) addRPC(m matchmaker) *rpc {
	r := &rpc{server: s, drained: make(chan struct{})}
	options := connect.WithHandlerOptions(
		connect.WithInterceptors(r), connect.WithRecover(r.recovered), connect.WithConditionalHandlerOptions(r.maxBytesOf),
	)
	_, handler := openmatchconnect.NewFrontendServiceHandler(&frontend{players: m, channels: s.service, drained: r.drained}, options)
	r.mount(handler, proceduresOf(openmatch.File_openmatch_frontend_proto)...)
	_, handler = openmatchconnect.NewQueryServiceHandler(newQuery(m), options)
	r.mount(handler, proceduresOf(openmatch.File_openmatch_query_proto)...)
	_, handler = healthconnect.NewHealthHandler(&healthCheck{server: s, drained: r.drained}, options)
	r.mount(handler, proceduresOf(health.File_openmatch_health_health_proto)...)

	reflector := grpcreflect.NewStaticReflector(servedNames...)
	path, handler := grpcreflect.NewHandlerV1(reflector, options)
	r.mount(handler, path+"ServerReflectionInfo")
	path, handler = grpcreflect.NewHandlerV1Alpha(reflector, options)
	r.mount(handler, path+"ServerReflectionInfo")
	return r
}

// shortRequestBytes is the largest message of calls that need no larger one: a call that lasts keeps its message.
const shortRequestBytes = 4 << 10

// maxBytes bounds the request messages of a procedure.
func (r *rpc) maxBytes(procedure string) int64 {
	limit := r.server.options.MaxBodyBytes
	if procedure == openmatchconnect.FrontendServiceCreateTicketProcedure || strings.HasPrefix(procedure, "/"+openmatchconnect.QueryServiceName+"/") {
		return limit
	}
	return min(limit, shortRequestBytes)
}

// maxBytesOf is an option of handlers.
func (r *rpc) maxBytesOf(spec connect.Spec) []connect.HandlerOption {
	return []connect.HandlerOption{connect.WithReadMaxBytes(int(r.maxBytes(spec.Procedure)))}
}

// servedNames are the services that reflection and health checks know.
var servedNames = []string{
	openmatchconnect.FrontendServiceName, openmatchconnect.QueryServiceName, healthconnect.HealthName,
}

// drain ends all calls that wait. It must be called once at most; r may be nil.
func (r *rpc) drain() {
	if r != nil {
		close(r.drained)
	}
}

// proceduresOf gives the paths of a file's calls.
func proceduresOf(file protoreflect.FileDescriptor) []string {
	var procedures []string
	for i := range file.Services().Len() {
		service := file.Services().Get(i)
		for j := range service.Methods().Len() {
			procedures = append(procedures, "/"+string(service.FullName())+"/"+string(service.Methods().Get(j).Name()))
		}
	}
	return procedures
}

// mount adds a route for each call, so that each has its own metrics.
func (r *rpc) mount(h http.Handler, procedures ...string) {
	a := api{server: r.server, fail: failWithProblem}
	for _, procedure := range procedures {
		a.add(http.MethodPost, procedure, queryIgnored, func(c *call) error { return r.serve(c, h) })
	}
}

// errUnreadCall is why the connect library refused a call. It tells only the client more.
var errUnreadCall = errors.New("the call can't be read")

// callKey is the key of the *call in a call's context.
type callKey struct{}

func (r *rpc) serve(c *call, h http.Handler) error {
	c.status, c.err = http.StatusBadRequest, errUnreadCall // for metrics and log, where no interceptor is called
	c.setHeaders()
	request := c.request.WithContext(context.WithValue(c.request.Context(), callKey{}, c))
	request.Body = newRPCBody(c, r.maxBytes(request.URL.Path))
	h.ServeHTTP(c.response, request)
	return nil
}

// WrapUnary makes r an interceptor.
func (r *rpc) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		response, err := next(ctx, request)
		return response, finishRPC(ctx, err)
	}
}

// WrapStreamingHandler makes r an interceptor.
func (r *rpc) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		c := ctx.Value(callKey{}).(*call)
		s := stream{StreamingHandlerConn: conn, deadlines: http.NewResponseController(c.response)}
		err := finishRPC(ctx, next(ctx, s))
		if ctx.Err() == nil { // a deadline of a stream that is closed already would keep all of it until then
			_ = s.deadlines.SetWriteDeadline(time.Now().Add(answerTimeout)) // for the end of the answer
		}
		return err
	}
}

// WrapStreamingClient makes r an interceptor. It is none of clients.
func (r *rpc) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// stream is a streaming call. It may last for as long as the client likes, once its first message has come in. Where
// deadlines can't be changed they stay.
type stream struct {
	connect.StreamingHandlerConn
	deadlines *http.ResponseController
}

// Receive reads a message.
func (s stream) Receive(message any) error {
	err := s.StreamingHandlerConn.Receive(message)
	_ = s.deadlines.SetReadDeadline(time.Time{})
	_ = s.deadlines.SetWriteDeadline(time.Time{})
	return err
}

// recovered logs a panic of a handler, and gives the error that the client gets.
func (r *rpc) recovered(ctx context.Context, _ connect.Spec, _ http.Header, p any) error {
	c := ctx.Value(callKey{}).(*call)
	r.server.log.ErrorContext(ctx, "panic in a handler", "requestId", c.id, "panic", p, "stack", string(debug.Stack()))
	return errPanic
}
