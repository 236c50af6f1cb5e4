package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/wire"
)

// refusal is an error that the server itself finds, and not the service.
type refusal struct {
	status int
	slug   string
	detail string
}

func (r *refusal) Error() string { return r.detail }

var (
	errNoPath       = &refusal{status: http.StatusNotFound, slug: wire.SlugNoPath, detail: "there is nothing at this path"}
	errDraining     = &refusal{status: http.StatusServiceUnavailable, slug: wire.SlugDraining, detail: "the server is shutting down"}
	errBodyCutShort = &refusal{status: http.StatusBadRequest, slug: wire.SlugInvalidBody, detail: "the body could not be read to its end"}
	errBodySlow     = &refusal{status: http.StatusRequestTimeout, slug: wire.SlugInvalidBody, detail: "the body took too long to come in"}
	errBodiesFull   = &refusal{status: http.StatusServiceUnavailable, slug: wire.SlugOverloaded, detail: "too many large bodies are on their way to the server; trying again is safe"}
	errConnections  = &refusal{status: http.StatusServiceUnavailable, slug: wire.SlugOverloaded, detail: "too many connections are open to the server; trying again is safe"}
	errPanic        = errors.New("a handler panicked")
)

// statusOf is the one map from what an outcome is to an HTTP status.
func statusOf(kind channel.Kind) int {
	switch kind {
	case channel.Invalid:
		return http.StatusBadRequest
	case channel.NotFound:
		return http.StatusNotFound
	case channel.Forbidden:
		return http.StatusForbidden
	case channel.Conflict:
		return http.StatusConflict
	case channel.TooLarge:
		return http.StatusRequestEntityTooLarge
	case channel.StorageFull:
		return http.StatusInsufficientStorage
	case channel.Unavailable:
		return http.StatusServiceUnavailable
	case channel.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}

// problemOf says what a client is told of an error. What it isn't told of stays in the log, under the request's ID.
func problemOf(err error) *wire.Problem {
	var input *wire.InputError
	var refused *refusal
	var e *channel.Error
	switch {
	case errors.As(err, &input):
		p := wire.NewProblem(input.Slug, http.StatusBadRequest, input.Detail)
		p.Field = input.Field
		if input.Offset >= 0 {
			p.Offset = &input.Offset
		}
		return p
	case errors.As(err, &refused):
		p := wire.NewProblem(refused.slug, refused.status, refused.detail)
		return withRetry(p, 0)
	case errors.As(err, &e) && e.Kind != channel.Internal:
		p := wire.NewProblem(string(e.Slug), statusOf(e.Kind), e.Detail)
		p.Field = e.Field
		return withRetry(p, e.RetryAfter)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		p := wire.NewProblem(wire.SlugUnavailable, http.StatusServiceUnavailable, "the request ended before its answer; trying again is safe")
		return withRetry(p, 0)
	default:
		return wire.NewProblem(wire.SlugInternal, http.StatusInternalServerError, "something went wrong in the service; its log says more under the request's ID")
	}
}

// withRetry adds to a 503 when trying again may help: in whole seconds, and never at once.
func withRetry(p *wire.Problem, after time.Duration) *wire.Problem {
	if p.Status == http.StatusServiceUnavailable {
		p.RetryAfter = max(1, int((after+time.Second-1)/time.Second))
	}
	return p
}

// failWithProblem answers with an error as /v1 has it.
func failWithProblem(c *call, err error) {
	p := problemOf(err)
	p.RequestID = c.id
	body, errJSON := json.Marshal(p)
	if errJSON != nil {
		body = nil // can't be: a problem has only strings and numbers
	}
	if p.RetryAfter > 0 {
		c.response.Header()[headerRetryAfter] = []string{strconv.Itoa(p.RetryAfter)}
	}
	_ = c.write(p.Status, contentProblem, body) // write keeps its error for the log
}
