package grpc

import (
	"context"
	"fmt"
	"strings"

	"connectrpc.com/vanguard"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/server/web"
)

// encodingError is the error of a call whose messages have a format or a compression that isn't supported.
type encodingError struct{ text string }

func (e *encodingError) Error() string { return e.text }

// GRPCStatus returns the error for the client.
func (e *encodingError) GRPCStatus() *status.Status { return status.New(codes.Unimplemented, e.text) }

// checkEncoding refuses calls of gRPC and gRPC-Web on the HTTP port whose messages have a format or a compression that
// vanguard doesn't know: it would answer without a gRPC status.
func checkEncoding(c *web.Call) error {
	header := c.Request().Header
	kind := header.Get("Content-Type")
	if !strings.HasPrefix(kind, "application/grpc") {
		return nil
	}
	if format := formatOf(kind); format != vanguard.CodecProto && format != vanguard.CodecJSON {
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

// formatOf returns the format of messages from a content type of gRPC or gRPC-Web.
func formatOf(contentType string) string {
	if _, format, found := strings.Cut(contentType, "+"); found {
		return format
	}
	return vanguard.CodecProto
}

// notProtobuf returns the error of a message that can't be decoded, which is err unless the client says that the message
// has another format. On the HTTP port vanguard has translated it.
func notProtobuf(ctx context.Context, err error) error {
	for _, kind := range metadata.ValueFromIncomingContext(ctx, "content-type") {
		if format := formatOf(kind); format != vanguard.CodecProto {
			return &encodingError{fmt.Sprintf("messages in %.64q aren't supported here, only in proto; the HTTP port also "+
				"has json", format)}
		}
	}
	return err
}
