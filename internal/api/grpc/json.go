package grpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

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
	"github.com/tidemark-dev/tidemark/internal/unsent"
	"github.com/tidemark-dev/tidemark/internal/wire"
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

// jsonCall is a route of a JSON path.
type jsonCall struct {
	procedure
	jsonPath
}

// fail answers a call that failed before it reached a service.
func (p jsonCall) fail(c *web.Call, err error) {
	clientErr := failedCall(c, err)
	if p.stream != nil {
		(&jsonStream{response: c.Response()}).end(c.Status(), clientErr)
		return
	}
	writeJSONError(c, c.Status(), clientErr)
}

// serve answers with a message, or with a line for each message if the answer is a stream.
func (p jsonCall) serve(c *web.Call) error {
	body, err := p.body(c, c.Request().Header.Get(headerContentEncoding))
	if err != nil {
		p.fail(c, err)
		return nil
	}
	release := sync.OnceFunc(body.Release)
	defer release()
	if err := p.checkJSON(c, body.Bytes); err != nil {
		p.fail(c, err)
		return nil
	}
	ctx, cancel, err := withTimeout(c.Context(), c.Request().Header, headerGRPCTimeout)
	if err != nil {
		p.fail(c, err)
		return nil
	}
	defer cancel()
	c.SetHeaders()
	ctx = p.begin(ctx, c)
	if p.stream == nil {
		p.answer(ctx, c, func(message any) error {
			p.decode(c, body.Bytes, message.(*grpcserver.Received))
			return nil
		})
		return nil
	}
	p.answerLines(c, &jsonStream{ctx: ctx, response: c.Response(), read: func(into *grpcserver.Received) {
		defer release() // the call may last
		p.decode(c, body.Bytes, into)
	}})
	return nil
}

// checkJSON checks a request before its body is decoded.
func (p jsonCall) checkJSON(c *web.Call, body []byte) error {
	switch encoding := c.Request().Header.Get(headerContentEncoding); {
	case encoding != "" && encoding != "identity" && encoding != gzipName:
		return &encodingError{fmt.Sprintf("content-encoding %.64q isn't supported, only gzip and identity", encoding)}
	case len(body) > p.maxBytes:
		return tooLarge(int64(p.maxBytes))
	case !utf8.ValidString(c.Request().URL.Path):
		return badRequest("the path isn't UTF-8")
	}
	return nil
}

// answer calls a service whose answer is one message.
func (p jsonCall) answer(ctx context.Context, c *web.Call, receive func(any) error) {
	message, err := p.unary(p.impl, ctx, receive, nil)
	if err != nil {
		clientErr := status.Convert(err)
		writeJSONError(c, jsonStatus(clientErr.Code()), clientErr)
		return
	}
	text, err := appendJSON(jsonOut, nil, message.(proto.Message))
	if err == nil {
		err = unsent.From(ctx).Grow(int64(len(text))) // before the status is sent
	}
	if err != nil {
		p.fail(c, err)
		return
	}
	writeJSON(c, http.StatusOK, text)
}

// answerLines calls a service whose answer is a stream.
func (p jsonCall) answerLines(c *web.Call, stream *jsonStream) {
	err := p.stream(p.impl, stream)
	if err == nil {
		return
	}
	code := c.Status()
	if code == web.StatusClientGone { // for metrics and log; a client may still be connected after its timeout
		code = http.StatusGatewayTimeout
	}
	stream.end(code, status.Convert(err))
}

// decode decodes a request. The path's values override the body's, which isn't needed afterwards.
func (p jsonCall) decode(c *web.Call, body []byte, into *grpcserver.Received) {
	if !p.hasBody {
		body = nil
	} else if c.Request().Header.Get(headerContentEncoding) == gzipName {
		if body, into.Err = inflate(bytes.NewReader(body), p.maxBytes); into.Err != nil {
			return
		}
	}
	into.Decode(len(body), func(message any) error {
		m := message.(proto.Message)
		if len(body) > 0 {
			if err := readJSON(body, m); err != nil {
				return err
			}
		}
		if p.parameter != "" {
			field := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(p.parameter))
			m.ProtoReflect().Set(field, protoreflect.ValueOfString(c.Param(0)))
		}
		return nil
	})
}

// jsonStream is the stream of a JSON path whose answer has many messages, each a line {"result": …}, and at the end a
// line {"error": …} if the call failed, also if nothing precedes it, as grpc-gateway has it in Open Match.
type jsonStream struct {
	grpc.ServerStream                 // nil: only RecvMsg, SendMsg, Context and SetHeader are called
	ctx               context.Context //nolint:containedctx // of the call, as in grpc-go
	response          http.ResponseWriter
	read              func(*grpcserver.Received) // reads the request; nil: it has been read
	started           bool
}

// Context returns the context of the call, with the request's headers as metadata.
func (s *jsonStream) Context() context.Context { return s.ctx }

// SetHeader does nothing: such headers are not part of the answer.
func (s *jsonStream) SetHeader(metadata.MD) error { return nil }

// RecvMsg reads the only message of the request.
func (s *jsonStream) RecvMsg(message any) error {
	if s.read == nil {
		return io.EOF
	}
	s.read(message.(*grpcserver.Received))
	s.read = nil
	return nil
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
	if !s.started {
		s.started = true
		s.response.Header().Set(headerContentType, wire.MediaJSON)
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
func (s *jsonStream) end(code int, clientErr *status.Status) {
	text, err := json.Marshal(newJSONErrorLine(code, clientErr))
	if err != nil {
		return // impossible: it has only texts, numbers and JSON
	}
	_ = s.write(code, append(text, '\n')) // fails only if the client has gone
}

// writeJSONError answers with the error of a call.
func writeJSONError(c *web.Call, code int, clientErr *status.Status) {
	text, err := json.Marshal(newJSONError(clientErr))
	if err != nil {
		return // impossible: it has only texts, numbers and JSON
	}
	writeJSON(c, code, append(text, '\n'))
}

// writeJSON answers with JSON.
func writeJSON(c *web.Call, code int, text []byte) {
	header := c.Response().Header()
	header.Set(headerContentType, wire.MediaJSON)
	header.Set("Content-Length", strconv.Itoa(len(text)))
	c.Response().WriteHeader(code)
	_, _ = c.Response().Write(text) // fails only if the client has gone
}

// failedCall sets the outcome and the headers of a call that failed outside of a service, and returns the error for the
// client.
func failedCall(c *web.Call, err error) *status.Status {
	clientErr := clientErrorOf(c.Context(), err)
	c.SetOutcome(statusOf(clientErr.Code(), err), err)
	c.SetHeaders()
	return clientErr
}

// metadataIn returns a context with the headers of a request as metadata of its call.
func metadataIn(ctx context.Context, header http.Header) context.Context {
	sent := metadata.MD{}
	for name, values := range header {
		sent.Append(name, values...)
	}
	return metadata.NewIncomingContext(ctx, sent)
}
