package streams

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/internal/unsent"
)

// directStream writes the events of a stream to a connection of its own. While it waits it has one goroutine, which
// waits for the end of the connection, and no buffer. A goroutine of the scheduler writes what arrives if the connection
// has room for it; what has to be read from the store, or doesn't fit, gets a goroutine for as long as that takes.
type directStream struct {
	task
	*api
	call    *web.Call
	stream  Stream
	events  events // its bytes are the buffer of the goroutine that runs the job
	end     time.Time
	conn    net.Conn
	raw     syscall.RawConn
	rest    []byte // that didn't fit
	wrote   time.Time
	traced  bool        // the request is sampled
	alarm   alarm       // for the next ping, the end, or a time before them
	unwatch func() bool // ends the watching of the call's context
}

// Each write is a chunk of RFC 9112, section 7.1, whose length has leading zeros.
const (
	chunkHead = "00000000\r\n"
	chunkEnd  = "\r\n"
	lastChunk = "0\r\n\r\n"
)

// begin takes the connection, and writes the headers and the first ping.
func (d *directStream) begin() error {
	setHeaders(d.call)
	header := d.call.Response().Header()
	header["Date"] = []string{time.Now().UTC().Format(http.TimeFormat)}
	header["Connection"] = []string{"close"}
	header["Transfer-Encoding"] = []string{"chunked"}
	conn, idle, err := d.call.Detach()
	if err != nil {
		d.stream.Close()
		d.counts.open.Dec()
		return err
	}
	d.conn = conn
	d.raw, err = rawConn(conn)
	if err != nil {
		d.finish(err)
		return nil
	}
	var head headerWriter
	head = append(head, "HTTP/1.1 200 OK\r\n"...)
	_ = header.Write(&head) // never fails
	head = append(head, chunkEnd...)
	d.startChunk(nil)
	d.events.begin(d.stream.Began())
	d.endChunk()
	d.rest = append(head, d.events.bytes...)
	d.events.bytes = nil
	d.traced = tracing.Sampled(d.call.Context())
	d.unwatch = context.AfterFunc(d.call.Context(), d.schedule)
	if idle {
		go d.watch()
	}
	d.start()
	return nil
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

// quick writes what has arrived, or a ping, if there is room for it.
func (d *directStream) quick(w *worker) bool {
	if len(d.rest) > 0 {
		n := w.direct.try(d.raw, d.rest)
		if d.rest = d.rest[n:]; len(d.rest) > 0 {
			return false
		}
		d.rest, d.wrote = nil, time.Now()
	}
	arrivals, again, done := d.stream.Take()
	now := time.Now()
	if len(arrivals) > 0 {
		if d.traced {
			defer delivery(d.call.Context(), arrivals).End()
		}
		d.counts.messages.Add(float64(messagesIn(arrivals)))
	}
	d.startChunk(w.buffer)
	for i := range arrivals {
		d.events.arrived(&arrivals[i], i == len(arrivals)-1, w.jsonOf)
	}
	if len(arrivals) == 0 && !now.Before(d.wrote.Add(pingEvery)) {
		d.events.ping()
	}
	d.endChunk()
	b := d.events.bytes
	w.buffer, d.events.bytes = b, nil
	if len(b) > 0 {
		if n := w.direct.try(d.raw, b); n < len(b) {
			d.rest = append(d.rest, b[n:]...)
			return false
		}
		d.wrote = now
	}
	if !done || d.call.Context().Err() != nil || !now.Before(d.end) {
		return false
	}
	for _, at := range [...]time.Time{d.wrote.Add(pingEvery), d.end} {
		if at.Before(again) {
			again = at
		}
	}
	d.alarm.set(again, now, d.schedule)
	return true
}

func messagesIn(arrivals []channel.Arrival) (n int) {
	for i := range arrivals {
		if arrivals[i].Message != nil {
			n++
		}
	}
	return n
}

// slow writes what didn't fit, and what Next returns.
func (d *directStream) slow() (goesOn bool) {
	ctx := d.call.Context()
	err := d.write(d.rest)
	d.rest = nil
	for err == nil {
		var arrivals []channel.Arrival
		var failed error
		arrivals, failed = d.stream.Next(ctx, 0)
		if len(arrivals) > 0 {
			err = d.arrived(ctx, arrivals)
		}
		if err != nil {
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

// arrived writes arrivals, and waits until the client has room for them.
func (d *directStream) arrived(ctx context.Context, arrivals []channel.Arrival) error {
	span := delivery(ctx, arrivals)
	defer span.End()
	d.startChunk(nil)
	for i, messages := 0, 0; i < len(arrivals); i++ {
		last := i == len(arrivals)-1
		d.events.arrived(&arrivals[i], last, jsonOf)
		if arrivals[i].Message != nil {
			messages++
		}
		if len(d.events.bytes) >= writeBytes || last {
			d.endChunk()
			if err := d.write(d.events.bytes); err != nil {
				return err
			}
			d.counts.messages.Add(float64(messages))
			messages = 0
			d.startChunk(d.events.bytes)
		}
	}
	d.events.bytes = nil
	return nil
}

// last writes the event "end" and the end of the answer.
func (d *directStream) last(reason string) error {
	d.startChunk(nil)
	d.events.end(reason)
	d.endChunk()
	return d.write(append(d.events.bytes, lastChunk...))
}

// isSlow reports whether an error is of a client that doesn't read in time, or that leaves too much unread.
func isSlow(err error) bool {
	var full *fault.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &full)
}

// write writes bytes, which the client must read in time. They are counted while it doesn't.
func (d *directStream) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	part := unsent.From(d.call.Context())
	defer part.Shrink(0)
	err := part.Grow(int64(len(b)))
	if err == nil {
		err = d.writeInTime(b)
	}
	if err != nil && isSlow(err) && d.call.Context().Err() == nil {
		d.counts.cut.Inc()
	}
	return err
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
	switch {
	case err == nil:
	case isSlow(err):
		d.call.SetOutcome(http.StatusOK, err)
	default:
		d.call.SetOutcome(web.StatusClientGone, err)
	}
	d.call.Finish()
}

// panicked ends the stream after a panic.
func (d *directStream) panicked(p any) {
	d.log(d.call.ID(), p)
	d.finish(web.ErrPanic)
}
