package streams

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/internal/unsent"
)

// directStream writes the events of a stream to a connection of its own. While it waits it has one goroutine, which only
// reads, to see the end of the connection, and no buffer. A goroutine of the scheduler writes what arrives if the
// connection has room for it; what has to be read from the store, or doesn't fit, gets a goroutine for as long as that
// takes.
type directStream struct {
	task
	counts  *counts
	call    *web.Call
	stream  Stream
	events  encoder // its bytes are the buffer of the goroutine that runs the job
	end     time.Time
	conn    net.Conn
	raw     syscall.RawConn
	wrote   time.Time
	traced  bool        // the request is sampled
	alarm   alarm       // for the next ping, the end, or a time before them
	unwatch func() bool // ends the watching of the call's context

	// What quick leaves to slow.
	rest     []byte            // of a chunk that didn't fit
	messages int               // in that chunk
	arrivals []channel.Arrival // after it
}

func newDirectStream(a *api, c *web.Call) *directStream {
	d := &directStream{counts: &a.counts, call: c}
	d.task = task{scheduler: a.scheduler, job: d}
	return d
}

// Each write is a chunk of RFC 9112, section 7.1, whose length has leading zeros.
const (
	chunkHead = "00000000\r\n"
	chunkEnd  = "\r\n"
	lastChunk = "0\r\n\r\n"
)

// begin takes the connection, and writes the headers and the first ping. It reports whether the connection is taken: the
// stream then ends by itself, also after a panic.
func (d *directStream) begin() (taken bool, err error) {
	setHeaders(d.call)
	header := d.call.Response().Header()
	conn, idle, err := d.call.Detach()
	if err != nil {
		return false, err
	}
	defer func() {
		if p := recover(); p != nil {
			d.panicked(p)
			taken, err = true, nil
		}
	}()
	d.conn = conn
	if d.raw, err = rawConn(conn); err != nil {
		d.finish(err)
		return true, nil
	}
	header["Date"] = []string{time.Now().UTC().Format(http.TimeFormat)}
	header["Connection"] = []string{"close"}
	header["Transfer-Encoding"] = []string{"chunked"}
	var head headerWriter
	head = append(head, "HTTP/1.1 200 OK\r\n"...)
	_ = header.Write(&head) // never fails
	head = append(head, chunkEnd...)
	d.startChunk(nil)
	d.events.appendBegin(d.stream.Began())
	d.endChunk()
	d.rest = append(head, d.events.bytes...)
	d.events.bytes = nil
	d.traced = tracing.Sampled(d.call.Context())
	d.unwatch = context.AfterFunc(d.call.Context(), d.schedule)
	if idle {
		go d.watch()
	}
	d.enqueue()
	return true, nil
}

// headerWriter is an io.Writer.
type headerWriter []byte

// Write appends bytes.
func (h *headerWriter) Write(b []byte) (int, error) {
	*h = append(*h, b...)
	return len(b), nil
}

// rawConn returns the means to read and write without waiting. A connection with TLS has none.
func rawConn(conn net.Conn) (syscall.RawConn, error) {
	for {
		if raw, ok := conn.(syscall.Conn); ok {
			return raw.SyscallConn()
		}
		outer, ok := conn.(interface{ NetConn() net.Conn })
		if _, secure := conn.(*tls.Conn); secure || !ok {
			return nil, fmt.Errorf("a connection of the type %T: %w", conn, errors.ErrUnsupported)
		}
		conn = outer.NetConn()
	}
}

// watch waits for the end of the connection. A client that sends more is noticed when a write fails, as by net/http.
func (d *directStream) watch() {
	var b [1]byte
	if _, err := d.conn.Read(b[:]); err != nil {
		d.call.Cancel(err)
	}
}

func (d *directStream) startChunk(buffer []byte) { d.events.bytes = append(buffer[:0], chunkHead...) }

// endChunk completes the chunk, unless it is empty, which would be the last one.
func (d *directStream) endChunk() {
	const digits = "0123456789abcdef"
	n := len(d.events.bytes) - len(chunkHead)
	if n == 0 {
		d.events.bytes = d.events.bytes[:0]
		return
	}
	for i := len(chunkHead) - len(chunkEnd) - 1; n > 0; i-- {
		d.events.bytes[i] = digits[n%len(digits)]
		n /= len(digits)
	}
	d.events.bytes = append(d.events.bytes, chunkEnd...)
}

// errNoRoom is the error of a chunk that didn't fit.
var errNoRoom = errors.New("the connection has no room")

