package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// MaxSources is how many sources a FetchMany or a ConsumeMany may have.
const MaxSources = 256

// Source is a subscriber of a channel to fetch from. FetchMany acknowledges its ReceiptHandle first, unless that is
// empty. With a LastReceiptHandle, one that the caller had before, the delivery tells whether the channel has lost the
// history that it is of.
type Source struct {
	Channel       string `json:"channel"`
	Subscriber    string `json:"subscriber"`
	ReceiptHandle string `json:"receiptHandle,omitempty"` // empty: nothing to acknowledge
	// LastReceiptHandle is one that the client had before: Delivery.Lost. Empty: none.
	LastReceiptHandle string `json:"lastReceiptHandle,omitempty"`
}

// setReceipts sets the receipts of a source after a delivery.
func setReceipts(s *Source, d *Delivery) {
	s.ReceiptHandle = d.ReceiptHandle
	if d.Lost || d.ReceiptHandle != "" {
		s.LastReceiptHandle = d.ReceiptHandle
	}
}

// clearReceipts removes the receipts of a source whose history is lost, which has been reported.
func clearReceipts(s *Source) { s.ReceiptHandle, s.LastReceiptHandle = "", "" }

// SourceDelivery is the result of a fetch from a source.
type SourceDelivery struct {
	Channel    string `json:"channel"`
	Subscriber string `json:"subscriber"`
	Delivery
}

// Deliveries is the result of FetchMany.
type Deliveries struct {
	Found    []SourceDelivery // sources that have something, such as messages, or some that expired
	Problems []*SourceError   // sources that failed
}

// SourceError is the error of one source of several. It wraps an *Error.
type SourceError struct {
	Channel    string
	Subscriber string
	Err        *Error
}

// Error returns the error with its source.
func (e *SourceError) Error() string { return e.Subscriber + " of " + e.Channel + ": " + e.Err.Error() }

// Unwrap returns the *Error.
func (e *SourceError) Unwrap() error { return e.Err }

type fetchRequest struct {
	From []Source `json:"from"`
	Max  int      `json:"max,omitempty"`
	Wait string   `json:"wait,omitempty"`
}

// sourceProblem is the problem of a source in an answer, or in an event.
type sourceProblem struct {
	Channel    string `json:"channel"`
	Subscriber string `json:"subscriber"`
	Problem
}

// FetchMany acknowledges and fetches from several sources with one wait, which ends when any of them has messages or
// fails. A source that fails, such as with ErrNoSubscriber, ErrNotGranted or ErrReceiptEpoch, stops no other: its error
// is a problem of the result. Max is the most messages of all sources together. Errors: ErrInvalidSources for none,
// more than MaxSources or one twice, and ErrUnavailable if the service can serve none of them.
func (c *Client) FetchMany(ctx context.Context, from []Source, o FetchOptions) (Deliveries, error) {
	r := request{
		what: fmt.Sprintf("fetch from %d channels", len(from)), method: http.MethodPost, path: []string{"fetch"},
		wait: o.Wait,
	}
	from = slices.Clone(from)
	for i := range from {
		if from[i].ReceiptHandle != "" {
			from[i].LastReceiptHandle = "" // which tells nothing more
		}
	}
	var err error
	if r.body, err = json.Marshal(fetchRequest{From: from, Max: o.Max, Wait: durationText(o.Wait)}); err != nil {
		return Deliveries{}, fmt.Errorf("%s: %w", r.what, err)
	}
	var answer struct {
		Deliveries []SourceDelivery `json:"deliveries"`
		Problems   []sourceProblem  `json:"problems"`
	}
	if _, err := c.call(ctx, r, &answer); err != nil {
		return Deliveries{}, err
	}
	d := Deliveries{Found: answer.Deliveries}
	for _, p := range answer.Problems {
		d.Problems = append(d.Problems, sourceError(&p))
	}
	return d, nil
}

func sourceError(p *sourceProblem) *SourceError {
	e := &Error{Problem: p.Problem, Status: p.Status, RetryAfter: time.Duration(p.RetryAfter) * time.Second}
	return &SourceError{Channel: p.Channel, Subscriber: p.Subscriber, Err: e}
}

