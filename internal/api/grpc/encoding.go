package grpc

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// encodingError is the error of a call whose messages have a format or a compression that isn't supported.
type encodingError struct{ text string }

func (e *encodingError) Error() string { return e.text }

// GRPCStatus returns the error for the client.
func (e *encodingError) GRPCStatus() *status.Status { return status.New(codes.Unimplemented, e.text) }

// Content types of gRPC, which can have the format of the messages after a plus sign.
const (
	typeGRPC          = "application/grpc"
	typeGRPCWeb       = "application/grpc-web"
	typeConnectStream = "application/connect+"

	formatProto = "proto"
	formatJSON  = "json"

	gzipName = "gzip"

	headerContentType     = "Content-Type"
	headerContentEncoding = "Content-Encoding"
)

// compressionHeader returns the name of the header with the compression of a call's messages.
func compressionHeader(h http.Header) string {
	switch kind := h.Get(headerContentType); {
	case strings.HasPrefix(kind, typeGRPC):
		return "Grpc-Encoding"
	case strings.HasPrefix(kind, typeConnectStream):
		return "Connect-Content-Encoding"
	}
	return headerContentEncoding
}

// checkEncoding refuses calls of gRPC and gRPC-Web on the HTTP port whose messages have a form, a format or a
// compression that the connect library doesn't know: it would answer without a gRPC status.
func checkEncoding(c *web.Call) error {
	header := c.Request().Header
	kind := header.Get(headerContentType)
	if !strings.HasPrefix(kind, typeGRPC) {
		return nil
	}
	protocol, format := splitType(kind)
	if protocol != typeGRPC && protocol != typeGRPCWeb {
		return &encodingError{fmt.Sprintf("%.64q isn't supported, only %s and %s", protocol, typeGRPC, typeGRPCWeb)}
	}
	if format != formatProto && format != formatJSON {
		return &encodingError{fmt.Sprintf("messages in %.64q aren't supported, only in proto and json", format)}
	}
	switch compression := header.Get("Grpc-Encoding"); compression {
	case "", "identity", gzipName:
		return nil
	default:
		c.Response().Header().Set("Grpc-Accept-Encoding", gzipName)
		return &encodingError{fmt.Sprintf("grpc-encoding %.64q isn't supported, only gzip and identity", compression)}
	}
}

// splitType returns the parts of a content type of gRPC or gRPC-Web: application/grpc, and the format of the messages.
func splitType(contentType string) (protocol, format string) {
	protocol, format, found := strings.Cut(withoutParameters(contentType), "+")
	if !found {
		format = formatProto
	}
	return protocol, format
}

// withoutParameters returns a content type without its parameters.
func withoutParameters(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.TrimSpace(kind)
}

// answerable returns a request with a content type that connect recognizes if it is one of gRPC, so that the answer has
// a gRPC status. In gRPC-Web the status is in the headers, where clients of other forms of it expect it, too.
func answerable(r *http.Request) *http.Request {
	sent := r.Header.Get(headerContentType)
	if !strings.HasPrefix(sent, typeGRPC) {
		return r
	}
	kind := withoutParameters(sent)
	if protocol, _ := splitType(sent); protocol != typeGRPC && protocol != typeGRPCWeb {
		kind = typeGRPCWeb
	}
	changed := *r
	changed.Header = http.Header{headerContentType: {kind}}
	return &changed
}

// notProtobuf returns the error of a message that can't be decoded, which is err unless the client says that the
// message has another format. On the HTTP port JSON is decoded as JSON.
func notProtobuf(ctx context.Context, err error) error {
	if _, format := splitType(metadataOf(ctx, "content-type")); format != formatProto {
		return &encodingError{fmt.Sprintf("messages in %.64q aren't supported here, only in proto; the HTTP port also has "+
			"json", format)}
	}
	return err
}
