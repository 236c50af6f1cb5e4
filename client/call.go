package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
)

// request is a call of the API before it is sent, perhaps several times.
type request struct {
	what   string // what the call does, for errors
	method string
	path   []string // segments below /v1
	query  url.Values
	body   []byte        // JSON, or nil
	wait   time.Duration // how long the service may hold the answer back

	isProbe bool // the path isn't below /v1, and no token is sent
}

// Call is a call of a part of the API that another package serves, such as client/records.
type Call struct {
	What   string // what the call does, for errors
	Method string
	Path   []string // segments below /v1
	Query  url.Values
	Body   any           // sent as JSON; json.RawMessage is sent as it is; nil: no body
	Wait   time.Duration // how long the service may hold the answer back
}

// Do sends a call, with the retries and errors of the client's own methods, and returns the status of the answer. The
// answer is decoded into out: JSON, or the bytes as they are if out is a *[]byte. nil drops it.
func (c *Client) Do(ctx context.Context, call Call, out any) (status int, err error) {
	r := request{what: call.What, method: call.Method, path: call.Path, query: call.Query, wait: call.Wait}
	if raw, ok := call.Body.(json.RawMessage); ok {
		r.body = raw
	} else if call.Body != nil {
		if r.body, err = json.Marshal(call.Body); err != nil {
			return 0, fmt.Errorf("%s: %w", r.what, err)
		}
	}
	answer, err := c.call(ctx, r, out)
	return answer.status, err
}

// reply is an answer of the service.
type reply struct {
	status int
	tries  int // how often the request was sent, this one included
}

// maxAnswerBytes is more than any answer of a service has.
const maxAnswerBytes = 256 << 20

// call sends r until it is answered or the retry policy ends it, and decodes the answer into out unless that is nil.
func (c *Client) call(ctx context.Context, r request, out any) (reply, error) {
	var last reply
	tries, err := c.retry.retry(ctx, c.retry.again, func() error {
		var err error
		last, err = c.try(ctx, r, out)
		return err
	})
	if err != nil {
		return reply{}, fmt.Errorf("%s: %w", r.what, err)
	}
	last.tries = tries
	return last, nil
}

// try sends r once.
func (c *Client) try(ctx context.Context, r request, out any) (reply, error) {
	if err := checkNames(r.path); err != nil {
		return reply{}, err
	}
	tryCtx, cancel := context.WithTimeout(ctx, c.timeout+r.wait)
	defer cancel()
	req, err := c.httpRequest(tryCtx, r)
	if err != nil {
		return reply{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{}, c.noAnswer(ctx, r, err)
	}
	defer resp.Body.Close() //nolint:errcheck // the body has been read; an error has no effect
	if resp.StatusCode >= http.StatusMultipleChoices {
		return reply{}, readError(resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return reply{}, c.noAnswer(ctx, r, err)
	case len(body) > maxAnswerBytes:
		return reply{}, fmt.Errorf("the answer has more than %d MiB, so it isn't that of a Tidemark service",
			maxAnswerBytes>>20)
	}
	if out == nil || len(body) == 0 && resp.StatusCode == http.StatusNoContent {
		return reply{status: resp.StatusCode}, nil
	}
	if raw, ok := out.(*[]byte); ok {
		*raw = body
		return reply{status: resp.StatusCode}, nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return reply{}, fmt.Errorf("the answer (status %d) isn't that of a Tidemark service: %w", resp.StatusCode, err)
	}
	return reply{status: resp.StatusCode}, nil
}

// checkNames refuses names that would change the meaning of the path. The service checks all others.
func checkNames(path []string) error {
	for i, name := range path {
		if name != "" && name != "." && name != ".." {
			continue
		}
		e := *ErrInvalidChannel
		switch {
		case path[0] == "tickets":
			e = *ErrInvalidTicket
		case path[0] == "queues":
			e = *ErrInvalidQueue
		case path[0] == "keys":
			e = *ErrNoKey
		case path[0] != "channels":
			e = *named(fault.SlugInvalidID)
		case i > 1:
			e = *ErrInvalidSubscriber
		}
		e.Problem.Detail = fmt.Sprintf("%q can't be a name", name)
		return &e
	}
	return nil
}

func (c *Client) httpRequest(ctx context.Context, r request) (*http.Request, error) {
	target := c.base
	if !r.isProbe {
		target += "/v1"
	}
	for _, segment := range r.path {
		target += "/" + url.PathEscape(segment)
	}
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.userAgent)
	req.Header.Set("Accept", "application/json, application/problem+json")
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.isProbe {
		return req, nil
	}
	return req, c.authorize(req)
}

// authorize adds the token to a request.
func (c *Client) authorize(req *http.Request) error {
	if c.token == nil {
		return nil
	}
	token, err := c.token(req.Context())
	switch {
	case err != nil:
		return fmt.Errorf("get the token: %w", err)
	case strings.ContainsFunc(token,
		func(r rune) bool { return r <= ' ' || r > '~' }): // net/http's error would have it
		return errors.New("the token has characters that no token has")
	case token != "":
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// noAnswer returns the error of a try without an answer: that of ctx, the caller's context, if it has ended. The try's
// own time limit is reported as ErrUnreachable.
func (c *Client) noAnswer(ctx context.Context, r request, err error) error {
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: no answer within %s", ErrUnreachable, c.timeout+r.wait)
	}
	var failed *url.Error
	if errors.Is(err, errHTTP2) {
		err = errHTTP2 // without what net/http says about it
	} else if errors.As(err, &failed) {
		err = failed.Err // without the method and URL, which the caller knows
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// ended returns the error of a context that has ended, with its cause if that says more.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
