package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/semaphore"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/receipt"
)

// Service is the channel layer: see the package comment. Many goroutines may use it.
type Service struct {
	store      Store
	receipts   *receipt.Keyring
	tokens     *receipt.Derived            // that resume streams of many sources
	lookUp     func(context.Context) error // nil: receipts has all keys
	configured atomic.Pointer[configuration]
	hub        *hub
	marks      *marks
	lags       *lagWatch
	copies     Copies
	turns      *semaphore.Weighted // of reads from many sources
	lists      *semaphore.Weighted // of pages of the list of channels, one at a time
}

// configuration holds the settings that Configure replaces. A request may use the settings before and after a change.
type configuration struct {
	policies *Policies
	limits   Limits
}

// Options configures a Service. All fields but LookUp and Copies are required.
type Options struct {
	Store    Store
	Receipts *receipt.Keyring
	// LookUp updates Receipts when a receipt is signed with none of its keys. nil: no other server has other keys.
	LookUp   func(context.Context) error
	Policies *Policies
	Limits   Limits
	Logger   *slog.Logger
	Copies   Copies // nil: nothing is copied
}

// NewService returns a service. Call its Run, which fetches that wait need.
func NewService(o Options) (*Service, error) {
	if err := o.Limits.Check(); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	s := &Service{
		store: o.Store, receipts: o.Receipts, tokens: o.Receipts.Derive(tokenPurpose), lookUp: o.LookUp,
		copies: o.Copies, hub: newHub(o.Store, o.Limits, o.Logger), marks: newMarks(),
		lags:  &lagWatch{store: o.Store, log: o.Logger, channels: make(map[string]watchedLags)},
		turns: semaphore.NewWeighted(turnsPerCore * int64(runtime.GOMAXPROCS(0))),
		lists: semaphore.NewWeighted(1),
	}
	s.hub.sought = s.marks.sought
	s.configured.Store(&configuration{policies: o.Policies, limits: o.Limits})
	return s, nil
}

// Configure replaces the policies and the limits of requests that begin later, but for MaxWait, Linger and Backstop,
// which stay as they are. A stream keeps the policies of its channels until it ends. An error means that nothing was
// changed.
func (s *Service) Configure(policies *Policies, limits Limits) error {
	now := s.Limits()
	limits.MaxWait, limits.Linger, limits.Backstop = now.MaxWait, now.Linger, now.Backstop
	if err := limits.Check(); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	s.configured.Store(&configuration{policies: policies, limits: limits})
	s.lags.forget()
	return nil
}

// Run serves waiting fetches, and reads what Lags returns, until ctx ends. Then they return nothing, no later fetch
// waits, and Run returns nil. It must be called once.
func (s *Service) Run(ctx context.Context) error {
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() { s.lags.run(ctx) })
	return s.hub.run(ctx)
}

// Drain makes all waiting fetches return without messages, and later ones not wait, and ends all streams. It may be
// called more than once, at any time.
func (s *Service) Drain() {
	s.hub.drain()
	s.marks.nudge()
}

// Suspend makes all waiting fetches return without messages, and ends all streams, as Drain does. Until Resume a fetch
// waits for a second at most, and a stream ends at once. It may be called more than once.
func (s *Service) Suspend() {
	s.hub.suspend()
	s.marks.nudge()
}

// Resume ends Suspend. After Drain it does nothing.
func (s *Service) Resume() { s.hub.resume() }

// Waiting returns the number of waiting fetches and of channels that are listened to. After its last waiter a channel
// is listened to for as long as it has been before, Limits.Linger at most.
func (s *Service) Waiting() (waiters, channels int) { return s.hub.count() }

// Limits returns the limits in use.
func (s *Service) Limits() Limits { return s.configured.Load().limits }

// Publish appends drafts to a channel in order, all or none, and makes the channel if it doesn't exist. It sets the
// request's policy. Drafts without an ID get one, which is in the result; r.Drafts isn't changed. Errors:
// fault.SlugInvalidChannel, fault.SlugInvalidPolicy, fault.SlugInvalidMessageID, fault.SlugContentType,
// fault.SlugSchema, fault.SlugInvalidBatch,
// fault.SlugMessageTooLarge, fault.SlugBatchTooLarge, those of the request and the store's.
func (s *Service) Publish(ctx context.Context, r PublishRequest) ([]Published, error) {
	drafts := r.Drafts
	if err := s.prepare(&r); err != nil {
		return nil, err
	}
	announced, err := s.announce(ctx, &r)
	var published []Published
	if err == nil {
		published, err = s.store.Publish(ctx, r)
	}
	if err != nil {
		return nil, fmt.Errorf("publish to %s: %w", r.Channel, err)
	}
	published[0].Begun = published[0].Begun || announced
	if r.Producer == nil {
		markNew(published, drafts)
	}
	return published, nil
}

