package channel

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
)

// Producer identifies a publish among those of one publisher, so that each is accepted once, and in order: the sequence
// of its first publish is 0, and each further one is the next. A publisher that has restarted begins with a higher
// epoch, and the sequence 0; publishes of a lower epoch are refused.
type Producer struct {
	ID       string // chosen by the publisher
	Epoch    int64  // 0 to clock.Max
	Sequence int64  // 0 to clock.Max
}

// Bounds of producers.
const (
	MaxProducerBytes = 256  // of an ID
	MaxProducers     = 1000 // of a channel
	MaxOrderBytes    = 256  // of PublishRequest.Order
)

// Errors of publishes with a producer or an order. Compare with errors.Is, which compares slugs.
var (
	ErrFenced = &fault.Error{Kind: fault.Forbidden, Slug: fault.SlugProducerFenced,
		Detail: "the epoch of the producer is lower than one that has published: begin a higher one"}
	ErrProducerGap = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugProducerGap,
		Detail: "the sequence of the producer isn't the next one"}
	ErrProducerStart = &fault.Error{Kind: fault.Invalid, Slug: fault.SlugProducerStart,
		Detail: "the sequence of a new epoch of a producer must begin with 0"}
	ErrManyProducers = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugManyProducers,
		Detail: fmt.Sprintf("the channel has %d producers, and can't have more in this life", MaxProducers)}
	ErrOrder = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugOrderConflict,
		Detail: "the order isn't greater than that of the last publish that had one"}
	ErrClosed = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugChannelClosed,
		Detail: "the channel is closed: nothing can be published to it any more"}
	ErrContentType = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugOtherContentType,
		Detail: "the content type isn't that of the channel"}
)

// RefusedError is why a publish was refused, with the state of the channel or of the producer that is the reason. It
// unwraps to one of the errors above.
type RefusedError struct {
	Err      error
	Position Position    // of the channel
	First    clock.Clock // of the life
	Epoch    int64       // of the producer, for ErrFenced and ErrProducerStart
	Expected int64       // sequence of the producer, for ErrProducerGap
}

// Error describes the refusal.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the error that the refusal is one of.
func (e *RefusedError) Unwrap() error { return e.Err }

func (p *Producer) check() error {
	switch {
	case p.ID == "" || len(p.ID) > MaxProducerBytes || !isPrintable(p.ID):
		return invalid(fault.SlugInvalidProducer, "/producer/id",
			"the ID of a producer must have 1 to %d printable ASCII characters", MaxProducerBytes)
	case p.Epoch < 0 || p.Epoch > int64(clock.Max):
		return invalid(fault.SlugInvalidProducer, "/producer/epoch", "the epoch must be from 0 to %d", int64(clock.Max))
	case p.Sequence < 0 || p.Sequence > int64(clock.Max):
		return invalid(fault.SlugInvalidProducer, "/producer/sequence", "the sequence must be from 0 to %d", int64(clock.Max))
	}
	return nil
}

// checkOrder returns an error unless an order, which may be empty, is short, and in UTF-8: another one would be stored as
// another text, and compared as that.
func checkOrder(order string) error {
	switch {
	case len(order) > MaxOrderBytes:
		return invalid(fault.SlugInvalidProducer, "/order", "the order has %d bytes, at most %d are allowed", len(order),
			MaxOrderBytes)
	case !utf8.ValidString(order):
		return invalid(fault.SlugInvalidProducer, "/order", "the order isn't UTF-8")
	}
	return nil
}

// messageID returns the ID of a message that its producer gave none: a repeat has the same.
func (p *Producer) messageID(i int) string {
	sum := sha256.Sum256([]byte(p.ID))
	id := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:15])
	return id + "." + strconv.FormatInt(p.Epoch, 10) + "." + strconv.FormatInt(p.Sequence, 10) + "." + strconv.Itoa(i)
}
