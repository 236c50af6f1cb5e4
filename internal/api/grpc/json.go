package grpc

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/grpcserver"
)

// jsonPath is one of Open Match's paths for HTTP with JSON, from the annotation of its method.
type jsonPath struct {
	verb      string
	path      string // as the router has it
	parameter string // the field of the message that is in the path; "": none
	hasBody   bool   // which is the message
}

// jsonPathOf returns the path of a method. ok is false if it has none.
func jsonPathOf(m protoreflect.MethodDescriptor) (p jsonPath, ok bool) {
	rule, ok := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil {
		return jsonPath{}, false
	}
	p.hasBody = rule.GetBody() != ""
	switch pattern := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		p.verb, p.path = http.MethodGet, pattern.Get
	case *annotations.HttpRule_Post:
		p.verb, p.path = http.MethodPost, pattern.Post
	case *annotations.HttpRule_Patch:
		p.verb, p.path = http.MethodPatch, pattern.Patch
	case *annotations.HttpRule_Delete:
		p.verb, p.path = http.MethodDelete, pattern.Delete
	}
	p.path = strings.ReplaceAll(p.path, ":", `\:`) // the router's parameters begin with a colon
	if before, rest, found := strings.Cut(p.path, "{"); found {
		name, after, _ := strings.Cut(rest, "}")
		p.path, p.parameter = before+":"+name+after, name
	}
	return p, true
}

// jsonLines is a route of a method whose answer is a stream.
type jsonLines struct {
	procedure
	jsonPath
}

// serve answers with a line for each message.
func (p jsonLines) serve(c *web.Call) error {
	body, err := c.Body()
	release := func() {}
	if err == nil {
		release = sync.OnceFunc(body.Release)
		defer release()
		err = p.check(c, body.Bytes)
	}
	if err != nil {
		p.fail(c, err)
		return nil
	}
	limit, err := timeoutOf(c.Request().Header, true)
	if err != nil {
		p.fail(c, badRequest(err.Error()))
		return nil
	}
	ctx := c.Context()
	if limit.limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit.duration)
		defer cancel()
	}
	c.SetHeaders()
	from := &request{call: c}
	defer from.end()
	ctx = metadataIn(context.WithValue(ctx, requestKey{}, from), c.Request().Header)
	stream := &jsonStream{ctx: ctx, response: c.Response(), fill: func(m proto.Message) error {
		defer release() // the stream may last
		return p.fill(m, c, body)
	}}
	method := p.lines[p.method]
	if err := method.handler(method.impl, stream); err != nil {
		told, code := status.Convert(err), c.Status()
		if code == web.StatusClientGone { // for metrics and log; a client may still be connected after its timeout
			code = http.StatusGatewayTimeout
		}
		stream.end(code, told)
	}
	return nil
}

// fill decodes the request. The path's values override the body's. The body isn't needed afterwards.
func (p jsonLines) fill(m proto.Message, c *web.Call, body *web.Buffer) error {
	if p.hasBody && len(body.Bytes) > 0 {
		if err := jsonIn.Unmarshal(body.Bytes, m); err != nil {
			return badRequest(err.Error())
		}
	}
	if p.parameter != "" {
		field := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(p.parameter))
		m.ProtoReflect().Set(field, protoreflect.ValueOfString(c.Param(0)))
	}
	return nil
}

// jsonStream is the stream of a JSON path whose answer has many messages, each a line {"result": …}, and at the end a
// line {"error": …} if the call failed, also if nothing precedes it, as grpc-gateway has it in Open Match. vanguard
// doesn't translate streams to JSON.
type jsonStream struct {
	grpc.ServerStream                 // nil: only RecvMsg, SendMsg, Context and SetHeader are called
	ctx               context.Context //nolint:containedctx // of the call, as in grpc-go
	response          http.ResponseWriter
	fill              func(proto.Message) error // reads the request
	begun             bool
}

// Context returns the context of the call, with the request's headers as metadata.
func (s *jsonStream) Context() context.Context { return s.ctx }

// SetHeader does nothing: such headers are not part of the answer.
func (s *jsonStream) SetHeader(metadata.MD) error { return nil }

// RecvMsg reads the only message of the request.
func (s *jsonStream) RecvMsg(message any) error {
	if s.fill == nil {
		return io.EOF
	}
	fill := s.fill
	s.fill = nil
	return fill(message.(*grpcserver.Received).Message.(proto.Message))
}

// SendMsg writes a line.
func (s *jsonStream) SendMsg(message any) error {
	line, err := appendJSON(jsonOut, nil, message.(proto.Message))
	if err != nil {
		return err
	}
	return s.write(http.StatusOK, append(append([]byte(`{"result":`), line...), '}', '\n'))
}

// write writes a part of the answer. The first part decides the status.
func (s *jsonStream) write(code int, data []byte) error {
	if !s.begun {
		s.begun = true
		s.response.Header().Set("Content-Type", "application/json")
		s.response.WriteHeader(code)
	}
	if _, err := s.response.Write(data); err != nil {
		return err
	}
	return http.NewResponseController(s.response).Flush()
}

var (
	jsonTypes = flatTypes{protoregistry.GlobalTypes}
	jsonOut   = inOpenMatch(protojson.MarshalOptions{Resolver: jsonTypes})
	jsonIn    = protojson.UnmarshalOptions{Resolver: jsonTypes, DiscardUnknown: true}
)

// inOpenMatch returns options for JSON as Open Match's JSON paths write it: with the names of the .proto files, and
// without empty fields.
func inOpenMatch(o protojson.MarshalOptions) protojson.MarshalOptions {
	o.UseProtoNames, o.EmitUnpopulated = true, false
	return o
}

// end writes the error of the call.
func (s *jsonStream) end(code int, told *status.Status) {
	s.writeError(code, newJSONErrorLine(code, told))
}

func (s *jsonStream) writeError(code int, e any) {
	data, err := json.Marshal(e)
	if err != nil {
		return // impossible: it has only texts, numbers and JSON
	}
	_ = s.write(code, append(data, '\n')) // fails only if the client has gone
}

// failJSON answers a call of a JSON path that failed before it reached a service.
func failJSON(c *web.Call, err error) {
	told := failedCall(c, err)
	(&jsonStream{response: c.Response()}).writeError(c.Status(), newJSONError(told))
}

// failJSONLines is failJSON for a path whose answer is a stream.
func failJSONLines(c *web.Call, err error) {
	told := failedCall(c, err)
	(&jsonStream{response: c.Response()}).end(c.Status(), told)
}

// failedCall sets the outcome and the headers of a call that failed before it reached a service, and returns the error
// for the client.
func failedCall(c *web.Call, err error) *status.Status {
	told := toldOf(c.Context(), err)
	c.SetOutcome(statusOf(told.Code(), err), err)
	c.SetHeaders()
	return told
}

// metadataIn returns a context with the headers of a request as metadata of its call.
func metadataIn(ctx context.Context, header http.Header) context.Context {
	sent := metadata.MD{}
	for name, values := range header {
		sent.Append(name, values...)
	}
	return metadata.NewIncomingContext(ctx, sent)
}
