package grpc

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"connectrpc.com/vanguard"
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
	typeGRPC    = "application/grpc"
	typeGRPCWeb = "application/grpc-web"
)

// checkEncoding refuses calls of gRPC and gRPC-Web on the HTTP port whose messages have a form, a format or a
// compression that vanguard doesn't know: it would answer without a gRPC status.
func checkEncoding(c *web.Call) error {
	header := c.Request().Header
	kind := header.Get("Content-Type")
	if !strings.HasPrefix(kind, typeGRPC) {
		return nil
	}
	protocol, format := splitType(kind)
	if protocol != typeGRPC && protocol != typeGRPCWeb {
		return &encodingError{fmt.Sprintf("%.64q isn't supported, only %s and %s", protocol, typeGRPC, typeGRPCWeb)}
	}
	if format != vanguard.CodecProto && format != vanguard.CodecJSON {
		return &encodingError{fmt.Sprintf("messages in %.64q aren't supported, only in proto and json", format)}
	}
	switch compression := header.Get("Grpc-Encoding"); compression {
	case "", vanguard.CompressionIdentity, vanguard.CompressionGzip:
		return nil
	default:
		c.Response().Header().Set("Grpc-Accept-Encoding", vanguard.CompressionGzip)
		return &encodingError{fmt.Sprintf("grpc-encoding %.64q isn't supported, only gzip and identity", compression)}
	}
}

// splitType returns the parts of a content type of gRPC or gRPC-Web: application/grpc, and the format of the messages.
func splitType(contentType string) (protocol, format string) {
	protocol, format, found := strings.Cut(withoutParameters(contentType), "+")
	if !found {
		format = vanguard.CodecProto
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
	sent := r.Header.Get("Content-Type")
	if !strings.HasPrefix(sent, typeGRPC) {
		return r
	}
	kind := withoutParameters(sent)
	if protocol, _ := splitType(sent); protocol != typeGRPC && protocol != typeGRPCWeb {
		kind = typeGRPCWeb
	}
	changed := *r
	changed.Header = http.Header{"Content-Type": {kind}}
	return &changed
}

// notProtobuf returns the error of a message that can't be decoded, which is err unless the client says that the
// message has another format. On the HTTP port vanguard has translated it.
func notProtobuf(ctx context.Context, err error) error {
	if _, format := splitType(metadataOf(ctx, "content-type")); format != vanguard.CodecProto {
		return &encodingError{fmt.Sprintf("messages in %.64q aren't supported here, only in proto; the HTTP port also has "+
			"json", format)}
	}
	return err
}
