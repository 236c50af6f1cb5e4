package channels

import (
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis"
)

// The statuses of the scripts of channels, besides those that all scripts have.
const (
	statusBegun        redis.Status = "BEGUN"
	statusCreated      redis.Status = "CREATED"
	statusExists       redis.Status = "EXISTS"
	statusStale        redis.Status = "STALE"
	statusAhead        redis.Status = "AHEAD"
	statusNoSubscriber redis.Status = "NO_SUBSCRIBER"
)

var refusals = redis.Refusals{
	"NO_CHANNEL":       channel.ErrNoChannel,
	statusNoSubscriber: channel.ErrNoSubscriber,
	"EPOCH":            channel.ErrReceiptEpoch,
	statusAhead:        channel.ErrReceiptAhead,
	"SUPERSEDED":       channel.ErrReceiptSuperseded,
	"LIFE":             channel.ErrLaterLife,
	"FULL":             channel.ErrTooManySubscribers,
}

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

// mget reads as many keys of each of some channels: all with one command, or in a Cluster with one for each channel.
type mget struct {
	client rueidis.Client
	keys   []string // of all channels
	each   int      // keys of a channel
}

// of returns the keys of a channel.
func (m *mget) of(i int) []string { return m.keys[m.each*i : m.each*(i+1)] }
func (m *mget) inCluster() bool   { return m.client.Mode() == rueidis.ClientModeCluster }

// commands returns the commands that read what is left, at least.
func (m *mget) commands(left []int) rueidis.Commands {
	if !m.inCluster() {
		return rueidis.Commands{m.client.B().Mget().Key(m.keys...).Build()}
	}
	commands := make(rueidis.Commands, len(left))
	for n, i := range left {
		commands[n] = m.client.B().Mget().Key(m.of(i)...).Build()
	}
	return commands
}

// decode calls one with the values of each channel that was left, or with the error of reading them, and returns its
// errors.
func (m *mget) decode(left []int, read []rueidis.RedisResult,
	one func(int, []rueidis.RedisMessage, error) error) []error {
	errs := make([]error, len(left))
	var values, mine []rueidis.RedisMessage
	var err error
	for n, i := range left {
		if n < len(read) { // the channel's own, or the only one
			values, err = read[n].ToArray()
		}
		first := m.each * i
		if m.inCluster() {
			first = 0
		}
		if err == nil && len(values) < first+m.each {
			err = fmt.Errorf("%w: MGET returned %d values", redis.ErrReply, len(values))
		}
		if err == nil {
			mine = values[first : first+m.each]
		}
		errs[n] = one(i, mine, err)
	}
	return errs
}
