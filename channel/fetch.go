package channel

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
)

// Query is what a fetch asks for.
type Query struct {
	Channel    string
	Subscriber string
	Max        int           // messages at most; 0: Limits.DefaultMax
	Wait       time.Duration // how long to wait for a message where there is none; 0: not at all
	// ListenFirst makes a fetch that waits listen to the channel before it reads, not only after it has found nothing. It
	// saves a read where hardly ever a message is there yet, and costs a subscription where one is.
	ListenFirst bool
}

// Delivery is what a fetch answers.
type Delivery struct {
	Messages []Message
	Receipt  string // acknowledges all of Messages and Expired; empty where there is nothing to acknowledge
	More     bool   // there is more to fetch now
	Expired  uint64 // messages that were passed over because their life had ended before they were read
}

// Fetch reads what stands after the subscriber's mark, and waits for it where there is nothing. It ends early,
// with nothing, when ctx ends or the service drains, or after half of the channel's TTL: a fetch that waits
// doesn't renew its subscriber's life. Errors: fault.SlugInvalidChannel, fault.SlugInvalidSubscriber, fault.SlugInvalidPolicy,
// fault.SlugInvalidMax, fault.SlugInvalidWait, ErrNoSubscriber and the store's.
func (s *Service) Fetch(ctx context.Context, q Query) (Delivery, error) {
	return s.Next(ctx, q, "")
}

// Next is Ack with the handle, and then Fetch, in one step: where the handle is refused nothing is fetched. An
// empty handle makes it a Fetch. Errors: those of Fetch and of Ack.
func (s *Service) Next(ctx context.Context, q Query, handle string) (Delivery, error) {
	policy, err := s.checkQuery(&q)
	if err != nil {
		return Delivery{}, err
	}
	var ack *receipt.Receipt
	if handle != "" {
		r, err := s.verify(handle, q.Channel, q.Subscriber)
		if err != nil {
			return Delivery{}, err
		}
		ack = &r
	}
	r := FetchRequest{Channel: q.Channel, Subscriber: q.Subscriber, Max: q.Max, MaxBytes: s.limits.FetchBytes, Policy: policy}
	if q.Wait > 0 {
		return s.wait(ctx, q, r, ack)
	}
	b, err := s.read(ctx, r, ack)
	if err != nil {
		return Delivery{}, err
	}
	return s.deliver(r, b), nil
}

// wait answers with what is there, and waits if that is nothing. On a channel that isn't listened to yet it reads before
// it listens, unless q.ListenFirst is set, so that messages that are there are answered at once and without a subscription.
func (s *Service) wait(ctx context.Context, q Query, r FetchRequest, ack *receipt.Receipt) (Delivery, error) {
	r.Wait = waitLimit(q.Wait, r.Policy)
	timer := time.NewTimer(r.Wait)
	defer timer.Stop()
	if !q.ListenFirst && !s.hub.listening(r.Channel) {
		b, err := s.read(ctx, r, ack)
		if err != nil {
			return Delivery{}, err
		}
		if !b.empty() || s.hub.drained.Load() {
			return s.deliver(r, b), nil
		}
		ack = nil // done by this read
	}
	w := s.hub.join(r.Channel, r.Subscriber)
	defer w.leave()
	w.awaitConfirmation(ctx, r.Wait)
	for {
		w.prepare()
		b, err := s.read(ctx, r, ack)
		if err != nil {
			return Delivery{}, err
		}
		if !b.empty() {
			return s.deliver(r, b), nil
		}
		ack = nil
		woken, message := w.sleep(ctx, timer.C, Position{Epoch: b.Epoch, Clock: b.Clock})
		switch {
		case message != nil:
			b.Messages, b.Through, b.Clock = []Message{*message}, message.Clock, message.Clock
			return s.deliver(r, b), nil
		case !woken:
			return Delivery{}, nil
		}
	}
}

func (s *Service) read(ctx context.Context, r FetchRequest, ack *receipt.Receipt) (Batch, error) {
	if ack == nil {
		b, err := s.store.Fetch(ctx, r)
		if err != nil {
			return Batch{}, fmt.Errorf("fetch %s/%s: %w", r.Channel, r.Subscriber, err)
		}
		return b, nil
	}
	b, err := s.store.Next(ctx, AckRequest{Receipt: *ack, Policy: r.Policy}, r)
	if err != nil {
		return Batch{}, fmt.Errorf("next %s/%s: %w", r.Channel, r.Subscriber, err)
	}
	return b, nil
}

// deliver signs what a batch stands for.
func (s *Service) deliver(r FetchRequest, b Batch) Delivery {
	d := Delivery{Messages: b.Messages, Expired: b.Expired, More: b.Through != b.Clock}
	if b.Through == b.Mark {
		return d
	}
	through := receipt.Receipt{Channel: r.Channel, Subscriber: r.Subscriber, Epoch: b.Epoch, Clock: b.Through}
	if n := len(b.Messages); n > 0 && b.Messages[n-1].Clock == b.Through {
		through.MessageID = b.Messages[n-1].ID
	}
	d.Receipt = s.receipts.Sign(through)
	return d
}

func (s *Service) checkQuery(q *Query) (Policy, error) {
	policy, err := s.policyFor(q.Channel, q.Subscriber)
	if err != nil {
		return Policy{}, err
	}
	if q.Max == 0 {
		q.Max = s.limits.DefaultMax
	}
	if q.Max < 1 || q.Max > s.limits.MaxMax {
		return Policy{}, &fault.Error{
			Kind: fault.Invalid, Slug: fault.SlugInvalidMax, Field: "max",
			Detail: fmt.Sprintf("max is %d, it must be from 1 to %d", q.Max, s.limits.MaxMax),
		}
	}
	if q.Wait < 0 || q.Wait > s.limits.MaxWait {
		return Policy{}, &fault.Error{
			Kind: fault.Invalid, Slug: fault.SlugInvalidWait, Field: "wait",
			Detail: fmt.Sprintf("wait is %s, it must be from 0s to %s", q.Wait, s.limits.MaxWait),
		}
	}
	return policy, nil
}
