package channel

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
)

// Properties are given to a life of a channel by Create. The zero value is that of a channel which a publish or a
// subscribe has made.
type Properties struct {
	// ContentType is the media type of all messages, as it was given; empty: each message has its own.
	ContentType string
	// TTL is how long the channel lives without reads and writes. A message lives for as long, or for the TTL of the
	// policy if that is longer. To the millisecond. 0: the policy's.
	TTL time.Duration
	// Ends is when the channel and its messages end at the latest, in Redis time, to the millisecond; zero: never.
	Ends time.Time
}

// Life is one life of a channel: its position, and what it was given.
type Life struct {
	Position
	Properties

	First clock.Clock // before the first message
}

// CreateRequest is the argument of Create.
type CreateRequest struct {
	Channel string
	Properties

	Drafts   []Draft // its first messages; none: it is empty
	Close    bool    // nothing can be published after them
	Existing bool    // ErrNoChannel if the channel doesn't exist
	Policy   Policy
}

// Created is the result of Create.
type Created struct {
	Life
	Existed bool // nothing was changed
}

// ErrChannelExists is for callers of Create to whom a channel with other properties is an error.
var ErrChannelExists = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugChannelExists,
	Detail: "the channel exists with other properties, or is closed"}

// Same reports whether two lives have the same properties, to the millisecond: content types are compared without regard
// to case.
func (p *Properties) Same(as *Properties) bool {
	const exact = time.Millisecond
	return strings.EqualFold(p.ContentType, as.ContentType) && p.TTL.Truncate(exact) == as.TTL.Truncate(exact) &&
		p.Ends.Truncate(exact).Equal(as.Ends.Truncate(exact))
}

// Create begins a life of a channel with properties, and its first messages, in one step. If the channel exists, nothing
// changes. It sets the policy of the request. Errors: fault.SlugInvalidChannel, fault.SlugInvalidPolicy,
// fault.SlugInvalidProperties, those of Publish about the drafts, and the store's.
func (s *Service) Create(ctx context.Context, r CreateRequest) (c Created, err error) {
	if r.Policy, err = s.policy(r.Channel); err != nil {
		return c, err
	}
	if err := r.check(); err != nil {
		return c, err
	}
	if len(r.Drafts) > 0 {
		if err := s.checkDrafts(r.Drafts, r.Policy); err != nil {
			return c, err
		}
		r.Drafts = withIDs(r.Drafts, nil)
	}
	if c, err = s.store.Create(ctx, r); err != nil {
		return c, fmt.Errorf("create %s: %w", r.Channel, err)
	}
	return c, nil
}

// Life returns the current life of a channel. It doesn't renew it. Errors: fault.SlugInvalidChannel,
// fault.SlugInvalidPolicy, ErrNoChannel and the store's.
func (s *Service) Life(ctx context.Context, channel string) (Life, error) {
	if _, err := s.policy(channel); err != nil {
		return Life{}, err
	}
	life, err := s.store.Life(ctx, channel)
	if err != nil {
		return life, fmt.Errorf("life of %s: %w", channel, err)
	}
	return life, nil
}

func (p *Properties) check() error {
	if p.ContentType != "" {
		if _, err := ParseContentType(p.ContentType); err != nil {
			return err
		}
		if len(p.ContentType) > MaxContentTypeBytes || !isPrintable(p.ContentType) {
			return invalid(fault.SlugContentType, "/contentType", "the content type has more than %d bytes, or a character "+
				"that isn't printable ASCII", MaxContentTypeBytes)
		}
	}
	switch {
	case p.TTL != 0 && (p.TTL < MinTTL || p.TTL > MaxTTL):
		return invalid(fault.SlugInvalidProperties, "/ttl", "the TTL is %s, it must be from %s to %s", p.TTL, MinTTL, MaxTTL)
	case p.TTL != 0 && !p.Ends.IsZero():
		return invalid(fault.SlugInvalidProperties, "/ends", "a channel has a TTL or an end, not both")
	case p.Ends.IsZero():
		return nil
	case !p.Ends.After(time.Now()):
		return invalid(fault.SlugInvalidProperties, "/ends", "the end of the channel is in the past")
	case p.Ends.After(time.Now().Add(MaxTTL)):
		return invalid(fault.SlugInvalidProperties, "/ends", "the end of the channel is later than %s from now", MaxTTL)
	}
	return nil
}

// isPrintable reports whether a text is of printable ASCII characters.
func isPrintable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
