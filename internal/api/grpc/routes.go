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
	"unicode/utf8"

	"connectrpc.com/connect"
	"connectrpc.com/vanguard"
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
	r := &routes{Services: s, calls: s.transcoder(newJSONCodec), jsonPaths: s.transcoder(newPathCodec)}
	for _, one := range s.served {
		methods := descriptorOf(one.desc.ServiceName).Methods()
		for i := range methods.Len() {
			r.add(methods.Get(i))
		}
	}
	s.router.FailUnrouted(isGRPC, failUnrouted)
}

// transcoder returns a handler that turns requests of all protocols into gRPC for the services.
func (s *Services) transcoder(newCodec func(vanguard.TypeResolver) vanguard.Codec) http.Handler {
	var all []*vanguard.Service
	for _, one := range s.served {
		all = append(all, vanguard.NewService(one.desc.ServiceName, http.HandlerFunc(s.serveTranslated)))
	}
	calls, err := vanguard.NewTranscoder(all, vanguard.WithDefaultServiceOptions(
		vanguard.WithTargetProtocols(vanguard.ProtocolGRPC), vanguard.WithTargetCodecs(vanguard.CodecProto),
		// of answers too, as JSON
		vanguard.WithMaxMessageBufferBytes(uint32(4*max(largestAnswer, s.limits.MessageBytes))),
		vanguard.WithNoTargetCompression(),
	), vanguard.WithCodec(newCodec), vanguard.WithCompression(vanguard.CompressionGzip, newGzipCompressor,
		gzipDecompressors(int64(s.limits.MessageBytes))))
	if err != nil {
		panic(fmt.Sprintf("translate the protocols of HTTP: %v", err)) // impossible: the services are generated
	}
	return calls
}

func descriptorOf(service string) protoreflect.ServiceDescriptor {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		panic(fmt.Sprintf("find the service %s: %v", service, err)) // impossible: it is generated
	}
	return found.(protoreflect.ServiceDescriptor)
}

// routes serves the services on the HTTP port.
type routes struct {
	*Services
	calls     http.Handler // translates requests into calls
	jsonPaths http.Handler // the same for JSON paths, which have another form of JSON
}

// procedure is a route of a method.
type procedure struct {
	*routes
	method string
	most   int // bytes of a message
	fail   func(*web.Call, error)
	json   bool   // the route is a JSON path
	empty  []byte // stands for an empty body; nil: nothing does
}

// shortRequestBytes is the largest message of procedures with small messages: a long call can retain its message.
const shortRequestBytes = 4 << 10

// add adds the routes of a method, so that each has its own metrics.
func (r *routes) add(m protoreflect.MethodDescriptor) {
	p := procedure{
		routes: r, method: "/" + string(m.Parent().FullName()) + "/" + string(m.Name()), most: r.limits.MessageBytes,
		fail: failCall,
	}
	api, needed := web.API{Router: r.router, Fail: p.refuse}, needOf(p.method)
	if !needed.large {
		p.most = min(p.most, shortRequestBytes)
	}
	one := web.Route{
		Method: http.MethodPost, Path: p.method, Query: web.QueryIgnored, Action: needed.action, Open: needed.open,
		Large: needed.reads, Handle: p.serve,
	}
	if m.IsStreamingClient() {
		one.Handle = p.serveStream
		api.Add(one)
		return
	}
	api.Add(one)
	if path, ok := jsonPathOf(m); ok {
		p.json, p.fail = true, failJSON
		if path.hasBody {
			p.empty = []byte("{}") // as in grpc-gateway
		}
		one.Method, one.Path, one.Handle = path.verb, path.path, p.serve
		if m.IsStreamingServer() {
			p.fail = failJSONLines
			one.Handle = jsonLines{procedure: p, jsonPath: path}.serve
		}
		api.Fail = p.refuse
		api.Add(one)
	}
}

// refuse answers a request that isn't served, in the form of the client's protocol.
func (p procedure) refuse(c *web.Call, err error) {
	var e *fault.Error
	switch {
	case !errors.As(err, &e):
	case e.Kind == fault.Unauthenticated, e.Kind == fault.Limited, e.Slug == fault.SlugNotGranted,
		e.Slug == fault.SlugTokenInQuery:
		c.SetRetryAfter(web.ProblemOf(err).RetryAfter)
		p.fail(c, err)
		return
	}
	web.Fail(c, err)
}

// serve serves a request that has one message.
func (p procedure) serve(c *web.Call) error {
	body, err := c.Body()
	if err != nil {
		p.fail(c, err)
		return nil
	}
	text := body.Bytes
	if len(text) == 0 {
		text = p.empty
	}
	message := &messageBody{Reader: bytes.NewReader(text), buffer: body}
	defer message.release()
	if err := p.check(c, body.Bytes); err != nil {
		p.fail(c, err)
		return nil
	}
	p.call(c, message)
	return nil
}

