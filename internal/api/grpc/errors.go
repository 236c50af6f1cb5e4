package grpc

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
)

// CodeOf maps an error's kind to a gRPC code, and two errors for which gRPC has a code of its own. It is the only place
// that does.
func CodeOf(e *fault.Error) codes.Code {
	if e.Slug == fault.SlugTicketExists {
		return codes.AlreadyExists
	}
	if e.Slug == fault.SlugBodyTooLarge {
		return codes.ResourceExhausted
	}
	switch e.Kind {
	case fault.Invalid:
		return codes.InvalidArgument
	case fault.NotFound:
		return codes.NotFound
	case fault.Forbidden:
		return codes.PermissionDenied
	case fault.Conflict:
		return codes.FailedPrecondition
	case fault.TooLarge:
		return codes.InvalidArgument
	case fault.StorageFull:
		return codes.ResourceExhausted
	case fault.Unavailable:
		return codes.Unavailable
	case fault.MethodNotAllowed:
		return codes.Unimplemented
	case fault.Timeout:
		return codes.DeadlineExceeded
	case fault.Misdirected:
		return codes.PermissionDenied
	case fault.Unauthenticated:
		return codes.Unauthenticated
	case fault.Limited:
		return codes.ResourceExhausted
	case fault.Unsupported:
		return codes.Unimplemented
	case fault.Gone:
		return codes.OutOfRange
	case fault.Internal:
		return codes.Internal
	}
	return codes.Internal
}

// grpcError is an error that is sent to the client unchanged.
type grpcError interface {
	error
	GRPCStatus() *status.Status
}

// clientErrorOf returns the client's part of an error. The log has the rest, under the request's ID.
func clientErrorOf(ctx context.Context, err error) *status.Status {
	var clientErr grpcError
	var failed *backend.Failure
	var e *fault.Error
	switch {
	case errors.As(err, &clientErr):
		return clientErr.GRPCStatus()
	case errors.As(err, &failed) && ctx.Err() == nil:
		return status.New(codes.Code(failed.Code), failed.Text)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return status.New(codes.DeadlineExceeded, "the call's deadline has passed")
	case ctx.Err() != nil:
		return status.New(codes.Canceled, "the call was cancelled")
	case errors.As(err, &e) && e.Kind != fault.Internal:
		return withRetry(status.New(CodeOf(e), e.Detail), e)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.New(codes.Unavailable, "the request ended before its answer; trying again is safe")
	default:
		return status.New(codes.Internal, "an error occurred in the service; its log has more under the request's ID")
	}
}

// withRetry adds the retry delay for a client that exceeds its limits.
func withRetry(clientErr *status.Status, e *fault.Error) *status.Status {
	if e.Kind != fault.Limited || e.RetryAfter <= 0 {
		return clientErr
	}
	more, err := clientErr.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	if err != nil {
		return clientErr // impossible: the message can be encoded
	}
	return more
}

// statusOf returns the HTTP status of an error for metrics and log. code is the gRPC code sent to the client.
func statusOf(code codes.Code, err error) int {
	var unread *unreadError
	var encoding *encodingError
	var failed *backend.Failure
	switch {
	case errors.As(err, &unread) && code == codes.Internal:
		return http.StatusBadRequest // grpc-go calls malformed messages internal errors
	case errors.As(err, &encoding):
		return http.StatusUnsupportedMediaType
	case errors.Is(err, errNoProcedure):
		return http.StatusNotFound
	case isLimited(err):
		return http.StatusTooManyRequests
	case errors.Is(err, fault.ErrStorageFull):
		return http.StatusInsufficientStorage
	case errors.Is(err, errSlow), errors.Is(err, errUnreadAnswer):
		return http.StatusRequestTimeout
	case errors.Is(err, errQueries), errors.Is(err, errFetches):
		return http.StatusServiceUnavailable // 413 would mean a too large request
	case errors.As(err, &failed) && failed.Detail != "":
		return http.StatusBadGateway // of a match function or an evaluator; the log has the detail
	case errors.As(err, &failed) && code == codes.ResourceExhausted:
		return http.StatusServiceUnavailable // of this server, a match function or an evaluator: the request isn't too large
	case errors.As(err, &failed) && statusOfCode(code) == http.StatusInternalServerError:
		return http.StatusBadGateway // of a match function or an evaluator
	}
	return statusOfCode(code)
}

func isLimited(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Kind == fault.Limited
}

// statusOfCode returns the status of a gRPC code in metrics and log. On the wire all of gRPC's answers are 200.
func statusOfCode(code codes.Code) int {
	switch code {
	case codes.InvalidArgument, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.NotFound:
		return http.StatusNotFound
	case codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted:
		return http.StatusConflict
	case codes.ResourceExhausted:
		return http.StatusRequestEntityTooLarge // of a message; statusOf handles a full Redis
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.Canceled:
		return web.StatusClientGone
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

// tooLarge returns the error of a message of more than a number of bytes.
func tooLarge(maxBytes int64) error {
	return status.Errorf(codes.ResourceExhausted, "the message has more than %d bytes", maxBytes)
}

func badRequest(text string) error {
	return status.Error(codes.InvalidArgument, text)
}