// BeginPublish is Publish without waiting, for one message. done is called once with the result, before BeginPublish
// returns or by a goroutine that others wait for too, so it must return soon. The content isn't used after BeginPublish
// has returned. If it returns false, nothing was done: Publish must be called.
func (s *Service) BeginPublish(ctx context.Context, r PublishRequest, done func([]Published, error)) bool {
	name, generated := r.Channel, r.Drafts[0].ID == "" && r.Producer == nil
	if err := s.prepare(&r); err != nil {
		done(nil, err)
		return true
	}
	return !s.mustAnnounce(&r) && s.store.BeginPublish(ctx, r, func(published []Published, err error) {
		if err != nil {
			done(nil, fmt.Errorf("publish to %s: %w", name, err))
			return
		}
		if generated {
			published[0].Duplicate, published[0].Differs = false, false
		}
		done(published, nil)
	})
}

// PublishEach is Publish for several channels together: all requests are sent before the first is answered. Those whose
// messages are copied are announced before, all at the same time. It returns a result for each. It sets the policies of
// the requests. A request may be for one life of its channel, and may make a subscriber with the channel. Errors: those
// of Publish, fault.SlugInvalidSubscriber and ErrLaterLife.
func (s *Service) PublishEach(ctx context.Context, requests []PublishRequest) []PublishResult {
	results, announced := make([]PublishResult, len(requests)), make([]bool, len(requests))
	var announcing sync.WaitGroup
	for i := range requests {
		r := &requests[i]
		if results[i].Err = s.prepare(r); results[i].Err == nil && s.mustAnnounce(r) {
			announcing.Go(func() { announced[i], results[i].Err = s.announce(ctx, r) })
		}
	}
	announcing.Wait()
	valid := make([]PublishRequest, 0, len(requests))
	for i := range requests {
		if results[i].Err == nil {
			valid = append(valid, requests[i])
		}
	}
	published := s.store.PublishEach(ctx, valid)
	for i := range requests {
		if results[i].Err != nil {
			continue
		}
		results[i], published = published[0], published[1:]
		if err := results[i].Err; err != nil {
			results[i].Err = fmt.Errorf("publish to %s: %w", requests[i].Channel, err)
		} else if announced[i] {
			results[i].Published[0].Begun = true
		}
	}
	return results
}

// prepare checks a request and completes it for the store.
func (s *Service) prepare(r *PublishRequest) (err error) {
	if r.Policy, err = s.policy(r.Channel); err != nil {
		return err
	}
	if r.Subscriber != "" {
		err = checkSubscriber(r.Subscriber)
	}
	if r.Producer != nil {
		err = cmp.Or(err, r.Producer.check())
	}
	err = cmp.Or(err, checkOrder(r.Order))
	if err = cmp.Or(err, s.checkDrafts(r.Drafts, r.Policy)); err == nil {
		r.Drafts = withIDs(r.Drafts, r.Producer)
	}
	return err
}

// CloseChannel closes a channel, if it isn't closed already, and returns its position: it gets no further messages. A publish
// can close its channel, too. It sets the request's policy. Errors: fault.SlugInvalidChannel, fault.SlugInvalidPolicy,
// fault.SlugInvalidProducer, ErrNoChannel, and those of a producer's publish.
func (s *Service) CloseChannel(ctx context.Context, r CloseRequest) (life Life, err error) {
	if r.Policy, err = s.policy(r.Channel); err != nil {
		return life, err
	}
	if r.Producer != nil {
		if err := r.Producer.check(); err != nil {
			return life, err
		}
	}
	if life, err = s.store.CloseChannel(ctx, r); err != nil {
		return life, fmt.Errorf("close %s: %w", r.Channel, err)
	}
	return life, nil
}

// markNew reports messages with generated IDs as new, even if the store retried and found its own first attempt.
func markNew(published []Published, drafts []Draft) {
	for i, d := range drafts {
		if d.ID == "" {
			published[i].Duplicate, published[i].Differs = false, false
		}
	}
}

