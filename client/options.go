package client

import (
	"context"
	"net/http"
	"time"
)

// Option changes how a Client works.
type Option func(*settings)

type settings struct {
	http      *http.Client
	retry     RetryPolicy
	userAgent string
	timeout   time.Duration
	token     func(ctx context.Context) (string, error) // nil: none
	pollOnly  bool                                      // Consume and ConsumeMany open no streams
}

// WithToken makes the client send an API key or a token with each request.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource makes the client ask for the token of each request, so that one that expires can be replaced. source
// must be safe for concurrent use, and should return the same token until it is about to expire. If it returns an error
// the call isn't sent, and returns the error.
func WithTokenSource(source func(ctx context.Context) (string, error)) Option {
	return func(s *settings) { s.token = source }
}

// WithHTTPClient makes the client send all requests through h, for a transport, proxy or certificates of the caller's.
// The Timeout of h must be zero, or longer than any FetchOptions.Wait; it ends streams, too. If the transport of h is
// an *http.Transport with a limit of connections per host, Consume and ConsumeMany open no streams, which would use
// them up. Redirects are not followed unless h has a CheckRedirect: they are errors.
func WithHTTPClient(h *http.Client) Option { return func(s *settings) { s.http = h } }

// WithRetry sets how calls are retried.
func WithRetry(p RetryPolicy) Option { return func(s *settings) { s.retry = p } }

// WithUserAgent sets the User-Agent header. Default: "tidemark-go".
func WithUserAgent(text string) Option { return func(s *settings) { s.userAgent = text } }

// WithTimeout bounds each try of a call; for a fetch the wait is added. Default: 30 seconds.
func WithTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// WithoutStreams makes Consume and ConsumeMany poll.
func WithoutStreams() Option { return func(s *settings) { s.pollOnly = true } }
