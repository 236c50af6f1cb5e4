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
	ErrTimeout  = errors.New("there was no answer")
	ErrTooLarge = errors.New("the answer is too large")
)

// StatusError is an answer that isn't 2xx.
type StatusError struct {
	Status     int
	Text       string        // the start of the answer's body
	RetryAfter time.Duration // as the answer says; 0: it doesn't
}

// Error gives the status and the start of the body.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("the answer is %d %s", e.Status, http.StatusText(e.Status))
	if 300 <= e.Status && e.Status <= 399 {
		text += ", and redirects aren't followed"
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

// cut leaves out the half of a character that a cut text ends with.
func cut(text []byte) string {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if start := len(text) - i; utf8.RuneStart(text[start]) && !utf8.FullRune(text[start:]) {
			return string(text[:start])
		}
	}
	return string(text)
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}

// Passing tells whether trying again may mend the error of a call: the network's are, a call's timeout, and the
// statuses 408, 425, 429 and 5xx. An answer that breaks a rule isn't, nor a certificate that isn't trusted, nor the
// end of the caller's context.
func Passing(err error) bool {
	var status *StatusError
	var certificate *tls.CertificateVerificationError
	var notTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &status):
		return passingStatus(status.Status)
	case errors.As(err, &certificate), errors.As(err, &notTLS), errors.Is(err, ErrTooLarge):
		return false
	}
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

func passingStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}