// serveStream serves a request that has a stream of messages.
func (p procedure) serveStream(c *web.Call) error {
	if err := checkEncoding(c); err != nil {
		p.fail(c, err)
		return nil
	}
	p.call(c, c.Request().Body)
	return nil
}

// check checks the encoding of a request, and its message before memory is allocated for its announced size.
func (p procedure) check(c *web.Call, body []byte) error {
	if !p.json {
		if err := checkEncoding(c); err != nil {
			return err
		}
	}
	kind, length := c.Request().Header.Get("Content-Type"), len(body)
	if !p.json && (strings.HasPrefix(kind, typeGRPC) || strings.HasPrefix(kind, "application/connect+")) {
		const prefix = 5 // a byte of flags, and the length
		if len(body) < prefix || len(body)-prefix != int(binary.BigEndian.Uint32(body[1:])) {
			return badRequest("the body isn't one message")
		}
		length -= prefix
	}
	if length > p.most {
		return tooLarge(int64(p.most))
	}
	if mime, _, _ := strings.Cut(kind, ";"); length == 0 && !p.json && strings.HasSuffix(mime, "json") {
		return badRequest("the message is empty, which isn't JSON") // grpc-go would report that there is none
	}
	if p.json && !utf8.ValidString(c.Request().URL.Path) {
		return badRequest("the path isn't UTF-8")
	}
	return nil
}

// call passes a request to the services.
func (p procedure) call(c *web.Call, body io.ReadCloser) {
	limit, err := timeoutOf(c.Request().Header, p.json)
	if err != nil {
		p.fail(c, badRequest(err.Error()))
		return
	}
	c.SetOutcome(http.StatusBadRequest, errUnreadCall) // for metrics and log, if the service isn't called
	c.SetHeaders()
	from := &request{call: c}
	defer from.end()
	translated := c.Request().WithContext(context.WithValue(c.Context(), requestKey{}, from))
	translated.Header = limit.forVanguard(translated.Header, p.json)
	translated.Body, translated.ContentLength = &arrivingBody{ReadCloser: body, exchange: &from.exchange}, -1
	p.declare(translated)
	if p.json {
		p.jsonPaths.ServeHTTP(c.Response(), translated)
		return
	}
	p.calls.ServeHTTP(c.Response(), translated)
}

// declare sets the headers by which vanguard recognizes the protocol, if clients may omit them, removes the parameters
// of gRPC's content types, which it doesn't know, and the query parameters of JSON paths.
func (p procedure) declare(r *http.Request) {
	const version, kind = "Connect-Protocol-Version", "Content-Type"
	sent := withoutParameters(r.Header.Get(kind))
	switch {
	case p.json:
		where := *r.URL
		where.RawQuery = "" // the data of a call is in its path or body; parameters are ignored, as in grpc-gateway
		r.URL = &where
		r.Header = r.Header.Clone()
		r.Header.Set(kind, "application/json")
		r.Header.Del(version)
	case (sent == "application/json" || sent == "application/proto") && r.Header.Get(version) == "":
		r.Header = r.Header.Clone()
		r.Header.Set(version, "1")
	case strings.HasPrefix(sent, typeGRPC) && sent != r.Header.Get(kind):
		r.Header = r.Header.Clone()
		r.Header.Set(kind, sent)
	}
}

// errUnreadCall is the error of an unreadable call. Only the client receives the details.
var errUnreadCall = errors.New("the call can't be read")

// messageBody is a body that has arrived. Its memory is released after the read.
type messageBody struct {
	*bytes.Reader
	buffer *web.Buffer
	once   sync.Once
}

// Read reads a part of the body.
func (b *messageBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		b.release()
	}
	return n, err
}

// Close does nothing.
func (b *messageBody) Close() error { return nil }

func (b *messageBody) release() { b.once.Do(b.buffer.Copied) }

// request is a request on the HTTP port; its call reports the outcome to it. grpc-go runs the handler of a call in a
// goroutine of its own, which can end after the request. All methods may be called by several goroutines.
type request struct {
	exchange exchange

	mu   sync.Mutex
	call *web.Call // nil: the request has ended
}

// requestKey is the context key of the *request.
type requestKey struct{}

func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// tell calls f, unless the request has ended.
func (r *request) tell(f func(*web.Call)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.call != nil {
		f(r.call)
	}
}

func (r *request) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.call = nil
}

// setDeadlines sets the times until which the rest of the request may be read, and its answer be written; zero: no
// limit. If they can't be changed, they remain.
func (r *request) setDeadlines(read, write time.Time) {
	r.tell(func(c *web.Call) {
		deadlines := http.NewResponseController(c.Response())
		_ = deadlines.SetReadDeadline(read)
		_ = deadlines.SetWriteDeadline(write)
	})
}

// isGRPC reports whether a request is a call of gRPC or gRPC-Web.
func isGRPC(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), typeGRPC)
}

// failCall answers a call that failed before it reached a service.
func failCall(c *web.Call, err error) {
	told := failedCall(c, err)
	e := connect.NewError(connect.Code(told.Code()), errors.New(told.Message()))
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
