package channel

import (
	"errors"
	"fmt"

	"github.com/tidemark-dev/tidemark/fault"
)

// invalid returns an error about a part of a request that can never succeed.
func invalid(slug fault.Slug, field, format string, args ...any) *fault.Error {
	return &fault.Error{Kind: fault.Invalid, Slug: slug, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// Errors of stores. Compare with errors.Is, which compares slugs.
var (
	ErrNoChannel = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoChannel,
		Detail: "the channel doesn't exist"}
	ErrNoSubscriber = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoSubscriber,
		Detail: "the subscriber doesn't exist: subscribe first"}
	ErrReceiptEpoch = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugReceiptEpoch,
		Detail: "the receipt is from an earlier life of the channel: fetch again"}
	ErrReceiptAhead = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugReceiptAhead,
		Detail: "the receipt is ahead of the channel's clock: fetch again"}
	ErrReceiptSuperseded = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugReceiptSuperseded,
		Detail: "the receipt's clock belongs to another message: fetch again"}
	ErrTooManySubscribers = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugManySubscribers,
		Detail: "the channel has as many subscribers as it may"}
	ErrClockAhead = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugInvalidFrom,
		Detail: "from is ahead of the channel's clock"}
)

var errManySources = &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugOverloaded,
	Detail: "too many fetches from many subscribers are in progress; trying again is safe"}

// ErrLaterLife is returned when a message is published for a life of a channel that has been followed by another one.
// Clients never see it.
var ErrLaterLife = errors.New("a later life of the channel has begun")
