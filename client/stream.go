package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
)

// Arrival is a message, a gap or the end of a channel that a stream has received.
type Arrival struct {
	// Source is the subscriber. Its ReceiptHandle acknowledges everything up to here. It can be empty in a gap, which a
	// message follows.
	Source
	Message *Message
	Gap     *Gap
	Closed  bool // the channel is closed, and the source gets nothing more
}

// Gap is messages that a stream doesn't have.
type Gap struct {
	Reason string // GapExpired and so on
	Count  uint64 // of messages; 0: it isn't known
}

// The reasons of gaps.
const (
	GapExpired = "expired" // they expired before they were read
	GapLost    = "lost"    // the storage has lost writes in a fail-over, or the channel began another life
	GapPurged  = "purged"  // an operator purged them before they were read
	GapDamaged = "damaged" // their storage is damaged: they can't be read any more
	GapMoved   = "moved"   // an operator has set the mark: messages may come again, or be left out
)

// StreamOptions are the options of a stream.
type StreamOptions struct {
	Window int // messages of a source that may be sent and not acknowledged; 0: the service's default
}

// StreamEnd is the error of a stream that the service has ended.
type StreamEnd struct {
	Reason string // EndDrain and so on
}

// The reasons of ends.
const (
	EndDrain      = "drain"      // the server shuts down
	EndAge        = "age"        // the stream is as old as it may become
	EndWindow     = "window"     // a source has as many messages as the window that aren't acknowledged
	EndClosed     = "closed"     // all channels are closed, and everything of them is sent; the iteration has no error then
	EndCredential = "credential" // the client's credential has ended, or the client needs one now
	EndRemoved    = "removed"    // no subscriber of the stream is left, or the client may not read it any more
)

// Error returns the reason in a sentence.
func (e *StreamEnd) Error() string { return "the service has ended the stream: " + e.Reason }

// ErrNoStream means that the answer isn't a stream: the service is older than streams, or a proxy holds them back. It
// can be read by polls.
var ErrNoStream = errors.New("there are no streams")

// errSilent ends a stream on which nothing arrives.
var errSilent = errors.New("nothing arrived for too long")

// errNoArrival ends a stream with an event that isn't what its name says: to skip it could skip a message.
var errNoArrival = errors.New("the data is not that of such an event")

// mediaEvents is the media type of streams.
const mediaEvents = "text/event-stream"

const (
	firstArrival = 5 * time.Second  // until the service's first ping
	laterArrival = 35 * time.Second // until anything else: the service sends a ping every 15 seconds
)

// Stream reads messages as they come, over one connection: those after the subscribers' marks, without waiting for
// acknowledgements. The receipt handles of the sources are acknowledged first, and a source that has lost the history
// of a receipt handle begins with a gap. Consume is the loop that most readers need: a stream isn't opened again when
// it ends.
//
// The iteration ends with an error: a *StreamEnd if the service has ended the stream, a *SourceError if it refuses one
// of several sources, ErrUnreachable if the connection broke or was silent for 35 seconds, ErrNoStream, that of ctx, or
// an *Error of the service as those of FetchMany. Nothing is sent twice until then. Another stream begins at the marks.
// It ends without an error when all channels are closed, after an Arrival with Closed for each.
//
// The service ends the stream with EndWindow when too many messages aren't acknowledged. The stream is read in step
// with the iteration. The service cuts off a client that doesn't read for half a minute, which loses nothing.
func (c *Client) Stream(ctx context.Context, from []Source, o StreamOptions) iter.Seq2[Arrival, error] {
	return func(yield func(Arrival, error) bool) {
		if err := c.stream(ctx, slices.Clone(from), o, func(a Arrival) bool { return yield(a, nil) }); err != nil {
			yield(Arrival{}, err)
		}
	}
}

