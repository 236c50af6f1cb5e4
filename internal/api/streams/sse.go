package streams

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/unsent"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// A browser reconnects after a random time from retryFrom to twice that, so that clients of a server that has ended
// don't come back at the same time.
const retryFrom = time.Second

// writeBytes is how much is written at a time, except for larger messages.
const writeBytes = 64 << 10

// encoder encodes the events of one stream.
type encoder struct {
	problem func(error) *client.Problem
	from    []channel.Source // of a stream from many channels; nil: from one
	token   func() string    // of such a stream
	bytes   []byte
}

// appendBegin appends the first lines. began is the ID that resumes a stream with tails before its first event, or empty.
func (e *encoder) appendBegin(began string) {
	retry := retryFrom + rand.N(retryFrom) //nolint:gosec // chance to spread load, not to keep a secret
	e.bytes = fmt.Appendf(e.bytes, "retry: %d\n", retry.Milliseconds())
	if began != "" { // a block without data is no event, but its ID counts
		e.bytes = fmt.Appendf(e.bytes, "id: %s\n\n", began)
	}
	e.appendPing()
}

// appendPing appends a comment. No empty line ends it: some clients take that for an event without data.
func (e *encoder) appendPing() { e.bytes = append(e.bytes, ": ping\n"...) }

// appendEnd appends the last event of a stream. If that is closed, the event has an ID, since it may be the only one: a
// browser that reconnects with it is told that there is nothing more.
func (e *encoder) appendEnd(s Stream, reason string) {
	id := ""
	if reason == endClosed {
		id = s.Token()
	}
	e.appendEvent(id, "end", func(b []byte) []byte { return append(append(append(b, `{"reason":"`...), reason...), `"}`...) })
}

// each appends arrivals, and calls flush whenever enough is to be written, and in the end, with how many messages that is.
// It returns how many arrivals were appended before flush failed.
func (e *encoder) each(arrivals []channel.Arrival, jsonOf func(*channel.Message) []byte,
	flush func(messages int) error) (n int, err error) {
	messages := 0
	for i := range arrivals {
		a, last := &arrivals[i], i == len(arrivals)-1
		e.appendArrival(a, last, jsonOf)
		if a.Message != nil {
			messages++
		}
		if len(e.bytes) < writeBytes && !last {
			continue
		}
		if err := flush(messages); err != nil {
			return i + 1, err
		}
		messages = 0
	}
	return len(arrivals), nil
}

// appendArrival appends an arrival. In a stream from many channels the last of those that are written together has the token
// as its ID. jsonOf returns the JSON of a message.
func (e *encoder) appendArrival(a *channel.Arrival, last bool, jsonOf func(*channel.Message) []byte) {
	id := a.Receipt
	var source wire.StreamSource
	if e.from != nil {
		from := &e.from[a.Source]
		source = wire.StreamSource{Channel: from.Channel, Subscriber: from.Subscriber}
		if id = ""; last {
			id = e.token()
		}
	}
	switch m := a.Message; {
	case m != nil:
		receipt := a.Receipt
		if e.from != nil && e.from[a.Source].Tail != nil {
			receipt = "" // there is nothing to acknowledge
		}
		e.appendHead(id, "message")
		head := wire.StreamHead{StreamSource: source, ReceiptHandle: receipt}
		start := len(e.bytes)
		e.bytes = head.AppendWith(e.bytes, jsonOf(m))
		onOneLine(e.bytes[start:])
		e.bytes = append(e.bytes, "\n\n"...)
	case a.Gap != nil:
		gap := wire.StreamGap{StreamSource: source, Reason: string(a.Gap.Reason), Count: a.Gap.Count}
		if source.Subscriber != "" { // else the event's ID is its receipt handle, or it has none
			gap.ReceiptHandle = a.Receipt
		}
		e.appendEvent(id, "gap", gap.AppendJSON)
	case a.Closed && e.from != nil:
		closed := wire.StreamClosed{StreamSource: source}
		if source.Subscriber != "" {
			closed.ReceiptHandle = a.Receipt
		}
		e.appendEvent(id, "closed", closed.AppendJSON)
	case e.from != nil: // the end of a stream from one channel says enough
		problem := wire.SourceProblem{Channel: source.Channel, Subscriber: source.Subscriber, Problem: *e.problem(a.Err)}
		e.appendEvent(id, "problem", func(b []byte) []byte {
			text, err := json.Marshal(problem)
			if err != nil {
				return append(b, "{}"...) // impossible: a problem has only strings and numbers
			}
			return append(b, text...)
		})
	}
}

// appendHead appends the lines of an event before its data.
func (e *encoder) appendHead(id, name string) {
	b := e.bytes
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	e.bytes = append(append(append(b, "event: "...), name...), "\ndata: "...)
}

func (e *encoder) appendEvent(id, name string, appendJSON func([]byte) []byte) {
	e.appendHead(id, name)
	start := len(e.bytes)
	e.bytes = appendJSON(e.bytes)
	onOneLine(e.bytes[start:])
	e.bytes = append(e.bytes, "\n\n"...)
}

// onOneLine replaces line breaks in JSON, which are white space, by blanks.
func onOneLine(b []byte) {
	for _, lineBreak := range []byte("\r\n") {
		for rest := b; ; {
			at := bytes.IndexByte(rest, lineBreak)
			if at < 0 {
				break
			}
			rest[at] = ' '
			rest = rest[at+1:]
		}
	}
}

// setHeaders sets the headers of a stream.
func setHeaders(c *web.Call) {
	header := c.Response().Header()
	header["Content-Type"] = []string{wire.MediaEvents}
	header["X-Accel-Buffering"] = []string{"no"} // nginx would keep events back
	c.SetHeaders()
	// middleware that compresses keeps events back
	header["Cache-Control"] = []string{header.Get("Cache-Control") + ", no-transform"}
	c.SetOutcome(http.StatusOK, nil)
}

// timeToRead returns the time in which a client must read a number of bytes: until after the next ping, and the time for
// the bytes.
func timeToRead(n int) time.Duration { return PingEvery + unsent.Time(int64(n)) }

// writer writes the events of a stream by net/http.
type writer struct {
	encoder
	call   *web.Call
	out    *Output
	counts *counts
}

func newWriter(c *web.Call, counts *counts) *writer {
	return &writer{call: c, out: NewOutput(c, counts.cut), counts: counts}
}

// begin writes the headers and the first ping.
func (w *writer) begin(began string) error {
	setHeaders(w.call)
	w.out.Begin()
	w.appendBegin(began)
	return w.flush()
}

func (w *writer) ping() error {
	w.appendPing()
	return w.flush()
}

func (w *writer) end(s Stream, reason string) error {
	w.appendEnd(s, reason)
	return w.flush()
}

// arrived writes arrivals.
func (w *writer) arrived(arrivals []channel.Arrival) error {
	_, err := w.each(arrivals, jsonOf, func(messages int) error {
		if err := w.flush(); err != nil {
			return err
		}
		w.counts.messages.Add(float64(messages))
		return nil
	})
	return err
}

// jsonOf returns the JSON of a message.
func jsonOf(m *channel.Message) []byte { return wire.AppendMessage(nil, m) }

// flush sends what is buffered.
func (w *writer) flush() (err error) {
	w.bytes, err = w.out.Flush(w.bytes)
	return err
}

func writeError(n int, err error) error { return fmt.Errorf("write %d bytes of a stream: %w", n, err) }
