package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Request sends a request to a path of the service, with its query, such as /v1/queues?limit=10, and returns the answer
// when it begins. It is for paths that no other method is for. body is sent as it is, with the media type of JSON; nil:
// no body. The caller closes the body of the answer, which may be a stream.
//
// WithTimeout bounds how long each try waits for the answer to begin. GET, HEAD, PUT and DELETE are retried as the
// client's own methods are. Other requests could be executed twice: they are retried only if the service can't be
// connected to, or has refused the request without executing it. Answers with a status of 400 or more, and redirects,
// are an *Error.
func (c *Client) Request(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	again := c.retry.again
	if !isIdempotent(method) {
		again = func(err error) bool { return notExecuted(err) && c.retry.again(err) }
	}
	var answer *http.Response
	_, err := c.retry.retry(ctx, again, func() (err error) {
		answer, err = c.begin(ctx, method, path, body)
		return err
	})
	if err != nil {
		path, _, _ = strings.Cut(path, "?")
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return answer, nil
}

func isIdempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// begin sends a request once, and returns the answer when it begins.
func (c *Client) begin(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	tryCtx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(c.timeout, cancel)
	req, err := c.requestTo(tryCtx, method, path, body)
	if err != nil {
		cancel()
		return nil, err
	}
	answer, err := c.http.Do(req)
	if err == nil && answer.StatusCode < http.StatusMultipleChoices && late.Stop() {
		answer.Body = answerBody{ReadCloser: answer.Body, end: cancel}
		return answer, nil
	}
	defer cancel()
	defer late.Stop()
	if err == nil {
		defer answer.Body.Close() //nolint:errcheck // an error has no effect
		if answer.StatusCode >= http.StatusMultipleChoices {
			return nil, readError(answer)
		}
	}
	if err == nil || errors.Is(err, context.Canceled) {
		err = context.DeadlineExceeded // unless the caller's context has ended, which noAnswer checks first
	}
	return nil, c.noAnswer(ctx, request{}, err)
}

func (c *Client) requestTo(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.userAgent)
	req.Header.Set("Accept-Encoding", "identity") // a proxy that compresses holds streams back
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, c.authorize(req)
}

// answerBody ends the context of its request when it is closed.
type answerBody struct {
	io.ReadCloser

	end context.CancelFunc
}

// Close implements io.Closer.
func (b answerBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// durationText returns a duration as the service reads it, or "" for 0.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
