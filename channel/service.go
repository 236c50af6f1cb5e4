package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/receipt"
)

// Service is the channel layer as the server and other parts see it: it checks names and limits once, finds the
// channel's policy, makes and verifies receipts, and waits. It may be used by many goroutines.
type Service struct {
	store    Store
	receipts *receipt.Keyring
	policies *Policies
	limits   Limits
	hub      *hub
}

// Options is what a Service is made of. All of it is needed.
type Options struct {
	Store    Store
	Receipts *receipt.Keyring
	Policies *Policies
	Limits   Limits
	Logger   *slog.Logger
}

// NewService makes a service. Fetches with a wait need its Run.
func NewService(o Options) (*Service, error) {
	if err := o.Limits.Check(); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	return &Service{
		store: o.Store, receipts: o.Receipts, policies: o.Policies, limits: o.Limits,
		hub: newHub(o.Store, o.Limits, o.Logger),
	}, nil
}

// Run listens to the channels that have waiters until ctx ends, and returns nil when all that it started has
// ended. Fetches that wait then are answered with nothing, and none waits any more. It must be called once.
func (s *Service) Run(ctx context.Context) error { return s.hub.run(ctx) }

// Drain answers every waiting fetch now, and lets no fetch wait any more. It may be called more than once, at
// any time.
func (s *Service) Drain() { s.hub.drain() }

// Waiting gives the number of fetches that wait now, and of channels that are listened to. A channel is listened
// to for Limits.Linger longer than there are fetches that wait on it.
func (s *Service) Waiting() (waiters, channels int) { return s.hub.count() }

// Limits gives the limits that hold.
func (s *Service) Limits() Limits { return s.limits }

// Publish appends drafts to a channel, all or none, in order, and makes the channel where it is missing. Drafts
// without an ID get one, in the answer: drafts itself isn't changed. Errors: fault.SlugInvalidChannel,
// fault.SlugInvalidPolicy, fault.SlugInvalidMessageID, fault.SlugInvalidBatch, fault.SlugMessageTooLarge, fault.SlugBatchTooLarge and the
// store's.
func (s *Service) Publish(ctx context.Context, channel string, drafts []Draft) ([]Published, error) {
	return s.PublishIn(ctx, channel, ulid.ULID{}, drafts)
}

// PublishIn is Publish for one life of a channel. Where a later one has begun nothing is published, and the error is
// ErrLaterLife. A zero epoch stands for any life.
func (s *Service) PublishIn(ctx context.Context, channel string, epoch ulid.ULID, drafts []Draft) ([]Published, error) {
	policy, err := s.policy(channel)
	if err != nil {
		return nil, err
	}
	if err := s.checkDrafts(drafts, policy); err != nil {
		return nil, err
	}
	published, err := s.store.Publish(ctx, PublishRequest{Channel: channel, Drafts: withIDs(drafts), Policy: policy, Epoch: epoch})
	if err != nil {
		return nil, fmt.Errorf("publish to %s: %w", channel, err)
	}
	for i, d := range drafts {
		if d.ID == "" { // a retry of our own found the first try: to the publisher it is the first
			published[i].Duplicate = false
		}
	}
	return published, nil
}

// withIDs gives the drafts with an ID each. Where one has none it is made, in a copy of drafts.
func withIDs(drafts []Draft) []Draft {
	if !slices.ContainsFunc(drafts, func(d Draft) bool { return d.ID == "" }) {
		return drafts
	}
	drafts = slices.Clone(drafts)
	for i := range drafts {
		if drafts[i].ID == "" {
			drafts[i].ID = id.New()
		}
	}
	return drafts
}

func (s *Service) checkDrafts(drafts []Draft, policy Policy) error {
	if len(drafts) == 0 {
		return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidBatch, Detail: "the batch is empty"}
	}
	if len(drafts) > s.limits.MaxBatch {
		return &fault.Error{
			Kind: fault.TooLarge, Slug: fault.SlugBatchTooLarge,
			Detail: fmt.Sprintf("the batch has %d messages, at most %d are allowed", len(drafts), s.limits.MaxBatch),
		}
	}
	for i, d := range drafts {
		if d.ID != "" {
			if err := CheckMessageID(d.ID); err != nil {
				return atDraft(err, i, len(drafts), "id")
			}
		}
		if len(d.Content) > policy.MaxMessageBytes {
			return atDraft(&fault.Error{
				Kind: fault.TooLarge, Slug: fault.SlugMessageTooLarge,
				Detail: fmt.Sprintf("the content has %d bytes, at most %d are allowed on this channel",
					len(d.Content), policy.MaxMessageBytes),
			}, i, len(drafts), "content")
		}
	}
	return nil
}

