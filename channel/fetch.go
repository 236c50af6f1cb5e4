package channel

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/receipt"
)

// Query is the input of a fetch.
type Query struct {
	Channel    string
	Subscriber string
	Max        int           // messages at most; 0: Limits.DefaultMax
	Wait       time.Duration // how long to wait for a message if there is none; 0: not at all
	// ListenFirst makes a fetch that waits listen to the channel before it reads, instead of after a read that has
	// found nothing. It saves a read if there is rarely a message yet, and costs a subscription if there is one.
	ListenFirst bool
	Copies      bool // the fetch may be for CopiesSubscriber
	// Last is a receipt handle that the client had before, if the fetch acknowledges none. It only tells whether the
	// channel still has the history that it is of: Delivery.Lost. Empty: none.
	Last string
}

// Delivery is the result of a fetch.
type Delivery struct {
	Messages []Message
	Receipt  string // acknowledges all of Messages, Expired, Purged and Damaged; empty if there is nothing to acknowledge
	More     bool   // there is more to fetch now
	Expired  uint64 // messages that expired before they were read, and were skipped
	Purged   uint64 // messages that an operator purged before they were read, and were skipped
	Damaged  uint64 // messages that can't be read any more, since their storage is damaged, and were skipped
	// Lost is set if the channel doesn't have the history of Query.Last any more: the storage has lost writes, or the
	// channel has begun another life. Messages after it may be gone, and others come again.
	Lost bool
	// Closed is set if the channel is closed, and the subscriber gets nothing after Messages.
	Closed bool
}

// Fetch returns the messages after the subscriber's mark, and waits if there are none, unless the delivery is Lost or
// Closed. It returns early, with nothing, when ctx ends or the service drains, or after half of the channel's TTL: a
// fetch that waits doesn't renew the subscriber. Errors: fault.SlugInvalidChannel, fault.SlugInvalidSubscriber,
// fault.SlugInvalidPolicy, fault.SlugInvalidMax, fault.SlugInvalidWait, ErrNoSubscriber and the store's.
func (s *Service) Fetch(ctx context.Context, q Query) (Delivery, error) {
	return s.Next(ctx, q, "")
}

// Next is Ack with the handle, followed by Fetch, in one step: if the handle is refused, nothing is fetched. With an
// empty handle it is Fetch. Errors: those of Fetch and of Ack.
func (s *Service) Next(ctx context.Context, q Query, handle string) (Delivery, error) {
	if q.Wait > 0 {
		return s.nextWaiting(ctx, &q, handle)
	}
	return s.nextNow(ctx, &q, handle)
}

// nextNow is Next for a fetch that doesn't wait, which is on the stack.
func (s *Service) nextNow(ctx context.Context, q *Query, handle string) (Delivery, error) {
	f := fetch{service: s}
	err := f.prepare(ctx, q, handle)
	if err == nil {
		err = f.read(ctx)
	}
	if err != nil {
		return Delivery{}, err
	}
	return s.delivery(&f.request, &f.batch), nil
}

// nextWaiting is Next for a fetch that may wait.
func (s *Service) nextWaiting(ctx context.Context, q *Query, handle string) (Delivery, error) {
	f := &waitingFetch{fetch: fetch{service: s}}
	err := f.prepare(ctx, q, handle)
	if err == nil {
		err = f.wait(ctx, q.ListenFirst)
	}
	if err != nil {
		return Delivery{}, err
	}
	return s.delivery(&f.request, &f.batch), nil
}

// fetch is one call of Fetch or Next. Its methods share it by pointer and so need little stack: a goroutine that waits
// keeps the stack that its deepest call needed.
type fetch struct {
	service *Service
	request FetchRequest
	ack     *receipt.Receipt // nil: none, or done
	batch   Batch            // of the last read
}

// waitingFetch is a fetch that may wait.
type waitingFetch struct {
	fetch
	waiting waitRequest
	target  [1]target
	at      [1]Position
}

