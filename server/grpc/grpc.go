package grpc

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/health"
	"github.com/tidemark-dev/tidemark/openmatch/health/healthconnect"
	"github.com/tidemark-dev/tidemark/openmatch/openmatchconnect"
	"github.com/tidemark-dev/tidemark/server/web"
)

// Matchmaking is what Open Match's services call.
type Matchmaking interface {
	Players
	Pools
}

// Options configures the services.
type Options struct {
	Matchmaking Matchmaking
	Channels    Channels
}

// RequestHeaders and ResponseHeaders are what gRPC-Web and Connect clients in a web page send, and must be able to read.
var (
	RequestHeaders = []string{
		"Connect-Protocol-Version", "Connect-Timeout-Ms", "Grpc-Timeout", "X-Grpc-Web", "X-User-Agent", metadataQueue, metadataTicketID,
	}
	ResponseHeaders = []string{"Grpc-Status", "Grpc-Message", "Grpc-Status-Details-Bin"}
)

// servedNames are the services that reflection and health checks know.
var servedNames = []string{
	openmatchconnect.FrontendServiceName, openmatchconnect.QueryServiceName, healthconnect.HealthName,
}

// Register adds the routes of the services.
func Register(r *web.Router, o Options) {
	p := &plumbing{router: r}
	options := connect.WithHandlerOptions(
		connect.WithInterceptors(p), connect.WithRecover(recovered), connect.WithConditionalHandlerOptions(p.maxBytesOf),
	)
	_, handler := openmatchconnect.NewFrontendServiceHandler(&frontend{players: o.Matchmaking, channels: o.Channels, drained: r.Draining()}, options)
	p.add(handler, proceduresOf(openmatch.File_openmatch_frontend_proto)...)
	_, handler = openmatchconnect.NewQueryServiceHandler(newQuery(o.Matchmaking), options)
	p.add(handler, proceduresOf(openmatch.File_openmatch_query_proto)...)
	_, handler = healthconnect.NewHealthHandler(&healthCheck{router: r}, options)
	p.add(handler, proceduresOf(health.File_openmatch_health_health_proto)...)

	reflector := grpcreflect.NewStaticReflector(servedNames...)
	path, handler := grpcreflect.NewHandlerV1(reflector, options)
	p.add(handler, path+"ServerReflectionInfo")
	path, handler = grpcreflect.NewHandlerV1Alpha(reflector, options)
	p.add(handler, path+"ServerReflectionInfo")
	r.FailUnrouted(isGRPC, failUnrouted)
}

// plumbing connects routes with the connect library's handlers, for which it is an interceptor.
type plumbing struct {
	router *web.Router
}

// shortRequestBytes is the largest message of procedures that need no larger one: a call that lasts keeps its message.
const shortRequestBytes = 4 << 10

// maxBytes returns the largest request message of a procedure.
func (p *plumbing) maxBytes(procedure string) int64 {
	limit := p.router.MaxBodyBytes()
	if procedure == openmatchconnect.FrontendServiceCreateTicketProcedure || strings.HasPrefix(procedure, "/"+openmatchconnect.QueryServiceName+"/") {
		return limit
	}
	return min(limit, shortRequestBytes)
}

// maxBytesOf is an option of handlers.
func (p *plumbing) maxBytesOf(spec connect.Spec) []connect.HandlerOption {
	return []connect.HandlerOption{connect.WithReadMaxBytes(int(p.maxBytes(spec.Procedure)))}
}

// proceduresOf returns the paths of a file's procedures.
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

// add adds a route for each procedure, so that each has its own metrics.
func (p *plumbing) add(h http.Handler, procedures ...string) {
	a := web.API{Router: p.router, Fail: web.Fail}
	for _, procedure := range procedures {
		a.Add(http.MethodPost, procedure, web.QueryIgnored, func(c *web.Call) error { return p.serve(c, h) })
	}
}

// errUnreadCall is the error of a call that the connect library refused. It tells only the client more.
var errUnreadCall = errors.New("the call can't be read")

// callKey is the context key of the *web.Call.
type callKey struct{}

func callOf(ctx context.Context) *web.Call { return ctx.Value(callKey{}).(*web.Call) }

func (p *plumbing) serve(c *web.Call, h http.Handler) error {
	c.SetOutcome(http.StatusBadRequest, errUnreadCall) // for metrics and log, if no interceptor is called
	c.SetHeaders()
	request := c.Request().WithContext(context.WithValue(c.Context(), callKey{}, c))
	request.Body = newBody(c, p.maxBytes(request.URL.Path))
	h.ServeHTTP(c.Response(), request)
	return nil
}

// WrapUnary notes the outcome of a call.
func (p *plumbing) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		response, err := next(ctx, request)
		return response, finish(ctx, err)
	}
}

// WrapStreamingHandler removes the deadlines of a streaming call, and notes its outcome.
func (p *plumbing) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		s := stream{StreamingHandlerConn: conn, deadlines: http.NewResponseController(callOf(ctx).Response())}
		err := finish(ctx, next(ctx, s))
		if ctx.Err() == nil { // a deadline of a closed stream would keep it in memory until then
			_ = s.deadlines.SetWriteDeadline(time.Now().Add(web.AnswerTimeout)) // for the end of the answer
		}
		return err
	}
}

// WrapStreamingClient returns next: there are no clients here.
func (p *plumbing) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// stream is a streaming call. Once its first message has arrived, it may last as long as the client wants. If deadlines
// can't be changed, they remain.
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

// recovered logs a panic of a handler, and returns the error that the client gets.
func recovered(ctx context.Context, _ connect.Spec, _ http.Header, p any) error {
	callOf(ctx).LogPanic(p)
	return web.ErrPanic
}
