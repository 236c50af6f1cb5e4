// Package jsonhttp calls the HTTP services of matchmaking: game server allocators, match functions and evaluators.
//
// A [Client] posts JSON, limits the size of responses, and follows no redirects. [Retryable] reports whether a failed
// call may succeed if it is repeated. [Targets] restricts which services may be called.
//
// All types are safe for concurrent use.
package jsonhttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/redact"
	"github.com/tidemark-dev/tidemark/internal/tracing"
)

// ContentType is the media type of request bodies.
const ContentType = "application/json"

const (
	userAgent       = "tidemark"
	idleConnections = 64 // per host, so that this many concurrent calls need no new connection
	idleFor         = 30 * time.Second
	textBytes       = 512      // of the body of an error response, in the error
	drainBytes      = 64 << 10 // read of an unused body, so that its connection can be reused
)

// Client calls services over persistent connections.
type Client struct {
	http    *http.Client
	timeout time.Duration
	limit   int64
}

// New returns a client that calls targets only, or any service if targets is nil. timeout limits each call; 0 means
// [matchmaking.DefaultCallTimeout]. limit is the largest response body in bytes.
func New(targets *Targets, timeout time.Duration, limit int64) *Client {
	t := transport()
	targets.Restrict(t)
	return &Client{
		http:    &http.Client{Transport: t, CheckRedirect: followNone},
		timeout: cmp.Or(timeout, matchmaking.DefaultCallTimeout),
		limit:   limit,
	}
}

func transport() *http.Transport {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.IdleConnTimeout = idleConnections, idleConnections, idleFor
	return t
}

// followNone returns a redirect as the response: a signed body or a bearer token must not be sent to another URL.
func followNone(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// CloseIdle closes idle connections. The client can still be used.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Response is a response with status 2xx.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Post sends a JSON body. header, which may be nil, has additional headers. Post fails with *StatusError if the status
// is not 2xx, with ErrTooLarge, ErrTimeout or a network error, or with the cause of ctx if ctx has ended.
func (c *Client) Post(ctx context.Context, target string, header http.Header, body []byte) (Response, error) {
	callCtx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	response, err := c.post(callCtx, target, header, body)
	switch {
	case err == nil:
		return response, nil
	case ctx.Err() != nil:
		return Response{}, context.Cause(ctx)
	case callCtx.Err() != nil:
		return Response{}, fmt.Errorf("%w within %s", ErrTimeout, c.timeout)
	}
	return Response{}, withoutURL(err)
}

// withoutURL removes the URL, which may contain a token, from an error.
func withoutURL(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

func (c *Client) post(ctx context.Context, target string, header http.Header, body []byte) (Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return Response{}, err
	}
	request.Header.Set("Content-Type", ContentType)
	request.Header.Set("User-Agent", userAgent)
	for name, values := range header {
		request.Header[name] = values
	}
	request, span := traced(request)
	defer span.End()
	response, err := c.http.Do(request)
	if err != nil {
		span.Fail("unreachable")
		return Response{}, err
	}
	defer drain(response.Body)
	answered(span, response.StatusCode)
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return Response{}, statusError(response)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, c.limit+1))
	if err != nil {
		return Response{}, fmt.Errorf("read the response: %w", err)
	}
	if int64(len(text)) > c.limit {
		return Response{}, fmt.Errorf("%w: over %d bytes", ErrTooLarge, c.limit)
	}
	return Response{Status: response.StatusCode, Header: response.Header, Body: text}, nil
}

// Stream sends a body while the response is read, which may begin before the body ends. The caller reads the response's
// body and closes it; only ctx limits its size and duration. Stream fails like Post, except for ErrTooLarge and
// ErrTimeout.
func (c *Client) Stream(ctx context.Context, target string, body io.Reader) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", ContentType)
	request.Header.Set("User-Agent", userAgent)
	request, span := traced(request)
	defer span.End()
	response, err := c.http.Do(request)
	if err != nil {
		span.Fail("unreachable")
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, withoutURL(err)
	}
	answered(span, response.StatusCode)
	if response.StatusCode < 200 || response.StatusCode > 299 {
		defer drain(response.Body)
		return nil, statusError(response)
	}
	return response.Body, nil
}

// traced begins the span of a request, of which the service is told, if its context is traced. Neither the URL's path
// nor its query are in the span: they may contain a token.
func traced(r *http.Request) (*http.Request, tracing.Span) {
	if !tracing.Recorded(r.Context()) {
		return r, tracing.Span{}
	}
	ctx, span := tracing.Call(r.Context(), r.Method, tracing.Text("http.request.method", r.Method),
		tracing.Text("server.address", r.URL.Hostname()), tracing.Text("url.scheme", r.URL.Scheme))
	if port, err := strconv.Atoi(r.URL.Port()); err == nil {
		span.Set(tracing.Number("server.port", port))
	}
	if parent := tracing.Header(ctx); parent != "" {
		r.Header.Set("Traceparent", parent)
	}
	return r.WithContext(ctx), span
}

// answered sets the status of the response in the span of its request.
func answered(span tracing.Span, status int) {
	if !span.Recorded() {
		return
	}
	span.Set(tracing.Number("http.response.status_code", status))
	if status < 200 || status > 299 {
		span.Fail(strconv.Itoa(status))
	}
}

// drain reads the rest of a body up to a limit, so that the connection can be reused.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, drainBytes)
	_ = body.Close()
}

// Encode returns value as JSON, without escaping <, > and &.
func Encode(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// parseURL returns the URL of a service, or an error that describes why text is invalid.
func parseURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, errors.New("missing URL")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("invalid URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q is not an http:// or https:// URL", redact.URL(text))
	case u.Hostname() == "":
		return nil, fmt.Errorf("%q has no host", redact.URL(text))
	case u.Fragment != "":
		return nil, fmt.Errorf("%q has a fragment", redact.URL(text))
	}
	return u, nil
}
