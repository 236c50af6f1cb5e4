// Package streams serves the messages of subscribers as they come: by server-sent events, which browsers read with
// EventSource, and by WebSockets. A stream is driven by channel.Stream; this package writes what that returns, and
// bounds how long a stream and a write may take. A [scheduler] runs what streams have to do:
// docs/decisions/0012-streams-without-goroutines.md.
package streams

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/tracing"
)

// DefaultAge is the default of Options.Age.
const DefaultAge = time.Hour

// PingEvery is how often a stream without messages sends a comment, so that proxies keep its connection.
const PingEvery = 15 * time.Second

// Stream is a stream of messages, as *channel.Stream.
type Stream interface {
	Next(ctx context.Context, wait time.Duration) ([]channel.Arrival, error)
	Take() (arrivals []channel.Arrival, again time.Time, done bool)
	Began() string
	CaughtUp() bool
	Ended() bool
	Token() string
	Close()
}

// Opener opens streams.
type Opener interface {
	OpenStream(ctx context.Context, q channel.StreamQuery) (Stream, error)
}

// Options configures the API. All fields but Age are required.
type Options struct {
	Streams Opener
	Age     time.Duration // of a stream at most: it ends a little earlier, at random; 0: DefaultAge
	Metrics *prometheus.Registry
}

// RequestHeaders are headers that pages may send, besides those of package web.
var RequestHeaders = []string{lastEventIDHeader}

const lastEventIDHeader = "Last-Event-Id"

// Register adds the routes of the API. It registers its metrics, so it must be called once per registry.
func Register(r *web.Router, o Options) {
	if o.Age == 0 {
		o.Age = DefaultAge
	}
	e := &api{streams: o.Streams, age: o.Age, counts: newCounts(o.Metrics, "sse"),
		scheduler: newScheduler()}
	a := web.API{Router: r, Fail: web.Fail}
	a.Add(web.Route{
		Method: http.MethodGet, Path: "/v1/channels/:channel/subscribers/:subscriber/stream", Query: web.QueryRead,
		Action: access.Subscribe, Of: web.Subscriber, Waits: true, Detaches: true, Handle: e.single,
	})
	a.Add(web.Route{
		Method: http.MethodGet, Path: "/v1/channels/:channel/stream", Query: web.QueryRead,
		Action: access.Subscribe, Of: tailOf, Waits: true, Detaches: true, Handle: e.tail,
	})
	a.Add(web.Route{
		Method: http.MethodGet, Path: "/v1/stream", Query: web.QueryRead, Action: access.Subscribe, InBody: true,
		Named: namedChannels, Waits: true, Detaches: true, Handle: e.many,
	})
}

// api serves server-sent events.
type api struct {
	scheduler *scheduler
	streams   Opener
	age       time.Duration
	counts    counts
}

// single is GET /v1/channels/{channel}/subscribers/{subscriber}/stream.
func (e *api) single(c *web.Call) error {
	q, err := readQuery(c, oneParameters)
	if err != nil {
		return err
	}
	q.From = []channel.Source{{Channel: c.Param(0), Subscriber: c.Param(1)}}
	return e.serve(c, q, false)
}

func tailOf(c *web.Call) access.Resource { return access.Resource{Channel: c.Param(0), Tail: true} }

// tail is GET /v1/channels/{channel}/stream.
func (e *api) tail(c *web.Call) error {
	q, err := readQuery(c, tailParameters)
	if err != nil {
		return err
	}
	if len(q.From) == 0 {
		q.From = []channel.Source{{Tail: &channel.From{Start: channel.StartLatest}}}
	}
	q.From[0].Channel = c.Param(0)
	return e.serve(c, q, false)
}

// many is GET /v1/stream.
func (e *api) many(c *web.Call) error {
	q, err := readQuery(c, manyParameters)
	if err != nil {
		return err
	}
	for i, from := range q.From {
		err := c.Allow(access.Subscribe, access.Resource{Channel: from.Channel, Subscriber: from.Subscriber,
			Tail: from.Tail != nil})
		if err != nil {
			return atParameter(err, parameterOf(q.From, i))
		}
	}
	return ofParameters(e.serve(c, q, true), q.From)
}

