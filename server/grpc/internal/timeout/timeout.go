// Package timeout reads how long the client of a call on the HTTP port waits. Start from [Of].
package timeout

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers in which clients send how long they wait: gRPC and gRPC-Web, and the JSON paths as in grpc-gateway; Connect; and
// what vanguard has for JSON paths in place of that.
const (
	headerGRPCTimeout    = "Grpc-Timeout"
	headerConnectTimeout = "Connect-Timeout-Ms"
	headerServerTimeout  = "X-Server-Timeout"
)

// longest is the longest timeout of calls: longer ones are none, as in grpc-go.
const longest = 8 * time.Hour

// Timeout is how long a client waits.
type Timeout struct {
	For     time.Duration
	Limited bool // else For has no meaning

	header, text string // that the client sent
}

// Of returns the timeout of a request. json is set for a JSON path. The error is for the client.
func Of(h http.Header, json bool) (t Timeout, err error) {
	t.header = headerConnectTimeout
	parse := parseConnect
	if json || strings.HasPrefix(h.Get("Content-Type"), "application/grpc") {
		t.header, parse = headerGRPCTimeout, parseGRPC
	}
	if t.text = h.Get(t.header); t.text == "" {
		return t, nil
	}
	timeout, ok := parse(t.text)
	if !ok {
		return t, fmt.Errorf("the header %s is not a timeout", t.header)
	}
	t.For, t.Limited = timeout, timeout <= longest
	return t, nil
}

// Header returns the headers of the request with the timeout as vanguard reads it, and without what it would misread.
func (t Timeout) Header(h http.Header, json bool) http.Header {
	copied := false
	for _, name := range []string{headerGRPCTimeout, headerConnectTimeout, headerServerTimeout} {
		if _, has := h[name]; has && !copied {
			h, copied = h.Clone(), true
		}
		if copied {
			h.Del(name)
		}
	}
	switch {
	case !t.Limited:
	case json:
		h.Set(headerServerTimeout, strconv.FormatFloat(t.For.Seconds(), 'f', -1, 64))
	default:
		h.Set(t.header, t.text)
	}
	return h
}

var units = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// parseGRPC parses up to 8 digits and a unit.
func parseGRPC(text string) (time.Duration, bool) {
	last := len(text) - 1
	unit, known := units[text[last]]
	n, ok := parseDigits(text[:last], 8)
	return times(n, unit), known && ok
}

// parseConnect parses up to 10 digits.
func parseConnect(text string) (time.Duration, bool) {
	n, ok := parseDigits(text, 10)
	return times(n, time.Millisecond), ok
}

func parseDigits(text string, most int) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil && len(text) <= most
}

// times returns a product, or the longest duration if it is longer.
func times(n int64, unit time.Duration) time.Duration {
	if unit > 0 && n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}
