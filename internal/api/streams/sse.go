package streams

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/unsent"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// A browser reconnects after a random time from retryFrom to twice that, so that clients of a server that has ended
// don't come back at the same time.
const retryFrom = time.Second

// writeBytes is how much is written at a time, except for larger messages.
const writeBytes = 64 << 10

// writer writes the events of one stream. A client that doesn't read in time is cut off: it resumes.
type writer struct {
	call   *web.Call
	out    *http.ResponseController
	direct *http.ResponseController // of net/http's writer, whose Flush returns errors
	counts *counts
	from   []channel.Source // of a stream from many channels; nil: from one
	began  string           // the ID that resumes a stream with tails before its first event; empty: none
	buffer []byte
}

func newWriter(c *web.Call, counts *counts) *writer {
	w := &writer{call: c, out: http.NewResponseController(c.Response()), counts: counts}
	w.direct = w.out
	if wrapped, ok := c.Response().(interface{ Unwrap() http.ResponseWriter }); ok {
		w.direct = http.NewResponseController(wrapped.Unwrap())
	}
	return w
}

// begin writes the headers and the first ping.
func (w *writer) begin() error {
	_ = w.out.SetReadDeadline(time.Time{}) // net/http's would end the stream; fails only without a connection
	header := w.call.Response().Header()
	header["Content-Type"] = []string{wire.MediaEvents}
	header["X-Accel-Buffering"] = []string{"no"} // nginx would keep events back
	w.call.SetHeaders()
	// middleware that compresses keeps events back
	header["Cache-Control"] = []string{header.Get("Cache-Control") + ", no-transform"}
	w.call.SetOutcome(http.StatusOK, nil)
	w.call.Response().WriteHeader(http.StatusOK)
	retry := retryFrom + rand.N(retryFrom) //nolint:gosec // chance to spread load, not to keep a secret
	w.buffer = fmt.Appendf(w.buffer, "retry: %d\n", retry.Milliseconds())
	if w.began != "" { // a block without data is no event, but its ID counts
		w.buffer = fmt.Appendf(w.buffer, "id: %s\n\n", w.began)
	}
	return w.ping()
}

// ping writes a comment. No empty line ends it: some clients take that for an event without data.
func (w *writer) ping() error {
	w.buffer = append(w.buffer, ": ping\n"...)
	return w.flush()
}

func (w *writer) end(reason string) error {
	w.event("", "end", func(b []byte) []byte { return append(append(append(b, `{"reason":"`...), reason...), `"}`...) })
	return w.flush()
}

// arrived writes arrivals. In a stream from many channels the last one has the token as its ID.
func (w *writer) arrived(arrivals []channel.Arrival, s Stream) error {
	messages := 0
	for i := range arrivals {
		a := &arrivals[i]
		id := a.Receipt
		if w.from != nil {
			id = ""
			if i == len(arrivals)-1 {
				id = s.Token()
			}
		}
		w.arrival(id, a)
		if a.Message != nil {
			messages++
		}
		if len(w.buffer) >= writeBytes || i == len(arrivals)-1 {
			if err := w.flush(); err != nil {
				return err
			}
			w.counts.messages.Add(float64(messages))
			messages = 0
		}
	}
	return nil
}

func (w *writer) arrival(id string, a *channel.Arrival) {
	var source wire.StreamSource
	if w.from != nil {
		from := &w.from[a.Source]
		source = wire.StreamSource{Channel: from.Channel, Subscriber: from.Subscriber}
	}
	switch m := a.Message; {
	case m != nil:
		if w.from != nil && w.from[a.Source].Tail != nil {
			a.Receipt = "" // there is nothing to acknowledge
		}
		message := wire.StreamMessage{StreamSource: source, ReceiptHandle: a.Receipt, Message: web.MessageOf(m)}
		w.event(id, "message", message.AppendJSON)
	case a.Gap != nil:
		gap := wire.StreamGap{StreamSource: source, Reason: string(a.Gap.Reason), Count: a.Gap.Count}
		if source.Subscriber != "" { // else the event's ID is its receipt handle, or it has none
			gap.ReceiptHandle = a.Receipt
		}
		w.event(id, "gap", gap.AppendJSON)
	case w.from != nil: // the end of a stream from one channel says enough
		problem := wire.SourceProblem{Channel: source.Channel, Subscriber: source.Subscriber, Problem: *w.call.Problem(a.Err)}
		w.event(id, "problem", func(b []byte) []byte {
			text, err := json.Marshal(problem)
			if err != nil {
				return append(b, "{}"...) // impossible: a problem has only strings and numbers
			}
			return append(b, text...)
		})
	}
}

// event appends an event. Line breaks in JSON are white space, which may be another one.
func (w *writer) event(id, name string, appendJSON func([]byte) []byte) {
	b := w.buffer
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	b = append(append(append(b, "event: "...), name...), "\ndata: "...)
	start := len(b)
	b = appendJSON(b)
	for _, lineBreak := range []byte("\r\n") {
		for rest := b[start:]; ; {
			at := bytes.IndexByte(rest, lineBreak)
			if at < 0 {
				break
			}
			rest[at] = ' '
			rest = rest[at+1:]
		}
	}
	w.buffer = append(b, "\n\n"...)
}

// flush sends what is buffered. The client has until after the next ping, and the time for the bytes, to read it.
func (w *writer) flush() error {
	b := w.buffer
	if w.buffer = b[:0]; cap(b) > unsent.Small {
		w.buffer = nil
	}
	began, inTime := time.Now(), pingEvery+unsent.Time(int64(len(b)))
	_ = w.out.SetWriteDeadline(began.Add(inTime)) // fails only without a connection
	_, err := w.call.Response().Write(b)
	if err == nil {
		err = w.direct.Flush()
	}
	unsent.From(w.call.Context()).Shrink(0)
	if err == nil {
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) >= inTime {
		w.counts.cut.Inc()
	}
	return fmt.Errorf("write %d bytes of a stream: %w", len(b), err)
}