// serve opens a stream and writes it until it ends, or leaves that to a goroutine of the scheduler if the connection can
// be taken from net/http.
func (e *api) serve(c *web.Call, q channel.StreamQuery, many bool) error {
	var d *directStream
	if c.IsDetachable() {
		d = newDirectStream(e, c)
		q.Ready = d.schedule
	}
	s, err := e.streams.OpenStream(c.Context(), q)
	if err != nil {
		return err
	}
	if q.Resume != "" && s.Ended() { // a browser that was told the end doesn't reconnect any more
		s.Close()
		return c.NoContent()
	}
	e.counts.open.Inc()
	taken := false
	defer func() {
		if !taken {
			s.Close()
			e.counts.open.Dec()
		}
	}()
	events := encoder{problem: c.Problem}
	if many {
		events.from, events.token = q.From, s.Token
	}
	end := time.Now().Add(e.age - rand.N(e.age/4+1)) //nolint:gosec // chance to spread load, not to keep a secret
	if d != nil {
		d.stream, d.events, d.end = s, events, end
		taken, err = d.begin()
		return err
	}
	w := newWriter(c, &e.counts)
	w.encoder = events
	c.SetOutcome(http.StatusOK, e.run(c.Context(), s, w, end))
	return nil
}

// run writes a stream. The error is that of a write: the client has gone, or reads too slowly.
func (e *api) run(ctx context.Context, s Stream, w *writer, end time.Time) error {
	if err := w.begin(s.Began()); err != nil {
		return err
	}
	w.call.EndSpan() // deliveries have their own
	for {
		arrivals, err := s.Next(ctx, min(PingEvery, time.Until(end)))
		if len(arrivals) > 0 {
			span := delivery(ctx, arrivals)
			err := w.arrived(arrivals)
			span.End()
			if err != nil {
				return err
			}
		}
		if reason := reasonOf(ctx, err, end); reason != "" {
			return w.end(s, reason)
		}
		if err := context.Cause(ctx); err != nil {
			return err // the client has gone
		}
		if len(arrivals) == 0 {
			if err := w.ping(); err != nil {
				return err
			}
		}
	}
}

// delivery begins the span of a delivery of messages that are traced, on a stream that is.
func delivery(ctx context.Context, arrivals []channel.Arrival) tracing.Span {
	span := tracing.Delivery(ctx, "deliver", len(arrivals), func(i int) string {
		if m := arrivals[i].Message; m != nil {
			return m.Trace
		}
		return ""
	})
	if span.Recorded() {
		span.Set(tracing.Text("messaging.system", "tidemark"), tracing.Text("messaging.operation.name", "deliver"),
			tracing.Text("messaging.operation.type", "receive"), tracing.Number(tracing.Messages, len(arrivals)))
	}
	return span
}

// The reasons of the event "end".
const (
	endDrain      = "drain"      // the server shuts down
	endCredential = "credential" // the client's credential has ended, or the client now needs one
	endAge        = "age"        // the stream is as old as it may become
	endWindow     = "window"     // a window is full, which a reconnect acknowledges
	endClosed     = "closed"     // all channels of the stream are closed, and everything of them is sent
	endRemoved    = "removed"    // no subscriber of the stream is left, or the client may not read it any more
)

// reasonOf returns why a stream ends, or "" if it goes on or its client has gone.
func reasonOf(ctx context.Context, err error, end time.Time) string {
	lapsed := web.Lapsed(ctx)
	switch {
	case errors.Is(err, channel.ErrStreamDrained):
		return endDrain
	case errors.Is(err, channel.ErrStreamWindow):
		return endWindow
	case errors.Is(err, channel.ErrStreamClosed):
		return endClosed
	case errors.Is(err, channel.ErrStreamEmpty):
		return endRemoved
	case errors.Is(lapsed, access.ErrNotGranted):
		return endRemoved
	case lapsed != nil:
		return endCredential
	case ctx.Err() == nil && !time.Now().Before(end):
		return endAge
	}
	return ""
}
