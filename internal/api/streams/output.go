package streams

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/unsent"
)

// Output writes the events of a stream by net/http. A client that doesn't read in time is cut off: it resumes.
type Output struct {
	call      *web.Call
	response  *http.ResponseController
	unwrapped *http.ResponseController // of net/http's writer, whose Flush returns errors
	cut       prometheus.Counter       // counts clients that were cut off
}

// NewOutput returns the output of a call.
func NewOutput(c *web.Call, cut prometheus.Counter) *Output {
	o := &Output{call: c, response: http.NewResponseController(c.Response()), cut: cut}
	o.unwrapped = o.response
	if wrapped, ok := c.Response().(interface{ Unwrap() http.ResponseWriter }); ok {
		o.unwrapped = http.NewResponseController(wrapped.Unwrap())
	}
	return o
}

// Begin sends the status, after the headers are set.
func (o *Output) Begin() {
	_ = o.response.SetReadDeadline(time.Time{}) // net/http's would end the stream; fails only without a connection
	o.call.Response().WriteHeader(http.StatusOK)
}

// Flush sends bytes, and returns a buffer for the next ones, which may be in the same memory.
func (o *Output) Flush(b []byte) (empty []byte, err error) {
	if cap(b) <= unsent.Small {
		empty = b[:0]
	}
	began, inTime := time.Now(), timeToRead(len(b))
	_ = o.response.SetWriteDeadline(began.Add(inTime)) // fails only without a connection
	if _, err = o.call.Response().Write(b); err == nil {
		err = o.unwrapped.Flush()
	}
	unsent.From(o.call.Context()).Shrink(0)
	if err == nil {
		return empty, nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) >= inTime {
		o.cut.Inc()
	}
	return empty, writeError(len(b), err)
}