// prepare checks the arguments of Next.
func (f *fetch) prepare(ctx context.Context, q *Query, handle string) error {
	limits := &f.service.configured.Load().limits
	policy, err := f.service.policyFor(q.Channel, q.Subscriber)
	if q.Copies && q.Subscriber == CopiesSubscriber {
		policy, err = f.service.policy(q.Channel)
	}
	if err = cmp.Or(err, limits.bound(&q.Max, q.Wait)); err != nil {
		return err
	}
	f.request = FetchRequest{
		Channel: q.Channel, Subscriber: q.Subscriber, Max: q.Max, MaxBytes: limits.FetchBytes, Policy: policy,
		Wait: min(q.Wait, policy.TTL/2), // the subscriber isn't renewed meanwhile
	}
	v := verifier{service: f.service}
	switch {
	case handle != "":
		f.ack, err = v.verify(ctx, handle, q.Channel, q.Subscriber)
	case q.Last != "":
		f.request.After, err = v.verifyLast(ctx, q.Last, q.Channel, q.Subscriber)
		f.request.FromMark = true
	}
	return err
}

// read reads a batch from the store, after the acknowledgement if that isn't done yet.
func (f *fetch) read(ctx context.Context) error {
	operation, err := "fetch", error(nil)
	if f.ack == nil {
		f.batch, err = f.service.store.Fetch(ctx, f.request)
	} else {
		operation, err = "next", f.acknowledge(ctx)
	}
	return f.failure(operation, err)
}

// failure returns the error of read for one of the store.
func (f *fetch) failure(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s/%s: %w", operation, f.request.Channel, f.request.Subscriber, err)
}

func (f *fetch) acknowledge(ctx context.Context) (err error) {
	f.batch, err = f.service.store.Next(ctx, AckRequest{Receipt: *f.ack, Policy: f.request.Policy}, f.request)
	if err == nil {
		f.service.marks.acknowledged(f.ack)
	}
	f.ack = nil
	return err
}

// wait reads a batch, and waits if it is empty.
func (f *waitingFetch) wait(ctx context.Context, listenFirst bool) error {
	f.target[0] = target{channel: f.request.Channel, subscriber: f.request.Subscriber}
	f.waiting = waitRequest{targets: f.target[:], wait: f.request.Wait, listenFirst: listenFirst, at: f.at[:],
		read: f.readBatch}
	woken, err := f.service.hub.wait(ctx, &f.waiting)
	switch {
	case len(woken) == 0:
	case woken[0].closed:
		f.batch.Closed = true
	default:
		f.batch.deliver(woken[0].message)
	}
	return err
}

// readBatch is waitRequest.read.
func (f *waitingFetch) readBatch(ctx context.Context, _ []int) (ended bool, err error) {
	err = f.read(ctx)
	f.request.Woken = true // the next read follows a notification
	f.at[0] = Position{Epoch: f.batch.Epoch, Clock: f.batch.Clock}
	if f.request.Tail != nil { // the next read begins where this one has ended
		at := receiptFor(&f.request, Position{Epoch: f.batch.Epoch, Clock: f.batch.Through}, &f.batch.Last)
		f.request.After, f.request.Anything = &at, false
	}
	return !f.batch.empty() || f.batch.Lost || f.batch.ended(), err
}

// delivery returns a batch, with a signed receipt for it.
func (s *Service) delivery(r *FetchRequest, b *Batch) Delivery {
	d := Delivery{Messages: b.Messages, Expired: b.Expired, Purged: b.Purged, Damaged: b.Damaged,
		More: b.Through != b.Clock, Lost: b.Lost, Closed: b.ended()}
	if b.Through == b.Mark {
		return d
	}
	through := receiptFor(r, Position{Epoch: b.Epoch, Clock: b.Through}, &b.Last)
	d.Receipt = s.receipts.Sign(through)
	return d
}

// receiptFor returns the receipt for everything up to a position. last is the message there, if it has the clock.
func receiptFor(r *FetchRequest, at Position, last *Message) receipt.Receipt {
	through := receipt.Receipt{Channel: r.Channel, Subscriber: r.Subscriber, Epoch: at.Epoch, Clock: at.Clock}
	if last.Clock == at.Clock {
		through.MessageID, through.Write, through.PublishedAt = last.ID, last.Write, last.PublishedAt
	}
	return through
}
