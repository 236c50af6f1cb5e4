package grpc

import (
	"context"
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
)

// longestTimeout is the longest timeout of calls. Longer ones are ignored.
const longestTimeout = 8 * time.Hour

// timeoutHeader returns the name of the header with the timeout of a call that isn't on a JSON path.
func timeoutHeader(h http.Header) string {
	if strings.HasPrefix(h.Get(headerContentType), typeGRPC) {
		return headerGRPCTimeout
	}
	return headerConnectTimeout
}

// withTimeout returns a context that ends when the timeout in a header does. The error is the client's.
func withTimeout(ctx context.Context, h http.Header, name string) (context.Context, context.CancelFunc, error) {
	text := h.Get(name)
	if text == "" {
		return ctx, func() {}, nil
	}
	parse := parseGRPCTimeout
	if name == headerConnectTimeout {
		parse = parseConnectTimeout
	}
	timeout, ok := parse(text)
	switch {
	case !ok:
		return nil, nil, badRequest("the header " + name + " is not a timeout")
	case timeout > longestTimeout:
		return ctx, func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	return ctx, cancel, nil
}

var timeoutUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// parseGRPCTimeout parses up to 8 digits and a unit.
func parseGRPCTimeout(text string) (time.Duration, bool) {
	last := len(text) - 1
	unit, valid := timeoutUnits[text[last]]
	n, ok := parseDigits(text[:last], 8)
	return times(n, unit), valid && ok
}

// parseConnectTimeout parses up to 10 digits.
func parseConnectTimeout(text string) (time.Duration, bool) {
	n, ok := parseDigits(text, 10)
	return times(n, time.Millisecond), ok
}

func parseDigits(text string, maxDigits int) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil && len(text) <= maxDigits
}

// times returns n times unit, or the longest duration if that overflows.
func times(n int64, unit time.Duration) time.Duration {
	if unit > 0 && n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
}
