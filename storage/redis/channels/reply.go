package channels

import (
	"fmt"
	"strconv"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// The statuses of the scripts of channels, besides those that all scripts have.
const (
	statusBegun        redis.Status = "BEGUN"
	statusCreated      redis.Status = "CREATED"
	statusExists       redis.Status = "EXISTS"
	statusStale        redis.Status = "STALE"
	statusNoChannel    redis.Status = "NO_CHANNEL"
	statusOtherLife    redis.Status = "OTHER_LIFE"
	statusAhead        redis.Status = "AHEAD"
	statusNoSubscriber redis.Status = "NO_SUBSCRIBER"
)

var refusals = redis.Refusals{
	statusNoChannel:    channel.ErrNoChannel,
	statusNoSubscriber: channel.ErrNoSubscriber,
	"EPOCH":            channel.ErrReceiptEpoch,
	statusAhead:        channel.ErrReceiptAhead,
	"SUPERSEDED":       channel.ErrReceiptSuperseded,
	"LIFE":             channel.ErrLaterLife,
	statusOtherLife:    channel.ErrOtherLife,
	"FULL":             channel.ErrTooManySubscribers,
	"FROM_AHEAD":       channel.ErrClockAhead,
}

// damaged returns the error of a value of a channel that can't be parsed.
func damaged(what string, err error) error {
	return fault.ErrDamaged.WithCause(fmt.Errorf("%w: %s: %w", redis.ErrReply, what, err))
}

// clockOf reads a clock.
func clockOf(d *redis.Decoder) clock.Clock {
	text := d.Text()
	if d.Err() != nil {
		return 0
	}
	c, err := clock.Parse(text)
	d.Fail(err)
	return c
}

// number reads an unsigned integer in decimal digits.
func number(d *redis.Decoder) uint64 {
	text := d.Text()
	if d.Err() != nil {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	d.Fail(err)
	return n
}
