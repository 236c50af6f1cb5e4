package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Errors that other packages need to return or to compare.
var (
	ErrNoPath   = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoPath, Detail: "the path does not exist"}
	ErrDraining = &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugDraining, Detail: "the server is shutting down"}
	ErrDrained  = &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugDraining,
		Detail: "an operator has drained this server; tidemark resume ends that"}
	ErrBodySlow = &fault.Error{Kind: fault.Timeout, Slug: fault.SlugInvalidBody,
		Detail: "the body took too long to arrive"}
	ErrPanic = errors.New("a handler panicked")
	// ErrConnections refuses a request on a connection that has no place.
	ErrConnections = &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugOverloaded,
		Detail: "the server has too many open connections; trying again is safe"}
)

// OnlyAdmin returns an error about a path that names the listener which has it.
func OnlyAdmin(e *fault.Error) *fault.Error {
	admin := *e
	admin.Detail += " here, only at the address of admin-listen"
	return &admin
}

var (
	errBodyCutShort = &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidBody, Detail: "the body is incomplete"}
	errBodiesFull   = &fault.Error{
		Kind: fault.Unavailable, Slug: fault.SlugOverloaded,
		Detail: "the server is receiving too many large bodies; trying again is safe",
	}
	errBodiesShare = &fault.Error{
		Kind: fault.Limited, Slug: fault.SlugRateLimited, RetryAfter: time.Second,
		Detail: "the server is receiving too many large bodies of this client; trying again is safe",
	}
	errDecoders = &fault.Error{
		Kind: fault.Unavailable, Slug: fault.SlugOverloaded,
		Detail: "the server is decoding or encoding too many large bodies; trying again is safe",
	}
)

// StatusOf maps a kind to an HTTP status. It is the only place that does.
func StatusOf(kind fault.Kind) int {
	switch kind {
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Forbidden:
		return http.StatusForbidden
	case fault.Conflict:
		return http.StatusConflict
	case fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case fault.StorageFull:
		return http.StatusInsufficientStorage
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.MethodNotAllowed:
		return http.StatusMethodNotAllowed
	case fault.Timeout:
		return http.StatusRequestTimeout
	case fault.Misdirected:
		return http.StatusMisdirectedRequest
	case fault.Unauthenticated:
		return http.StatusUnauthorized
	case fault.Limited:
		return http.StatusTooManyRequests
	case fault.Unsupported:
		return http.StatusNotImplemented
	case fault.Gone:
		return http.StatusGone
	case fault.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}

// ProblemOf returns the problem for an error. Details that clients must not see are in the log, under the request's ID.
func ProblemOf(err error) *client.Problem {
	var input *wire.InputError
	var e *fault.Error
	switch {
	case errors.As(err, &input):
		p := wire.NewProblem(input.Slug, http.StatusBadRequest, input.Detail)
		p.Field = input.Field
		if input.Offset >= 0 {
			p.Offset = &input.Offset
		}
		return p
	case errors.As(err, &e) && e.Kind != fault.Internal:
		p := wire.NewProblem(e.Slug, StatusOf(e.Kind), e.Detail)
		p.Field, p.OutOfReach = e.Field, e.OutOfReach
		addRefusal(p, err)
		return withRetry(p, e.RetryAfter)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		p := wire.NewProblem(fault.SlugUnavailable, http.StatusServiceUnavailable,
			"the request ended before its answer; trying again is safe")
		return withRetry(p, 0)
	default:
		return wire.NewProblem(fault.SlugInternal, http.StatusInternalServerError,
			"an error occurred in the service; its log has more under the request's ID")
	}
}

// addRefusal adds the state of a channel or a producer for which a publish was refused.
func addRefusal(p *client.Problem, err error) {
	var refused *channel.RefusedError
	if !errors.As(err, &refused) {
		return
	}
	switch {
	case errors.Is(err, channel.ErrFenced), errors.Is(err, channel.ErrProducerStart):
		p.ProducerEpoch = &refused.Epoch
	case errors.Is(err, channel.ErrProducerGap):
		p.ExpectedSequence = &refused.Expected
	default:
		p.Clock = &refused.Position.Clock
	}
}

// withRetry adds the time of a retry to a 503, a 429, and errors that have one: in whole seconds, at least one.
func withRetry(p *client.Problem, after time.Duration) *client.Problem {
	if after > 0 || p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		p.RetryAfter = max(1, int((after+time.Second-1)/time.Second))
	}
	return p
}

// Problem returns the problem for an error of a part of an answer. An internal error is logged.
func (c *Call) Problem(err error) *client.Problem { return c.route.router.Problem(c.ctx, c.id[0], err) }

// Problem returns the problem for an error of a part of the request with an ID. An internal error is logged.
func (r *Router) Problem(ctx context.Context, id string, err error) *client.Problem {
	p := ProblemOf(err)
	p.RequestID = id
	if p.Status == http.StatusInternalServerError {
		r.log.ErrorContext(ctx, "part of a request failed", "requestId", id, "error", err)
	}
	return p
}

// Fail answers with an error as a problem, as /v1 does.
func Fail(c *Call, err error) {
	p := ProblemOf(err)
	p.RequestID = c.id[0]
	body, errJSON := json.Marshal(p)
	if errJSON != nil {
		body = nil // impossible: a problem has only strings and numbers
	}
	c.SetRetryAfter(p.RetryAfter)
	c.caching = nil
	c.unsent.Close()                                          // a problem isn't refused
	_ = c.write(p.Status, contentProblem, append(body, '\n')) // write keeps its error for the log
}
