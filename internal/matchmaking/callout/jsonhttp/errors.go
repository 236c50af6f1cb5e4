package jsonhttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Errors of calls.
var (
	ErrTimeout  = errors.New("no response")
	ErrTooLarge = errors.New("the response is too large")
)

// StatusError is a response whose status is not 2xx.
type StatusError struct {
	Status     int
	Text       string        // start of the body
	RetryAfter time.Duration // from the Retry-After header; 0: none
}

// Error returns the status and the start of the body.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status))
	if 300 <= e.Status && e.Status <= 399 {
		text += ", redirects are not followed"
	}
	if e.Text != "" {
		text += fmt.Sprintf(": %q", e.Text)
	}
	return text
}

func statusError(r *http.Response) *StatusError {
	text, _ := io.ReadAll(io.LimitReader(r.Body, textBytes))
	return &StatusError{
		Status:     r.StatusCode,
		Text:       strings.TrimSpace(cut(text)),
		RetryAfter: retryAfter(r.Header.Get("Retry-After"), time.Now()),
	}
}

// cut removes an incomplete character at the end of a text.
func cut(text []byte) string {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if start := len(text) - i; utf8.RuneStart(text[start]) && !utf8.FullRune(text[start:]) {
			return string(text[:start])
		}
	}
	return string(text)
}

// retryAfter parses a Retry-After header: seconds or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}

// Retryable reports whether a call that failed with err may succeed if it is repeated: after network errors, timeouts,
// and the statuses 408, 425, 429 and 5xx. It reports false for invalid responses, untrusted certificates, and the end
// of the caller's context.
func Retryable(err error) bool {
	var status *StatusError
	var certificate *tls.CertificateVerificationError
	var notTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &status):
		return retryableStatus(status.Status)
	case errors.As(err, &certificate), errors.As(err, &notTLS), errors.Is(err, ErrTooLarge):
		return false
	}
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

func retryableStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}