// withIDs returns drafts that all have an ID: the argument, or a copy if one has none. Those of a producer get the same
// in each repeat.
func withIDs(drafts []Draft, by *Producer) []Draft {
	if !slices.ContainsFunc(drafts, func(d Draft) bool { return d.ID == "" }) {
		return drafts
	}
	drafts = slices.Clone(drafts)
	for i := range drafts {
		switch {
		case drafts[i].ID != "":
		case by != nil:
			drafts[i].ID = by.messageID(i)
		default:
			drafts[i].ID = id.New()
		}
	}
	return drafts
}

// maxTraceBytes is the longest Draft.Trace.
const maxTraceBytes = 55

func (s *Service) checkDrafts(drafts []Draft, policy Policy) error {
	if len(drafts) == 0 {
		return invalid(fault.SlugInvalidBatch, "", "the batch is empty")
	}
	if limit := s.configured.Load().limits.MaxBatch; len(drafts) > limit {
		return &fault.Error{
			Kind: fault.TooLarge, Slug: fault.SlugBatchTooLarge,
			Detail: fmt.Sprintf("the batch has %d messages, at most %d are allowed", len(drafts), limit),
		}
	}
	for i := range drafts {
		d := &drafts[i]
		if d.ID != "" {
			if err := CheckMessageID(d.ID); err != nil {
				return atDraft(err, i, len(drafts), "id")
			}
		}
		if strings.Trim(d.Trace, "0123456789abcdef-") != "" || len(d.Trace) > maxTraceBytes {
			return atDraft(invalid(fault.SlugInvalidBatch, "", "the trace isn't that of a header traceparent"), i,
				len(drafts), "trace")
		}
		if size := len(d.Content); size > policy.MaxMessageBytes {
			return atDraft(&fault.Error{
				Kind: fault.TooLarge, Slug: fault.SlugMessageTooLarge,
				Detail: fmt.Sprintf("the content has %d bytes, at most %d are allowed on this channel", size,
					policy.MaxMessageBytes),
			}, i, len(drafts), "content")
		}
		if err := d.checkType(&policy); err != nil {
			return atDraft(err, i, len(drafts), "contentType")
		}
		if policy.Schema == nil {
			continue
		}
		if field, err := policy.Schema.Check(d.Content); err != nil {
			return atDraft(&fault.Error{Kind: fault.Invalid, Slug: fault.SlugSchema, Detail: err.Error()}, i,
				len(drafts), "content"+field)
		}
	}
	return nil
}

// atDraft sets the field of an error to a member of a draft of the batch.
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

// Subscribe creates a subscriber, and its channel if that doesn't exist. The mark of an existing subscriber isn't
// moved. It sets the request's policy. Errors: fault.SlugInvalidChannel, fault.SlugInvalidSubscriber,
// fault.SlugInvalidPolicy, fault.SlugInvalidFrom, ErrClockAhead, ErrTooManySubscribers, those of the request and the
// store's.
func (s *Service) Subscribe(ctx context.Context, r SubscribeRequest) (sub Subscription, err error) {
	if r.Policy, err = s.policyFor(r.Channel, r.Subscriber); err != nil {
		return sub, err
	}
	if err := r.From.check(); err != nil {
		return sub, err
	}
	if sub, err = s.store.Subscribe(ctx, r); err != nil {
		return sub, fmt.Errorf("subscribe %s/%s: %w", r.Channel, r.Subscriber, err)
	}
	return sub, nil
}

// AnyLife is the epoch that stands for all lives of a channel.
var AnyLife ulid.ULID

// Unsubscribe removes a subscriber. Its waiting fetches return ErrNoSubscriber. It succeeds if there is none, and
// removes none in a life of the channel after last, unless that is AnyLife. Errors: fault.SlugInvalidChannel,
// fault.SlugInvalidSubscriber and the store's.
func (s *Service) Unsubscribe(ctx context.Context, channel, subscriber string, last ulid.ULID) error {
	if _, err := s.policyFor(channel, subscriber); err != nil {
		return err
	}
	if err := s.store.Unsubscribe(ctx, channel, subscriber, last); err != nil {
		return fmt.Errorf("unsubscribe %s/%s: %w", channel, subscriber, err)
	}
	return nil
}