// ManyConsumer describes the sources of ConsumeMany, and handles their messages.
type ManyConsumer struct {
	From []Source // at most MaxSources; the subscribers must exist: see Subscribe
	// Handle is called for each message, those of a channel in order, one at a time. See Consumer.
	Handle func(context.Context, Source, Message) error
	// Gap is called for messages that Handle doesn't get, or that may come again, before those after them. It may be nil.
	Gap func(Source, Gap)
	// Closed is called when the channel of a source is closed and everything of it is handled. When all are, ConsumeMany
	// returns. It may be nil.
	Closed func(Source)
	// Problem is called when the service refuses a source, such as with ErrNoSubscriber. If it returns nil, ConsumeMany
	// continues without that source, and otherwise ends with its error. If Problem is nil, ConsumeMany ends with the
	// problem.
	Problem func(*SourceError) error
	// FetchOptions are Max, the number of messages of all sources that may be handled and not yet acknowledged, and Wait,
	// how long a poll waits. See Consumer.
	FetchOptions
	// AckGrace is how long the last acknowledgement may take after the context has ended. See Consumer.
	AckGrace time.Duration
}

// ConsumeMany is Consume for several sources on one stream, or with one poll at a time. A stream has up to 256 messages
// of each of 4 sources that aren't acknowledged, and of more sources fewer. A source that can't be served now is tried
// again, after a pause. ConsumeMany ends as Consume does, so that it returns nil when all channels are closed, and also when Problem has left no source, with the last
// problem.
func (c *Client) ConsumeMany(ctx context.Context, consumer ManyConsumer) error {
	if consumer.Wait == 0 {
		consumer.Wait = defaultWait
	}
	r := manyRun{client: c, consumer: consumer, from: slices.Clone(consumer.From), streams: c.newFollower(consumer.Max)}
	for {
		if r.streams.due() && len(r.from) > 0 && len(withReceipts(r.from)) == 0 {
			err := r.streams.follow(ctx, r.from, func(a Arrival) (bool, error) { return r.arrived(ctx, a) })
			if err != nil {
				return errors.Join(unlessStop(err), r.ackAll(ctx))
			}
		}
		pause, done, err := r.poll(ctx)
		if done {
			return err
		}
		if pause > 0 && !pace.Sleep(ctx, pause) {
			return errors.Join(ended(ctx), r.ackAll(ctx))
		}
	}
}

// manyRun is one call of ConsumeMany.
type manyRun struct {
	client   *Client
	consumer ManyConsumer
	streams  *follower
	from     []Source // with the receipts that are acknowledged next
	failed   error    // of the acknowledgement of a part of a delivery
	closed   []Source // whose channels are closed, without receipts
}

// close records the end of a source. It reports whether none is left.
func (r *manyRun) close(channel, subscriber string) bool {
	source := Source{Channel: channel, Subscriber: subscriber}
	if !r.isClosed(source) {
		if r.closed = append(r.closed, source); r.consumer.Closed != nil {
			r.consumer.Closed(source)
		}
	}
	return !slices.ContainsFunc(r.from, func(s Source) bool { return !r.isClosed(s) })
}

func (r *manyRun) isClosed(s Source) bool {
	return slices.ContainsFunc(r.closed, func(other Source) bool { return sameSource(&s, &other) })
}

// arrived handles a message or a gap of a stream. It reports whether that is to be acknowledged.
func (r *manyRun) arrived(ctx context.Context, a Arrival) (handled bool, err error) {
	if a.Closed {
		if r.close(a.Channel, a.Subscriber) {
			err = errAllClosed
		}
		return true, err
	}
	return r.of(a.Channel, a.Subscriber).handle(ctx, a)
}

// of returns the consumer of one source.
func (r *manyRun) of(channel, subscriber string) Consumer {
	source := Source{Channel: channel, Subscriber: subscriber}
	consumer := Consumer{
		Channel: channel, Subscriber: subscriber, AckGrace: r.consumer.AckGrace,
		Handle: func(ctx context.Context, m Message) error { return r.consumer.Handle(ctx, source, m) },
	}
	if r.consumer.Gap != nil {
		consumer.Gap = func(gap Gap) { r.consumer.Gap(source, gap) }
	}
	return consumer
}

// poll fetches and handles messages, and returns how long to pause, or that ConsumeMany is done. Then it has
// acknowledged the handled messages.
func (r *manyRun) poll(ctx context.Context) (pause time.Duration, done bool, err error) {
	o := r.consumer.FetchOptions
	flush := r.streams.due() && len(withReceipts(r.from)) > 0 // a stream can be opened as soon as they are acknowledged
	if flush {
		o.Wait = 0
	}
	asked := time.Now()
	d, err := r.client.FetchMany(ctx, r.from, o)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, true, errors.Join(err, r.ackAll(ctx)) // the service may not have received the receipts
	case err != nil:
		return 0, true, err
	}
	if pause, err = r.handleFound(ctx, d); err != nil {
		return 0, true, errors.Join(unlessStop(err), r.failed, r.ackAll(ctx))
	}
	if len(d.Found) == 0 && !flush {
		pause = max(pause, emptyPause-time.Since(asked))
	}
	return pause, false, nil
}

