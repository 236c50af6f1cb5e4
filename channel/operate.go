package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/names"
)

// Operations are the actions of operators on channels.
type Operations interface {
	// Channels returns one page of the channels whose names have a prefix. Errors: ErrCursor.
	Channels(ctx context.Context, prefix, cursor string) (SummaryPage, error)
	// DescribeMany is Describe for some channels, together, and returns a result for each.
	DescribeMany(ctx context.Context, rs []DescribeRequest) []DescribeResult
	// Purge removes the messages up to a clock. What it has removed when it fails stays removed; repeating it completes
	// it. Errors: ErrNoChannel, ErrOtherLife, ErrThroughAhead.
	Purge(ctx context.Context, r PurgeRequest) (Purged, error)
	// Delete removes a channel with its messages and subscribers, and sends an EventDeleted. The clock of its next life
	// continues where it was, and message IDs may be used again. It succeeds if the channel doesn't exist.
	Delete(ctx context.Context, r DeleteRequest) error
	// Seek sets a subscriber's mark, with an EventSought. Errors: ErrNoSubscriber, ErrToAhead.
	Seek(ctx context.Context, r SeekRequest) (Sought, error)
}

// Errors of operations. Compare with errors.Is, which compares slugs.
var (
	ErrCursor = invalid(fault.SlugInvalidQuery, "cursor", "cursor isn't one of an earlier answer")
	// ErrOtherLife is returned if the channel is in another life than that of the request.
	ErrOtherLife = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugOtherLife, Field: "/epoch",
		Detail: "the channel is in another life: its epoch isn't that of the request"}
	ErrThroughAhead = ahead("through")
	ErrToAhead      = ahead("to")
	errAfterAhead   = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugInvalidPosition, Field: "after",
		Detail: "after is ahead of the channel's clock"}
)

func ahead(member string) *fault.Error {
	return &fault.Error{Kind: fault.Conflict, Slug: fault.SlugInvalidPosition, Field: "/" + member,
		Detail: member + " is ahead of the channel's clock"}
}

// SummaryPage is a part of the list of channels. The pages from the first to one without a Next have each channel that
// exists all the time at least once, maybe twice, unless its slot is moved meanwhile. A page may be empty.
type SummaryPage struct {
	Channels []Summary // by name
	Next     string    // the cursor of the next page; empty: this is the last
}

// Summary is an entry of the list of channels.
type Summary struct {
	Name        string
	Clock       clock.Clock
	TTL         time.Duration // remaining life of the channel without activity
	Subscribers uint64        // including some that have expired and aren't removed yet
	Details     *Details      // nil: not asked for, or the channel has ended meanwhile
}

// Details describes the messages of a channel and their readers.
type Details struct {
	Live    uint64        // clocks from the oldest message alive to the channel's clock
	Slowest SubscriberLag // with the largest lag of the examined subscribers; the zero value: there is none
	All     bool          // all subscribers were examined
}

// DescribeResult is the result for one channel.
type DescribeResult struct {
	Description

	Err error
}

// PurgeRequest is the argument of Purge.
type PurgeRequest struct {
	Channel string
	Through From      // StartLatest: all messages; StartAt: those up to a clock
	Epoch   ulid.ULID // the life of the channel; zero: the current one
	Policy  Policy
}

// Purged is the result of a purge.
type Purged struct {
	Position        // up to which messages were purged
	Removed  uint64 // messages
}

// DeleteRequest is the argument of Delete.
type DeleteRequest struct {
	Channel string
	Epoch   ulid.ULID // the life of the channel to delete; a later one stays
	Damaged bool      // delete any life, if its clock or its epoch is damaged
	Policy  Policy
}

// SeekRequest is the argument of Seek. A mark is never set before the oldest message alive.
type SeekRequest struct {
	Channel    string
	Subscriber string
	To         From
	Time       time.Time // if it isn't zero, instead of To: the first message read is the first one published then or later
	Policy     Policy
}

// Sought is the result of a seek.
type Sought struct {
	Position        // the subscriber's mark
	Lag      uint64 // messages after it
}

// Peek is messages of a channel, read without a subscriber.
type Peek struct {
	Position             // the channel's
	Messages []Message   // that are alive, in clock order
	Through  clock.Clock // the next peek's From
}

// describedTogether is how many channels of a list are described in one round trip.
const describedTogether = 50

// Channels returns one page of the channels whose names have a prefix, empty for all channels. The cursor is empty for
// the first page. With details it also describes each of them. Of calls at the same time, one reads the store, and the
// others wait. Errors: fault.SlugInvalidQuery and the store's.
func (s *Service) Channels(ctx context.Context, prefix, cursor string, details bool) (SummaryPage, error) {
	if prefix != "" {
		whole := strings.TrimSuffix(prefix, "/") // which may be followed by a segment
		if err := checkName(names.WrongChannel(whole), "prefix", "prefix", fault.SlugInvalidQuery); err != nil {
			return SummaryPage{}, err
		}
	}
	if err := s.lists.Acquire(ctx, 1); err != nil {
		return SummaryPage{}, fmt.Errorf("list channels: %w", err)
	}
	defer s.lists.Release(1)
	page, err := s.store.Channels(ctx, prefix, cursor)
	if err != nil {
		return page, fmt.Errorf("list channels: %w", err)
	}
	if !details {
		return page, nil
	}
	for some := range slices.Chunk(page.Channels, describedTogether) {
		if err := s.addDetails(ctx, some); err != nil {
			return SummaryPage{}, fmt.Errorf("list channels: %w", err)
		}
	}
	return page, nil
}

