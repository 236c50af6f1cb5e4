package redis

import (
	"errors"
	"fmt"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// status is the first element of a script's reply.
type status string

// The statuses of all scripts; which script gives which is in its header.
const (
	statusOK           status = "OK"
	statusStale        status = "STALE"
	statusCreated      status = "CREATED"
	statusExists       status = "EXISTS"
	statusMoving       status = "MOVING"
	statusAgain        status = "AGAIN"
	statusNoChannel    status = "NO_CHANNEL"
	statusNoSubscriber status = "NO_SUBSCRIBER"
	statusEpoch        status = "EPOCH"
	statusAhead        status = "AHEAD"
	statusSuperseded   status = "SUPERSEDED"
	statusFull         status = "FULL"
	statusNoTicket     status = "NO_TICKET"
	statusMatched      status = "MATCHED"
	statusConflict     status = "CONFLICT"
	statusLease        status = "LEASE"
	statusLost         status = "LOST"
	statusIdle         status = "IDLE"
	statusUndone       status = "UNDONE"
	statusLife         status = "LIFE"
	statusVacant       status = "VACANT"
	statusKept         status = "KEPT"
)

// errReply is the error of a reply that no script of ours gives.
var errReply = errors.New("malformed script reply")

// reply is what a script answered: its status and the values after it.
type reply struct {
	script string
	status status
	values []rueidis.RedisMessage
}

func newReply(script string, values []rueidis.RedisMessage) (reply, error) {
	if len(values) == 0 {
		return reply{}, fmt.Errorf("%w: %s answered nothing", errReply, script)
	}
	text, err := values[0].ToString()
	if err != nil {
		return reply{}, fmt.Errorf("%w: %s: status: %w", errReply, script, err)
	}
	return reply{script: script, status: status(text), values: values[1:]}, nil
}

// oneOf is the error of a reply that has another status than these, or values after it.
func (r reply) oneOf(successes ...status) error {
	if !slices.Contains(successes, r.status) {
		return r.refusal()
	}
	return r.decoder().end()
}

// refusal is the error for a status that isn't one of success.
func (r reply) refusal() error {
	switch r.status {
	case statusNoChannel:
		return channel.ErrNoChannel
	case statusNoSubscriber:
		return channel.ErrNoSubscriber
	case statusEpoch:
		return channel.ErrReceiptEpoch
	case statusAhead:
		return channel.ErrReceiptAhead
	case statusSuperseded:
		return channel.ErrReceiptSuperseded
	case statusFull:
		return matchmaking.ErrQueueFull
	case statusNoTicket:
		return matchmaking.ErrNoTicket
	case statusMatched:
		return matchmaking.ErrTicketMatched
	case statusLease:
		return matchmaking.ErrLeaseLost
	case statusLost:
		return matchmaking.ErrChangesLost
	case statusIdle:
		return matchmaking.ErrQueueIdle
	case statusUndone:
		return errUndone
	case statusLife:
		return channel.ErrLaterLife
	case statusVacant:
		return matchmaking.ErrNoTicket
	case statusOK, statusStale, statusCreated, statusExists, statusMoving, statusAgain, statusConflict, statusKept:
	}
	return outcome(fmt.Errorf("%w: %s answered %q", errReply, r.script, r.status))
}

// decoder reads values one after the other and keeps the first error.
type decoder struct {
	script string
	values []rueidis.RedisMessage
	err    error
}

func (r reply) decoder() *decoder { return &decoder{script: r.script, values: r.values} }

func (d *decoder) next() (rueidis.RedisMessage, bool) {
	if d.err != nil {
		return rueidis.RedisMessage{}, false
	}
	if len(d.values) == 0 {
		d.fail(errors.New("too few values"))
		return rueidis.RedisMessage{}, false
	}
	v := d.values[0]
	d.values = d.values[1:]
	return v, true
}

func (d *decoder) fail(err error) {
	if err != nil && d.err == nil {
		d.err = outcome(fmt.Errorf("%w: %s: %w", errReply, d.script, err))
	}
}

func (d *decoder) text() string {
	v, ok := d.next()
	if !ok {
		return ""
	}
	text, err := v.ToString()
	d.fail(err)
	return text
}

func (d *decoder) clock() clock.Clock {
	text := d.text()
	if d.err != nil {
		return 0
	}
	c, err := clock.Parse(text)
	d.fail(err)
	return c
}

func (d *decoder) epoch() ulid.ULID {
	text := d.text()
	if d.err != nil {
		return ulid.ULID{}
	}
	e, err := ulid.ParseStrict(text)
	d.fail(err)
	return e
}

func (d *decoder) int64() int64 {
	v, ok := d.next()
	if !ok {
		return 0
	}
	n, err := v.AsInt64()
	d.fail(err)
	return n
}

func (d *decoder) list() *decoder {
	v, ok := d.next()
	if !ok {
		return d
	}
	values, err := v.ToArray()
	d.fail(err)
	return &decoder{script: d.script, values: values, err: d.err}
}

// end refuses what is left, and gives the first error.
func (d *decoder) end() error {
	if len(d.values) > 0 {
		d.fail(fmt.Errorf("%d values too many", len(d.values)))
	}
	return d.err
}

func (d *decoder) bytes() []byte {
	v, ok := d.next()
	if !ok {
		return nil
	}
	b, err := v.AsBytes()
	d.fail(err)
	return b
}
