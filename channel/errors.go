package channel

import (
	"errors"
	"time"
)

// Kind says what sort of outcome an Error is. The server maps it to an HTTP status.
type Kind int

// The kinds of errors.
const (
	Internal    Kind = iota // a fault of the service or of what it found in its storage
	Invalid                 // the request can never succeed as it stands
	NotFound                // the channel or the subscriber doesn't exist
	Forbidden               // the caller may not do this; nothing was changed
	Conflict                // the request is well formed but doesn't fit the channel's state
	TooLarge                // the message or batch is larger than the channel's policy or the service allows
	StorageFull             // the storage has no memory left; nothing was written
	Unavailable             // the storage can't be reached or can't serve now; trying again is safe
)

// Slug names one error for programs: it is the end of the problem's type, urn:tidemark:problem:<slug>.
type Slug string

// The slugs of the errors that this package and the stores return.
const (
	SlugInternal          Slug = "internal"
	SlugInvalidChannel    Slug = "invalid-channel-name"
	SlugInvalidSubscriber Slug = "invalid-subscriber-name"
	SlugInvalidMessageID  Slug = "invalid-message-id"
	SlugInvalidContent    Slug = "invalid-content"
	SlugInvalidBatch      Slug = "invalid-batch"
	SlugInvalidMax        Slug = "invalid-max"
	SlugInvalidWait       Slug = "invalid-wait"
	SlugInvalidFrom       Slug = "invalid-from"
	SlugInvalidPolicy     Slug = "invalid-policy"
	SlugMessageTooLarge   Slug = "message-too-large"
	SlugBatchTooLarge     Slug = "batch-too-large"
	SlugNoChannel         Slug = "channel-not-found"
	SlugNoSubscriber      Slug = "subscriber-not-found"
	SlugReceiptMalformed  Slug = "receipt-malformed"
	SlugReceiptForged     Slug = "receipt-forged"
	SlugReceiptChannel    Slug = "receipt-wrong-channel"
	SlugReceiptSubscriber Slug = "receipt-wrong-subscriber"
	SlugReceiptEpoch      Slug = "receipt-wrong-epoch"
	SlugReceiptAhead      Slug = "receipt-ahead"
	SlugReceiptSuperseded Slug = "receipt-superseded"
	SlugStorageFull       Slug = "storage-full"
	SlugUnavailable       Slug = "storage-unavailable"
	SlugNotReplicated     Slug = "not-replicated"
)

// Errors that a store returns and that callers compare with errors.Is, which compares the slug.
var (
	ErrNoChannel         = &Error{Kind: NotFound, Slug: SlugNoChannel, Detail: "the channel doesn't exist"}
	ErrNoSubscriber      = &Error{Kind: NotFound, Slug: SlugNoSubscriber, Detail: "the subscriber doesn't exist: subscribe first"}
	ErrReceiptEpoch      = &Error{Kind: Conflict, Slug: SlugReceiptEpoch, Detail: "the receipt is from an earlier life of the channel: fetch again"}
	ErrReceiptAhead      = &Error{Kind: Conflict, Slug: SlugReceiptAhead, Detail: "the receipt is ahead of the channel's clock: fetch again"}
	ErrReceiptSuperseded = &Error{Kind: Conflict, Slug: SlugReceiptSuperseded, Detail: "another message stands or stood at the receipt's clock: fetch again"}
	ErrClockAhead        = &Error{Kind: Conflict, Slug: SlugInvalidFrom, Detail: "from is ahead of the channel's clock"}
	ErrStorageFull       = &Error{Kind: StorageFull, Slug: SlugStorageFull, Detail: "the storage is out of memory; nothing was written"}
	ErrUnavailable       = &Error{Kind: Unavailable, Slug: SlugUnavailable, Detail: "the storage can't serve the request now; trying again is safe"}
)

// ErrLaterLife is the error of publishing for a life of a channel after which another one has begun. No client sees it.
var ErrLaterLife = errors.New("a later life of the channel has begun")

// Error is an outcome that a client is told: what sort it is, its name, and what to do about it.
type Error struct {
	Kind       Kind
	Slug       Slug
	Detail     string        // for people; says what is wrong with this request
	Field      string        // the part of the request that is wrong, as a JSON pointer or a parameter's name; may be empty
	RetryAfter time.Duration // when trying again may help, for Unavailable; zero: no advice
	Cause      error         // what lies behind it, for the log; never shown to clients; may be nil
}

// Error gives the detail, and the cause where there is one.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Detail + ": " + e.Cause.Error()
	}
	return e.Detail
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is compares slugs, so that errors.Is(err, ErrNoSubscriber) holds for every error of that name.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Slug == e.Slug
}

// Because gives a copy of e with a cause.
func (e *Error) Because(cause error) *Error {
	c := *e
	c.Cause = cause
	return &c
}