// quick writes what has arrived, or a ping, as far as there is room for it.
func (d *directStream) quick(w *worker) (done bool) {
	if !d.tryRest(w) {
		return false
	}
	arrivals, again, done := d.stream.Take()
	now := time.Now()
	if d.traced && len(arrivals) > 0 {
		defer delivery(d.call.Context(), arrivals).End()
	}
	d.startChunk(w.buffer)
	n, err := d.events.each(arrivals, w.jsonOf, func(messages int) error { return d.tryChunk(w, messages, now) })
	if len(arrivals) == 0 && !now.Before(d.wrote.Add(PingEvery)) {
		d.events.appendPing()
		err = d.tryChunk(w, 0, now)
	}
	w.keep(d.events.bytes)
	d.events.bytes = nil
	if err != nil {
		d.arrivals = arrivals[n:]
		return false
	}
	if !done || d.call.Context().Err() != nil || !now.Before(d.end) {
		return false
	}
	again = slices.MinFunc([]time.Time{again, d.wrote.Add(PingEvery), d.end}, time.Time.Compare)
	d.alarm.set(again, now, &d.task)
	return true
}

// tryRest writes the beginning of the answer.
func (d *directStream) tryRest(w *worker) bool {
	if len(d.rest) == 0 {
		return true
	}
	d.wrote = time.Now()
	n := w.out.try(d.raw, d.rest)
	d.rest = d.rest[n:]
	return len(d.rest) == 0
}

// tryChunk writes what is encoded, unless there is no room for it.
func (d *directStream) tryChunk(w *worker, messages int, now time.Time) error {
	d.endChunk()
	b := d.events.bytes
	d.wrote = now
	if n := w.out.try(d.raw, b); n < len(b) {
		d.rest, d.messages = bytes.Clone(b[n:]), messages
		return errNoRoom
	}
	d.counts.messages.Add(float64(messages))
	d.startChunk(b)
	return nil
}

// slow writes what quick has left, and what Next returns.
func (d *directStream) slow() (goesOn bool) {
	ctx := d.call.Context()
	err := d.writeRest(ctx)
	for err == nil {
		var arrivals []channel.Arrival
		var failed error
		arrivals, failed = d.stream.Next(ctx, 0)
		if err = d.arrived(ctx, arrivals); err != nil {
			break
		}
		if reason := reasonOf(ctx, failed, d.end); reason != "" {
			d.finish(d.last(reason))
			return false
		}
		if err = context.Cause(ctx); err == nil && len(arrivals) == 0 {
			return true
		}
	}
	d.finish(err)
	return false
}

// writeRest writes what quick has left.
func (d *directStream) writeRest(ctx context.Context) error {
	if err := d.write(d.rest); err != nil {
		return err
	}
	d.counts.messages.Add(float64(d.messages))
	d.rest, d.messages = nil, 0
	err := d.arrived(ctx, d.arrivals)
	d.arrivals = nil
	return err
}

// arrived writes arrivals, and waits until the client has room for them.
func (d *directStream) arrived(ctx context.Context, arrivals []channel.Arrival) error {
	if len(arrivals) == 0 {
		return nil
	}
	defer delivery(ctx, arrivals).End()
	d.startChunk(nil)
	_, err := d.events.each(arrivals, jsonOf, func(messages int) error {
		d.endChunk()
		if err := d.write(d.events.bytes); err != nil {
			return err
		}
		d.counts.messages.Add(float64(messages))
		d.startChunk(d.events.bytes)
		return nil
	})
	d.events.bytes = nil
	return err
}

// last writes the event "end" and the end of the answer.
func (d *directStream) last(reason string) error {
	d.startChunk(nil)
	d.events.appendEnd(d.stream, reason)
	d.endChunk()
	return d.write(append(d.events.bytes, lastChunk...))
}

// write writes bytes, which the client must read in time. They are counted while it doesn't.
func (d *directStream) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	part := unsent.From(d.call.Context())
	defer part.Shrink(0)
	if err := part.Grow(int64(len(b))); err != nil {
		return err
	}
	return d.writeInTime(b)
}

func (d *directStream) writeInTime(b []byte) error {
	d.wrote = time.Now()
	_ = d.conn.SetWriteDeadline(d.wrote.Add(timeToRead(len(b)))) // fails only if the connection is closed
	_, err := d.conn.Write(b)
	if err == nil {
		_ = d.conn.SetWriteDeadline(time.Time{}) // as above
		return nil
	}
	return writeError(len(b), err)
}

// finish ends the stream. The error is that of a write, or why the client has gone.
func (d *directStream) finish(err error) {
	if d.unwatch != nil {
		d.unwatch()
	}
	d.alarm.stop()
	d.stream.Close()
	d.counts.open.Dec()
	var full *fault.Error
	switch {
	case err == nil:
	case errors.Is(err, web.ErrPanic):
		d.call.SetOutcome(http.StatusInternalServerError, err)
	case errors.As(err, &full): // there is no memory for what the client doesn't read
		d.call.SetOutcome(http.StatusServiceUnavailable, err)
	case errors.Is(err, os.ErrDeadlineExceeded) && d.call.Context().Err() == nil:
		d.counts.cut.Inc()
		d.call.SetOutcome(http.StatusOK, err)
	default:
		d.call.SetOutcome(web.StatusClientGone, err)
	}
	d.call.EndDetached()
}

// panicked ends the stream after a panic.
func (d *directStream) panicked(p any) {
	d.call.LogPanic(p)
	d.finish(web.ErrPanic)
}