// stream is Stream with a callback. It returns nil if that returned false.
func (c *Client) stream(caller context.Context, from []Source, o StreamOptions, yield func(Arrival) bool) error {
	if len(from) > 1 || from[0].ReceiptHandle == "" {
		if more, err := c.resumeStream(caller, from, yield); err != nil || !more {
			return err
		}
	}
	what := fmt.Sprintf("stream from %d channels", len(from))
	if len(from) == 1 {
		what = "stream " + from[0].Channel + "/" + from[0].Subscriber
	}
	ctx, cancel := context.WithCancelCause(caller)
	defer cancel(nil)
	err := c.readStream(ctx, cancel, from, o, yield)
	switch {
	case err == nil:
		return nil
	case caller.Err() != nil:
		err = ended(caller)
	case errors.Is(context.Cause(ctx), errSilent):
		err = fmt.Errorf("%w: %w", ErrUnreachable, errSilent)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// resumeStream acknowledges the receipts of a stream of several sources, and yields a gap for each source whose history
// is lost. It returns false if yield does.
func (c *Client) resumeStream(ctx context.Context, from []Source, yield func(Arrival) bool) (more bool, err error) {
	withReceipts := slices.DeleteFunc(slices.Clone(from), func(s Source) bool {
		return s.ReceiptHandle == "" && s.LastReceiptHandle == ""
	})
	if len(withReceipts) == 0 {
		return true, nil
	}
	lost, err := c.resumeEach(ctx, withReceipts)
	for _, s := range lost {
		if err == nil && !yield(Arrival{Source: s, Gap: &Gap{Reason: GapLost}}) {
			return false, nil
		}
	}
	return err == nil, err
}

// readStream opens a stream and reads it. It calls cancel when nothing arrives.
func (c *Client) readStream(ctx context.Context, cancel context.CancelCauseFunc, from []Source, o StreamOptions,
	yield func(Arrival) bool) error {
	req, err := c.streamRequest(ctx, from, o)
	if err != nil {
		return err
	}
	silence := time.AfterFunc(firstArrival, func() { cancel(errSilent) })
	defer silence.Stop()
	resp, err := c.http.Do(req)
	if err != nil {
		return broken(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it has been read; an error has no effect
	switch kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); {
	case resp.StatusCode == http.StatusNoContent: // it has a receipt, so it is of one source
		yield(Arrival{Source: Source{Channel: from[0].Channel, Subscriber: from[0].Subscriber}, Closed: true})
		return nil
	case resp.StatusCode >= http.StatusBadRequest:
		return refusal(readError(resp))
	case resp.StatusCode != http.StatusOK || strings.TrimSpace(kind) != mediaEvents:
		return fmt.Errorf("%w: the answer has the status %d and the type %.64q", ErrNoStream, resp.StatusCode, kind)
	}
	events := newEventReader(&timedReader{Reader: resp.Body, silence: silence, limit: firstArrival})
	for {
		e, err := events.next()
		if err != nil {
			return broken(err)
		}
		a, err := arrival(from, e)
		if err != nil {
			return err
		}
		ended := e.name == "end"
		if ended && len(from) > 1 {
			return nil // each source has had its own
		}
		if (a.Message != nil || a.Gap != nil || a.Closed) && !yield(a) || ended {
			return nil
		}
	}
}

// refusal adds ErrNoStream to the error of a service without this path.
func refusal(err error) error {
	var e *Error
	if errors.As(err, &e) && (e.Status == http.StatusNotFound && (e.Slug() == "" || e.Slug() == fault.SlugNoPath) ||
		e.Status == http.StatusMethodNotAllowed) {
		return fmt.Errorf("%w: %w", ErrNoStream, err)
	}
	return err
}

// broken returns the error of a connection that broke.
func broken(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err // without the method and URL, which the caller knows
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

func (c *Client) streamRequest(ctx context.Context, from []Source, o StreamOptions) (*http.Request, error) {
	r := request{method: http.MethodGet, path: []string{"stream"}, query: url.Values{"ack": {"resume"}}}
	resume := ""
	if len(from) == 1 {
		r.path = []string{"channels", from[0].Channel, "subscribers", from[0].Subscriber, "stream"}
		resume = from[0].ReceiptHandle
	} else {
		for _, s := range from {
			r.query.Add("sub", s.Channel+"/"+s.Subscriber)
		}
	}
	if o.Window != 0 {
		r.query.Set("window", strconv.Itoa(o.Window))
	}
	if err := checkNames(r.path); err != nil {
		return nil, err
	}
	req, err := c.httpRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", mediaEvents+", application/problem+json")
	req.Header.Set("Accept-Encoding", "identity") // a proxy that compresses holds events back
	if resume != "" {
		req.Header.Set("Last-Event-ID", resume)
	}
	return req, nil
}

// arrival returns the message or the gap of an event, and neither if the client doesn't know the event. The event that
// ends a stream, and the problem of a source, are errors.
func arrival(from []Source, e event) (a Arrival, err error) {
	switch e.name {
	case "message":
		var m struct {
			Source
			Message
		}
		if err = json.Unmarshal(e.data, &m); err == nil && (m.ID == "" || m.Content == nil) {
			err = errNoArrival
		}
		a.Channel, a.Subscriber, a.ReceiptHandle, a.Message = m.Channel, m.Subscriber, m.ReceiptHandle, &m.Message
	case "gap":
		var g struct {
			Source
			Reason string `json:"reason"`
			Count  uint64 `json:"count"`
		}
		if err = json.Unmarshal(e.data, &g); err == nil && g.Reason == "" {
			err = errNoArrival
		}
		a.Channel, a.Subscriber, a.ReceiptHandle = g.Channel, g.Subscriber, g.ReceiptHandle
		a.Gap = &Gap{Reason: g.Reason, Count: g.Count}
	case "closed":
		err = json.Unmarshal(e.data, &a.Source)
		a.Closed = true
	case "problem":
		var p sourceProblem
		if err = json.Unmarshal(e.data, &p); err == nil {
			err = sourceError(&p)
		}
	case "end":
		var end StreamEnd
		if err = json.Unmarshal(e.data, &end); err == nil && end.Reason != EndClosed {
			err = &StreamEnd{Reason: end.Reason}
		}
		a.Closed = true
	}
	if err != nil {
		return Arrival{}, fmt.Errorf("event %.64q: %w", e.name, err)
	}
	if len(from) == 1 {
		a.Source = Source{Channel: from[0].Channel, Subscriber: from[0].Subscriber, ReceiptHandle: e.id}
	}
	return a, nil
}

// timedReader is the body of a stream. A Read that takes too long ends the stream.
type timedReader struct {
	io.Reader

	silence *time.Timer   // ends the stream
	limit   time.Duration // of the next Read
}

// Read implements io.Reader.
func (r *timedReader) Read(p []byte) (int, error) {
	r.silence.Reset(r.limit)
	n, err := r.Reader.Read(p)
	r.silence.Stop()
	if n > 0 {
		r.limit = laterArrival
	}
	return n, err
}
