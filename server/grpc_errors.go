package server

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// errDrainingRPC ends calls that wait.
var errDrainingRPC = connect.NewError(connect.CodeUnavailable, errDraining)

// codeOf maps a kind to a gRPC code. It is the only place that does.
func codeOf(kind fault.Kind) connect.Code {
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

// toldOf says what a client is told of an error. What it isn't told of stays in the log, under the request's ID.
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
		return connect.NewError(codeOf(e.Kind), errors.New(e.Detail))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeUnavailable, errors.New("the request ended before its answer; trying again is safe"))
	default:
		return connect.NewError(connect.CodeInternal, errors.New("something went wrong in the service; its log says more under the request's ID"))
	}
}

// finishRPC notes a call's outcome, and gives the error that the client gets.
func finishRPC(ctx context.Context, err error) error {
	c := ctx.Value(callKey{}).(*call)
	c.closeIfLast()
	if err == nil {
		c.status, c.err = http.StatusOK, nil
		return nil
	}
	told := toldOf(ctx, err)
	c.err, c.status = err, statusOfCode(told.Code())
	switch {
	case errors.Is(err, fault.ErrStorageFull):
		c.status = http.StatusInsufficientStorage
	case errors.Is(err, errQueries):
		c.status = http.StatusServiceUnavailable // 413 would say that the client sent too much
	}
	return told
}

// statusOfCode is what stands for a gRPC code in metrics and log. On the wire gRPC's calls are 200, whatever their end.
func statusOfCode(code connect.Code) int {
	switch code {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return http.StatusBadRequest
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodeAlreadyExists, connect.CodeFailedPrecondition, connect.CodeAborted:
		return http.StatusConflict
	case connect.CodeResourceExhausted:
		return http.StatusRequestEntityTooLarge // a message; that Redis is full is told apart
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeUnimplemented:
		return http.StatusNotImplemented
	case connect.CodeUnavailable:
		return http.StatusServiceUnavailable
	case connect.CodeCanceled:
		return statusClientGone
	case connect.CodeDeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}