// Ack moves the subscriber's mark to the receipt's clock. A receipt at or behind the mark is a retry: it changes
// nothing and succeeds. Errors: fault.SlugInvalidChannel, fault.SlugInvalidSubscriber, fault.SlugInvalidPolicy,
// fault.SlugReceipt…, ErrNoSubscriber and the store's.
func (s *Service) Ack(ctx context.Context, channel, subscriber, handle string) error {
	policy, err := s.policyFor(channel, subscriber)
	if err != nil {
		return err
	}
	v := verifier{service: s}
	r, err := v.verify(ctx, handle, channel, subscriber)
	if err != nil {
		return err
	}
	if err := s.store.Ack(ctx, AckRequest{Receipt: *r, Policy: policy}); err != nil {
		return fmt.Errorf("ack %s/%s: %w", channel, subscriber, err)
	}
	s.marks.acknowledged(r)
	return nil
}

// Describe returns a channel and one page of its subscribers. Errors: fault.SlugInvalidChannel,
// fault.SlugInvalidPolicy, ErrNoChannel and the store's.
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
	policy, err := s.configured.Load().policies.For(channel)
	if policy.LagMetrics {
		s.lags.use(channel, policy)
	}
	return policy, err
}

func (s *Service) policyFor(channel, subscriber string) (Policy, error) {
	policy, err := s.policy(channel)
	err = cmp.Or(err, checkSubscriber(subscriber))
	if err == nil && policy.Copies && subscriber == CopiesSubscriber {
		err = errCopies
	}
	return policy, err
}

// policyOfStream is policyFor for a source of a stream. It also checks where a tail begins.
func (s *Service) policyOfStream(from *Source) (Policy, error) {
	if from.Tail == nil {
		return s.policyFor(from.Channel, from.Subscriber)
	}
	policy, err := s.policy(from.Channel)
	if from.Subscriber != "" {
		err = cmp.Or(err, error(invalid(fault.SlugInvalidSubscriber, "subscriber", "a tail has no subscriber")))
	}
	return policy, cmp.Or(err, from.Tail.check())
}

// verifier verifies the receipts of one request.
type verifier struct {
	service  *Service
	lookedUp bool  // whether keys of other servers were looked for
	failure  error // of that
}

// findKeys looks for keys of other servers, once for each request.
func (v *verifier) findKeys(ctx context.Context) error {
	if v.service.lookUp == nil {
		return nil
	}
	if !v.lookedUp {
		v.lookedUp, v.failure = true, v.service.lookUp(ctx)
	}
	if v.failure != nil {
		return fmt.Errorf("look for the key of a receipt: %w", v.failure)
	}
	return nil
}

// verify returns the receipt of a handle. If none of the keys has signed it, verify looks for keys of other servers,
// once for each request.
func (v *verifier) verify(ctx context.Context, handle, channel, subscriber string) (*receipt.Receipt, error) {
	s := v.service
	r, err := s.receipts.Verify(handle, channel, subscriber)
	if errors.Is(err, receipt.ErrForged) {
		if err := v.findKeys(ctx); err != nil {
			return nil, err
		}
		r, err = s.receipts.Verify(handle, channel, subscriber)
	}
	slug, what := fault.SlugReceiptMalformed, "is malformed"
	switch {
	case err == nil:
		return &r, nil
	case errors.Is(err, receipt.ErrForged):
		slug, what = fault.SlugReceiptForged, "was not signed by this service"
	case errors.Is(err, receipt.ErrWrongChannel):
		slug, what = fault.SlugReceiptChannel, "is of another channel"
	case errors.Is(err, receipt.ErrWrongSubscriber):
		slug, what = fault.SlugReceiptSubscriber, "is of another subscriber"
	}
	return nil, invalid(slug, "/receiptHandle", "the receipt handle %s", what).WithCause(err)
}

// verifyLast returns the receipt of a handle that is only compared with the channel's history. If no known key has signed
// it, the receipt is of no history that a channel has.
func (v *verifier) verifyLast(ctx context.Context, handle, channel, subscriber string) (*receipt.Receipt, error) {
	r, err := v.verify(ctx, handle, channel, subscriber)
	if isUnsigned(err) {
		return &receipt.Receipt{Channel: channel, Subscriber: subscriber, Epoch: noChannel.Epoch}, nil
	}
	return r, ofField(err, "lastReceiptHandle", "last receipt handle")
}
