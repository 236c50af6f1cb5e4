package durable

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/api/streams"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// events is GET of a stream as server-sent events. The first read decides the status; what follows is read until there
// is no more, and then sent as it arrives.
func (d *api) events(c *web.Call, q *readQuery, from channel.ReadQuery) error {
	ctx := c.Context()
	r, err := d.channels.Read(ctx, from)
	if err == nil {
		err = checkHistory(&from, &r)
	}
	if err != nil {
		return err
	}
	tail := channel.Source{Channel: from.Channel, Tail: &channel.From{Start: channel.StartAt, Clock: r.Through.Clock},
		After: &r.Through}
	s, err := d.channels.OpenStream(ctx, channel.StreamQuery{From: []channel.Source{tail}})
	if err != nil {
		return err
	}
	d.counts.open.Inc()
	defer func() {
		s.Close()
		d.counts.open.Dec()
	}()
	end := time.Now().Add(d.age - rand.N(d.age/8+1)) //nolint:gosec // chance to spread load, not to keep a secret
	w := newWriter(c, &d.counts, &r.Life, q.cursor)
	c.SetOutcome(http.StatusOK, w.run(ctx, s, &r, end))
	return nil
}

// writer writes the events of a stream.
type writer struct {
	call   *web.Call
	out    *streams.Output
	life   *channel.Life
	asJSON bool
	asText bool
	cursor string // the client's last one
	bytes  []byte
}

func newWriter(c *web.Call, counts *counts, life *channel.Life, cursor string) *writer {
	return &writer{call: c, out: streams.NewOutput(c, counts.cut), life: life, asJSON: isJSON(life),
		asText: strings.HasPrefix(mediaOf(life.ContentType), "text/"), cursor: cursor}
}

// run writes what was read and what arrives, until the stream ends, is as old as it may become, or its client or the
// server goes. The error is that of a write.
func (w *writer) run(ctx context.Context, s stream, r *channel.Reading, end time.Time) error {
	w.setHeaders()
	w.out.Begin()
	w.data(r.Messages)
	w.control(r.Through.Text(r.First), !r.More, r.Ended())
	if err := w.flush(); err != nil || r.Ended() {
		return err
	}
	w.call.EndSpan()
	at := r.Through
	for {
		arrivals, err := s.Next(ctx, min(streams.PingEvery, time.Until(end)))
		broken := w.arrived(arrivals, &at)
		closed := errors.Is(err, channel.ErrStreamClosed) && !broken
		if err == nil && len(arrivals) > 0 || closed {
			w.control(at.Text(w.life.First), s.CaughtUp(), closed)
		}
		switch {
		case len(w.bytes) > 0:
		case ctx.Err() == nil && err == nil && time.Now().Before(end):
			w.bytes = append(w.bytes, ": ping\n"...) // no empty line: some clients take that for an event without data
		}
		if len(w.bytes) > 0 {
			if err := w.flush(); err != nil {
				return err
			}
		}
		if closed || broken || err != nil || ctx.Err() != nil || !time.Now().Before(end) {
			return nil // its client resumes, and learns then why it can't if it can't
		}
	}
}

// arrived appends the event for arrivals, and moves the position. It reports whether the stream lacks messages.
func (w *writer) arrived(arrivals []channel.Arrival, at *channel.Offset) (broken bool) {
	messages := make([]channel.Message, 0, len(arrivals))
	for i := range arrivals {
		switch a := &arrivals[i]; {
		case a.Message != nil:
			messages = append(messages, *a.Message)
		default:
			broken = true
		}
		if broken {
			break
		}
	}
	if n := len(messages); n > 0 {
		at.Clock, at.Write = messages[n-1].Clock, messages[n-1].Write
	}
	w.data(messages)
	return broken
}

// stream is the part of a streams.Stream that the writer uses.
type stream interface {
	Next(ctx context.Context, wait time.Duration) ([]channel.Arrival, error)
	CaughtUp() bool
}

func (w *writer) setHeaders() {
	header := w.call.Response().Header()
	header["Content-Type"] = []string{wire.MediaEvents}
	header["X-Accel-Buffering"] = []string{"no"} // nginx would keep events back
	if !w.asJSON && !w.asText {
		header.Set(streamEncoding, "base64")
	}
	w.call.SetCaching("no-cache, no-transform") // middleware that compresses keeps events back
	w.call.SetHeaders()
	w.call.SetOutcome(http.StatusOK, nil)
}

// data appends the event of messages, if there are any.
func (w *writer) data(messages []channel.Message) {
	if len(messages) == 0 {
		return
	}
	w.bytes = append(w.bytes, "event: data\n"...)
	switch {
	case w.asJSON:
		w.lines(appendBody(nil, messages, true))
	case w.asText:
		w.lines(appendBody(nil, messages, false))
	default:
		w.bytes = append(w.bytes, "data:"...)
		w.bytes = append(base64.StdEncoding.AppendEncode(w.bytes, appendBody(nil, messages, false)), '\n')
	}
	w.bytes = append(w.bytes, '\n')
}

// lines appends a text, each of its lines as a line of data, so that no text is taken for a field. A line that begins
// with a space gets another one, since readers remove one.
func (w *writer) lines(text []byte) {
	for {
		end := bytes.IndexAny(text, "\r\n")
		line := text
		if end >= 0 {
			line = text[:end]
		}
		w.bytes = append(w.bytes, "data:"...)
		if len(line) > 0 && line[0] == ' ' {
			w.bytes = append(w.bytes, ' ')
		}
		w.bytes = append(append(w.bytes, line...), '\n')
		if end < 0 {
			return
		}
		if bytes.HasPrefix(text[end:], []byte("\r\n")) {
			end++
		}
		text = text[end+1:]
	}
}

// control appends the event that follows each event of data.
func (w *writer) control(next string, upToDate, closed bool) {
	w.bytes = fmt.Appendf(w.bytes, `event: control`+"\n"+`data:{"streamNextOffset":"%s"`, next)
	if closed {
		w.bytes = append(w.bytes, `,"upToDate":true,"streamClosed":true`...)
	} else {
		w.bytes = fmt.Appendf(w.bytes, `,"streamCursor":"%s"`, cursor(w.cursor, time.Now()))
		if upToDate {
			w.bytes = append(w.bytes, `,"upToDate":true`...)
		}
	}
	w.bytes = append(w.bytes, "}\n\n"...)
}

// flush sends what is buffered.
func (w *writer) flush() (err error) {
	w.bytes, err = w.out.Flush(w.bytes)
	return err
}
