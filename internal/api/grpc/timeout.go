package grpc

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers of the HTTP port in which clients send a call's timeout.
const (
	headerGRPCTimeout    = "Grpc-Timeout"       // gRPC, gRPC-Web, and JSON paths as in grpc-gateway
	headerConnectTimeout = "Connect-Timeout-Ms" // Connect
	headerServerTimeout  = "X-Server-Timeout"   // vanguard reads it on JSON paths
)

// longestTimeout is the longest timeout of calls. Longer ones are ignored, as in grpc-go.
const longestTimeout = 8 * time.Hour

// timeout is the client's timeout for its call on the HTTP port.
type timeout struct {
	duration time.Duration
	limited  bool // otherwise duration has no meaning

	header, text string // that the client sent
}

// timeoutOf returns the timeout of a request. json reports whether it is on a JSON path. The error is for the client.
func timeoutOf(h http.Header, json bool) (t timeout, err error) {
	t.header = headerConnectTimeout
	parse := parseConnectTimeout
	if json || strings.HasPrefix(h.Get("Content-Type"), "application/grpc") {
		t.header, parse = headerGRPCTimeout, parseGRPCTimeout
	}
	if t.text = h.Get(t.header); t.text == "" {
		return t, nil
	}
	timeout, ok := parse(t.text)
	if !ok {
		return t, fmt.Errorf("the header %s is not a timeout", t.header)
	}
	t.duration, t.limited = timeout, timeout <= longestTimeout
	return t, nil
}

// forVanguard returns the headers of a request with the timeout in the form that vanguard reads, and in no other.
func (t timeout) forVanguard(h http.Header, json bool) http.Header {
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
	case !t.limited:
	case json:
		h.Set(headerServerTimeout, strconv.FormatFloat(t.duration.Seconds(), 'f', -1, 64))
	default:
		h.Set(t.header, t.text)
	}
	return h
}

var timeoutUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// parseGRPCTimeout parses up to 8 digits and a unit.
func parseGRPCTimeout(text string) (time.Duration, bool) {
	last := len(text) - 1
	unit, known := timeoutUnits[text[last]]
	n, ok := parseDigits(text[:last], 8)
	return times(n, unit), known && ok
}

// parseConnectTimeout parses up to 10 digits.
func parseConnectTimeout(text string) (time.Duration, bool) {
	n, ok := parseDigits(text, 10)
	return times(n, time.Millisecond), ok
}

func parseDigits(text string, most int) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil && len(text) <= most
}

// times returns n times unit, or the longest duration if that overflows.
func times(n int64, unit time.Duration) time.Duration {
	if unit > 0 && n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}
