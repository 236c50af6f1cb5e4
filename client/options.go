package client

import (
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
}

// WithHTTPClient sends all requests through h, which may bring its own transport, proxy or certificates. Its
// Timeout must be longer than any FetchOptions.Wait, or zero.
func WithHTTPClient(h *http.Client) Option { return func(s *settings) { s.http = h } }

// WithRetry sets how calls are tried again.
func WithRetry(p RetryPolicy) Option { return func(s *settings) { s.retry = p } }

// WithUserAgent sets the User-Agent header. Default: "tidemark-go".
func WithUserAgent(text string) Option { return func(s *settings) { s.userAgent = text } }

// WithTimeout bounds each single try of a call; a fetch's is longer by its wait. Default: 30 seconds.
func WithTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }
