package channel

import (
	"errors"

	"github.com/tidemark-dev/tidemark/fault"
)

// Errors that a store returns and that callers compare with errors.Is, which compares the slug.
var (
	ErrNoChannel         = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoChannel, Detail: "the channel doesn't exist"}
	ErrNoSubscriber      = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoSubscriber, Detail: "the subscriber doesn't exist: subscribe first"}
	ErrReceiptEpoch      = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugReceiptEpoch, Detail: "the receipt is from an earlier life of the channel: fetch again"}
	ErrReceiptAhead      = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugReceiptAhead, Detail: "the receipt is ahead of the channel's clock: fetch again"}
	ErrReceiptSuperseded = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugReceiptSuperseded, Detail: "the receipt's clock belongs to another message: fetch again"}
	ErrClockAhead        = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugInvalidFrom, Detail: "from is ahead of the channel's clock"}
)

// ErrLaterLife is returned when a message is published for a life of a channel that has been followed by another one.
// Clients never see it.
var ErrLaterLife = errors.New("a later life of the channel has begun")