// atDraft says which message of a batch an error is about.
func atDraft(err error, i, n int, member string) error {
	var e *fault.Error
	if errors.As(err, &e) {
		e.Field = "/" + member
		if n > 1 {
			e.Field = fmt.Sprintf("/%d/%s", i, member)
		}
	}
	return err
}

// Subscribe makes a subscriber, and its channel where it is missing. The mark of one that exists isn't moved.
// Errors: fault.SlugInvalidChannel, fault.SlugInvalidSubscriber, fault.SlugInvalidPolicy, fault.SlugInvalidFrom, ErrClockAhead and the
// store's.
func (s *Service) Subscribe(ctx context.Context, channel, subscriber string, from From) (Subscription, error) {
	policy, err := s.policyFor(channel, subscriber)
	if err != nil {
		return Subscription{}, err
	}
	if err := from.check(); err != nil {
		return Subscription{}, err
	}
	sub, err := s.store.Subscribe(ctx, SubscribeRequest{Channel: channel, Subscriber: subscriber, From: from, Policy: policy})
	if err != nil {
		return Subscription{}, fmt.Errorf("subscribe %s/%s: %w", channel, subscriber, err)
	}
	return sub, nil
}

// Unsubscribe removes a subscriber and ends its waiting fetches with ErrNoSubscriber. Removing one that isn't
// there succeeds. Errors: fault.SlugInvalidChannel, fault.SlugInvalidSubscriber and the store's.
func (s *Service) Unsubscribe(ctx context.Context, channel, subscriber string) error {
	if err := CheckChannel(channel); err != nil {
		return err
	}
	if err := CheckSubscriber(subscriber); err != nil {
		return err
	}
	if err := s.store.Unsubscribe(ctx, channel, subscriber); err != nil {
		return fmt.Errorf("unsubscribe %s/%s: %w", channel, subscriber, err)
	}
	return nil
}

// Ack moves the subscriber's mark up to what the receipt handle stands for. A handle at or behind the mark is a
// retry and succeeds. Errors: fault.SlugInvalidChannel, fault.SlugInvalidSubscriber, fault.SlugInvalidPolicy, fault.SlugReceipt…,
// ErrNoSubscriber and the store's.
func (s *Service) Ack(ctx context.Context, channel, subscriber, handle string) error {
	policy, err := s.policyFor(channel, subscriber)
	if err != nil {
		return err
	}
	r, err := s.verify(handle, channel, subscriber)
	if err != nil {
		return err
	}
	if err := s.store.Ack(ctx, AckRequest{Receipt: r, Policy: policy}); err != nil {
		return fmt.Errorf("ack %s/%s: %w", channel, subscriber, err)
	}
	return nil
}

// Describe tells of a channel and of one page of its subscribers. Errors: fault.SlugInvalidChannel, fault.SlugInvalidPolicy,
// ErrNoChannel and the store's.
func (s *Service) Describe(ctx context.Context, channel string, page Page) (Description, error) {
	policy, err := s.policy(channel)
	if err != nil {
		return Description{}, err
	}
	d, err := s.store.Describe(ctx, DescribeRequest{Channel: channel, Page: page.bounded(), Policy: policy})
	if err != nil {
		return Description{}, fmt.Errorf("describe %s: %w", channel, err)
	}
	return d, nil
}

func (s *Service) policy(channel string) (Policy, error) {
	if err := CheckChannel(channel); err != nil {
		return Policy{}, err
	}
	return s.policies.For(channel)
}

func (s *Service) policyFor(channel, subscriber string) (Policy, error) {
	policy, err := s.policy(channel)
	if err != nil {
		return Policy{}, err
	}
	return policy, CheckSubscriber(subscriber)
}

func (s *Service) verify(handle, channel, subscriber string) (receipt.Receipt, error) {
	r, err := s.receipts.Verify(handle, channel, subscriber)
	if err == nil {
		return r, nil
	}
	refused := &fault.Error{
		Kind: fault.Invalid, Slug: fault.SlugReceiptMalformed, Field: "/receiptHandle", Cause: err,
		Detail: "the receipt handle is malformed",
	}
	switch {
	case errors.Is(err, receipt.ErrForged):
		refused.Slug, refused.Detail = fault.SlugReceiptForged, "the receipt handle was not signed by this service"
	case errors.Is(err, receipt.ErrWrongChannel):
		refused.Slug, refused.Detail = fault.SlugReceiptChannel, "the receipt handle is of another channel"
	case errors.Is(err, receipt.ErrWrongSubscriber):
		refused.Slug, refused.Detail = fault.SlugReceiptSubscriber, "the receipt handle is of another subscriber"
	}
	return receipt.Receipt{}, refused
}