// handleFound handles the messages of a fetch, and returns how long to pause before the next one.
func (r *manyRun) handleFound(ctx context.Context, d Deliveries) (pause time.Duration, err error) {
	r.forget(d.Problems)
	for i := range d.Found {
		if err := r.handle(ctx, &d.Found[i]); err != nil {
			return 0, err
		}
		if found := &d.Found[i]; found.Closed && r.close(found.Channel, found.Subscriber) {
			return 0, errAllClosed
		}
	}
	r.from = slices.DeleteFunc(r.from, func(s Source) bool { return s.ReceiptHandle == "" && r.isClosed(s) })
	for _, p := range d.Problems {
		switch {
		case lostReceipt(p): // it continues from the mark
			r.of(p.Channel, p.Subscriber).reportLost()
		case r.client.retry.again(p):
			pause = max(pause, emptyPause, atLeast(p))
		case r.consumer.Problem == nil:
			return 0, p
		default:
			if err := r.consumer.Problem(p); err != nil {
				return 0, err
			}
			if r.from = slices.DeleteFunc(r.from, p.concerns); len(r.from) == 0 {
				return 0, p
			}
		}
	}
	return pause, nil
}

// forget removes the receipts that the service has had. Only sources that are tried again keep theirs.
func (r *manyRun) forget(problems []*SourceError) {
	for i := range r.from {
		source := &r.from[i]
		switch p := slices.IndexFunc(problems, func(p *SourceError) bool { return p.concerns(*source) }); {
		case p < 0:
			source.ReceiptHandle = ""
		case lostReceipt(problems[p]):
			clearReceipts(source)
		case !r.client.retry.again(problems[p]):
			source.ReceiptHandle = ""
		}
	}
}

func (e *SourceError) concerns(s Source) bool {
	return s.Channel == e.Channel && s.Subscriber == e.Subscriber
}

// handle handles the messages of one source, and keeps its receipt. If it fails, the messages before that one are
// acknowledged.
func (r *manyRun) handle(ctx context.Context, d *SourceDelivery) error {
	consumer := r.of(d.Channel, d.Subscriber)
	consumer.skipped(&d.Delivery)
	handled, err := consumer.handleAll(ctx, d.Messages)
	if err != nil {
		r.failed = r.client.ackHandled(ctx, consumer, d.Delivery, handled)
		return err
	}
	for i := range r.from {
		if s := &r.from[i]; sameSource(s, &Source{Channel: d.Channel, Subscriber: d.Subscriber}) {
			setReceipts(s, &d.Delivery)
		}
	}
	return nil
}

// ackAll acknowledges the messages handled, within the grace if ctx has ended.
func (r *manyRun) ackAll(ctx context.Context) error {
	ctx, cancel := Consumer{AckGrace: r.consumer.AckGrace}.grace(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return nil
	}
	return r.client.ackEach(ctx, r.from)
}

// withReceipts returns the sources that have something to acknowledge.
func withReceipts(from []Source) (some []Source) {
	for _, s := range from {
		if s.ReceiptHandle != "" {
			some = append(some, s)
		}
	}
	return some
}

// ackEach acknowledges the receipts of sources: one on its own, and several by a fetch whose messages are delivered
// again. Receipts of what a channel has lost are no error.
func (c *Client) ackEach(ctx context.Context, from []Source) error {
	some := withReceipts(from)
	switch len(some) {
	case 0:
		return nil
	case 1:
		if err := c.Ack(ctx, some[0].Channel, some[0].Subscriber, some[0].ReceiptHandle); !lostReceipt(err) {
			return err
		}
		return nil
	}
	_, err := c.resumeEach(ctx, some)
	return err
}

// resumeEach acknowledges the receipts of sources, by a fetch whose messages are delivered again, and returns the
// sources whose history is lost.
func (c *Client) resumeEach(ctx context.Context, from []Source) (lost []Source, err error) {
	d, err := c.FetchMany(ctx, from, FetchOptions{Max: 1})
	for _, found := range d.Found {
		if found.Lost {
			lost = append(lost, Source{Channel: found.Channel, Subscriber: found.Subscriber})
		}
	}
	for _, p := range d.Problems {
		if lostReceipt(p) {
			lost = append(lost, Source{Channel: p.Channel, Subscriber: p.Subscriber})
		} else {
			err = errors.Join(err, p)
		}
	}
	return lost, err
}