// addDetails describes channels of a list, with about DefaultPage of the subscribers of each.
func (s *Service) addDetails(ctx context.Context, some []Summary) error {
	requests := make([]DescribeRequest, len(some))
	for i, summary := range some {
		policy, err := s.configured.Load().policies.For(summary.Name)
		if err != nil {
			policy = Policy{} // an invalid rule: the channel is listed nevertheless
		}
		requests[i] = DescribeRequest{Channel: summary.Name, Page: Page{}.bounded(), Policy: policy}
	}
	for i, r := range s.store.DescribeMany(ctx, requests) {
		if errors.Is(r.Err, ErrNoChannel) {
			continue
		}
		var failed *fault.Error
		if errors.As(r.Err, &failed) && failed.Kind == fault.Internal {
			continue // the channel is damaged: the others are listed with their details
		}
		if r.Err != nil {
			return r.Err
		}
		d := &Details{Live: r.Live, All: r.Next == 0}
		for _, subscriber := range r.Subscribers {
			if d.Slowest.Name == "" || subscriber.Lag > d.Slowest.Lag {
				d.Slowest = subscriber
			}
		}
		some[i].Details = d
	}
	return nil
}

// Peek returns the messages after a clock, or the earliest ones, without a subscriber. It changes nothing. Errors:
// fault.SlugInvalidChannel, fault.SlugInvalidPolicy, fault.SlugInvalidMax, fault.SlugInvalidPosition, ErrNoChannel and
// the store's.
func (s *Service) Peek(ctx context.Context, channel string, from From, limit int) (Peek, error) {
	policy, err := s.policy(channel)
	limits := s.Limits()
	if err = cmp.Or(err, limits.bound(&limit, 0)); err != nil {
		return Peek{}, err
	}
	b, err := s.store.Fetch(ctx, FetchRequest{Channel: channel, Tail: &from, Peek: true, Max: limit,
		MaxBytes: limits.FetchBytes, Policy: policy})
	switch {
	case errors.Is(err, ErrClockAhead):
		err = errAfterAhead
	case err == nil:
		return Peek{Position: Position{Epoch: b.Epoch, Clock: b.Clock}, Messages: b.Messages, Through: b.Through}, nil
	}
	return Peek{}, fmt.Errorf("peek %s: %w", channel, err)
}

// Purge removes the messages of a channel up to a clock. Subscribers that haven't read them are told how many: see
// Delivery.Purged. Dedup records stay. It sets the request's policy. Errors: fault.SlugInvalidChannel,
// fault.SlugInvalidPolicy, those of the request and the store's.
func (s *Service) Purge(ctx context.Context, r PurgeRequest) (p Purged, err error) {
	if r.Policy, err = s.policy(r.Channel); err != nil {
		return p, err
	}
	if p, err = s.store.Purge(ctx, r); err != nil {
		return p, fmt.Errorf("purge %s: %w", r.Channel, err)
	}
	return p, nil
}

// Delete removes a channel with its messages and subscribers, whose waiting fetches return ErrNoSubscriber. It succeeds
// if the channel doesn't exist. Errors: fault.SlugInvalidChannel, fault.SlugInvalidPolicy and the store's.
func (s *Service) Delete(ctx context.Context, channel string) error {
	policy, err := s.policy(channel)
	if err != nil {
		return err
	}
	at := s.store.Positions(ctx, []string{channel})[0]
	if errors.Is(at.Err, ErrNoChannel) {
		return nil
	}
	damaged := errors.Is(at.Err, fault.ErrDamaged)
	if err = at.Err; err == nil || damaged {
		err = s.store.Delete(ctx, DeleteRequest{Channel: channel, Epoch: at.Epoch, Damaged: damaged, Policy: policy})
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", channel, err)
	}
	return nil
}

// Seek sets the mark of a subscriber. Its streams continue there, after a gap of the reason GapMoved. A receipt that
// was issued before may move the mark on. It sets the request's policy. Errors: fault.SlugInvalidChannel,
// fault.SlugInvalidSubscriber, fault.SlugInvalidPolicy, those of the request and the store's.
func (s *Service) Seek(ctx context.Context, r SeekRequest) (to Sought, err error) {
	if r.Policy, err = s.policyFor(r.Channel, r.Subscriber); err != nil {
		return to, err
	}
	if to, err = s.store.Seek(ctx, r); err != nil {
		return to, fmt.Errorf("seek %s/%s: %w", r.Channel, r.Subscriber, err)
	}
	return to, nil
}

// Policy returns the policy of a channel, which needn't exist, and the pattern of the rule that sets it; "": the defaults
// do. Errors: ErrInvalidChannel, and those of Policies.For.
func (s *Service) Policy(channel string) (p Policy, rule string, err error) {
	if p, err = s.policy(channel); err != nil {
		return Policy{}, "", err
	}
	return p, s.configured.Load().policies.Rule(channel), nil
}
