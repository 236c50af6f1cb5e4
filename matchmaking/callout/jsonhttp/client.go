// Package jsonhttp calls the HTTP services that matchmaking asks: allocators of game servers, match functions,
// evaluators. It posts JSON, bounds what it reads, follows no redirects, and tells failures that trying again may
// mend from those that it won't.
package jsonhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/tidemark-dev/tidemark/internal/redact"
)

// ContentType is the media type of the bodies that are sent.
const ContentType = "application/json"

const (
	userAgent       = "tidemark"
	idleConnections = 64 // kept to one host, so that as many calls at the same time need no new ones
	idleFor         = 30 * time.Second
	textBytes       = 512      // of a refusal's body, for its error
	drainBytes      = 64 << 10 // read on of a body that isn't wanted, so that its connection can be used again
)

// Client sends calls over connections that are kept. It is safe for concurrent use.
type Client struct {
	http    *http.Client
	timeout time.Duration
	limit   int64
}

// New makes a client of targets; nil: of any. Each call may take up to timeout, and a body that it is answered with may
// have up to limit bytes.
func New(targets *Targets, timeout time.Duration, limit int64) *Client {
	t := transport()
	targets.Restrict(t)
	return &Client{
		http:    &http.Client{Transport: t, CheckRedirect: followNone},
		timeout: timeout,
		limit:   limit,
	}
}

func transport() *http.Transport {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.IdleConnTimeout = idleConnections, idleConnections, idleFor
	return t
}

// followNone makes a redirect the answer: a signed body, or a bearer token, goes only where it was meant for.
func followNone(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// CloseIdle closes the connections that no call uses. The client can still be used.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Answer is a successful one: its status is 2xx.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Post sends a JSON body. header may be nil; it isn't changed. Errors: *StatusError for an answer that isn't 2xx,
// ErrTooLarge, ErrTimeout, and those of the network; ctx's, where it has ended.
func (c *Client) Post(ctx context.Context, target string, header http.Header, body []byte) (Answer, error) {
	one, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.post(one, target, header, body)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return Answer{}, context.Cause(ctx)
	case one.Err() != nil:
		return Answer{}, fmt.Errorf("%w within %s", ErrTimeout, c.timeout)
	}
	return Answer{}, withoutURL(err)
}

// withoutURL returns an error without the URL that was called, which may have a token in it.
func withoutURL(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

func (c *Client) post(ctx context.Context, target string, header http.Header, body []byte) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	request.Header.Set("Content-Type", ContentType)
	request.Header.Set("User-Agent", userAgent)
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer drain(response.Body)
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return Answer{}, statusError(response)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, c.limit+1))
	if err != nil {
		return Answer{}, fmt.Errorf("read the answer: %w", err)
	}
	if int64(len(text)) > c.limit {
		return Answer{}, fmt.Errorf("%w: over %d bytes", ErrTooLarge, c.limit)
	}
	return Answer{Status: response.StatusCode, Header: response.Header, Body: text}, nil
}

// drain reads what is left of a body, within reason, since only then its connection is used again.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, drainBytes)
	_ = body.Close()
}

// Encode writes value as JSON, with <, > and & as they are.
func Encode(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// CheckURL tells whether text is a URL that can be called: one of http or https, with a host and without a fragment.
func CheckURL(text string) error {
	if text == "" {
		return errors.New("there is none")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("it can't be read as a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q isn't an address of http:// or https://", redact.URL(text))
	case u.Hostname() == "":
		return fmt.Errorf("%q has no host", redact.URL(text))
	case u.Fragment != "":
		return fmt.Errorf("%q has a fragment, which is never sent", redact.URL(text))
	}
	return nil
}
