package grpc

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/server/web"
)

// errDraining ends calls that wait.
var errDraining = connect.NewError(connect.CodeUnavailable, web.ErrDraining)

// CodeOf maps a kind to a gRPC code. It is the only place that does.
func CodeOf(kind fault.Kind) connect.Code {
	switch kind {
	case fault.Invalid:
		return connect.CodeInvalidArgument
	case fault.NotFound:
		return connect.CodeNotFound
	case fault.Forbidden:
		return connect.CodePermissionDenied
	case fault.Conflict:
		return connect.CodeFailedPrecondition
	case fault.TooLarge:
		return connect.CodeInvalidArgument
	case fault.StorageFull:
		return connect.CodeResourceExhausted
	case fault.Unavailable:
		return connect.CodeUnavailable
	case fault.MethodNotAllowed:
		return connect.CodeUnimplemented
	case fault.Timeout:
		return connect.CodeDeadlineExceeded
	case fault.Misdirected:
		return connect.CodePermissionDenied
	case fault.Internal:
		return connect.CodeInternal
	}
	return connect.CodeInternal
}

// toldOf returns what a client is told about an error. The log has the rest, under the request's ID.
func toldOf(ctx context.Context, err error) *connect.Error {
	var told *connect.Error
	var e *fault.Error
	switch {
	case errors.As(err, &told):
		return told
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, errors.New("the call's deadline has passed"))
	case ctx.Err() != nil:
		return connect.NewError(connect.CodeCanceled, errors.New("the call was cancelled"))
	case errors.Is(err, matchmaking.ErrTicketExists):
		return connect.NewError(connect.CodeAlreadyExists, errors.New(matchmaking.ErrTicketExists.Detail))
	case errors.As(err, &e) && e.Kind != fault.Internal:
		return connect.NewError(CodeOf(e.Kind), errors.New(e.Detail))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeUnavailable, errors.New("the request ended before its answer; trying again is safe"))
	default:
		return connect.NewError(connect.CodeInternal, errors.New("an error occurred in the service; its log has more under the request's ID"))
	}
}

// finish notes a call's outcome, and returns the error that the client gets.
func finish(ctx context.Context, err error) error {
	c := callOf(ctx)
	c.CloseIfLast()
	if err == nil {
		c.SetOutcome(http.StatusOK, nil)
		return nil
	}
	told := toldOf(ctx, err)
	status := statusOfCode(told.Code())
	switch {
	case errors.Is(err, fault.ErrStorageFull):
		status = http.StatusInsufficientStorage
	case errors.Is(err, errQueries):
		status = http.StatusServiceUnavailable // 413 would say that the client sent too much
	}
	c.SetOutcome(status, err)
	return told
}

// statusOfCode returns the status of a gRPC code in metrics and log. On the wire all of gRPC's answers are 200.
func statusOfCode(code connect.Code) int {
	switch code {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return http.StatusBadRequest
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodeAlreadyExists, connect.CodeFailedPrecondition, connect.CodeAborted:
		return http.StatusConflict
	case connect.CodeResourceExhausted:
		return http.StatusRequestEntityTooLarge // of a message; finish handles a full Redis
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeUnimplemented:
		return http.StatusNotImplemented
	case connect.CodeUnavailable:
		return http.StatusServiceUnavailable
	case connect.CodeCanceled:
		return web.StatusClientGone
	case connect.CodeDeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}
