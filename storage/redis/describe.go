package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

// Describe runs describe.lua.
func (s *Store) Describe(ctx context.Context, r channel.DescribeRequest) (channel.Description, error) {
	ch := s.channel(r.Channel)
	keys := []string{ch.clock(), ch.epoch(), ch.subscribers()}
	args := []string{
		ch.messagePrefix(), ch.markPrefix(), strconv.Itoa(r.Policy.MaxMessages),
		strconv.FormatUint(uint64(r.Page.Cursor), 10), strconv.Itoa(r.Page.Limit),
	}
	rep, err := s.Run(ctx, describeScript, keys, args)
	if err != nil {
		return channel.Description{}, err
	}
	return description(rep)
}

// description decodes what describe.lua returns.
func description(r Reply) (channel.Description, error) {
	if r.Status != OK {
		return channel.Description{}, refusals.Error(r)
	}
	d := r.Decoder()
	about := channel.Description{Position: channel.Position{Epoch: epochOf(d), Clock: clockOf(d)}}
	about.TTL = time.Duration(d.Int64()) * time.Millisecond
	if steps := d.Int64(); steps >= 0 {
		about.Oldest, about.Live = about.Clock.Sub(uint64(steps)), uint64(steps)+1
	}
	about.Names, about.Next = uint64(d.Int64()), channel.Cursor(number(d))
	d.Each(func(list *Decoder) {
		sub := channel.SubscriberLag{Name: list.Text(), Mark: clockOf(list)}
		sub.Lag = clock.Distance(sub.Mark, about.Clock)
		about.Subscribers = append(about.Subscribers, sub)
	})
	slices.SortFunc(about.Subscribers, func(a, b channel.SubscriberLag) int { return cmp.Compare(a.Name, b.Name) })
	if err := d.End(); err != nil {
		return channel.Description{}, err
	}
	return about, nil
}

// Positions reads the clock and the epoch of each channel with one command, or two if its slot is being moved, all of them in
// one pipeline.
func (s *Store) Positions(ctx context.Context, names []string) []channel.PositionResult {
	results := make([]channel.PositionResult, len(names))
	left := make([]int, len(names)) // indices of the channels to read
	for i := range left {
		left[i] = i
	}
	err := s.Retry(ctx, "positions", func(ctx context.Context) error {
		commands := make(rueidis.Commands, len(left))
		for i, at := range left {
			ch := s.channel(names[at])
			commands[i] = s.Client().B().Mget().Key(ch.clock(), ch.epoch()).Build()
		}
		var again []int
		var failed error
		for i, reply := range s.Client().DoMulti(ctx, commands...) {
			at := left[i]
			var err error
			if results[at].Position, err = s.position(ctx, names[at], reply); err != nil && transient(err) {
				again, failed = append(again, at), err
			} else if err != nil && !isFault(err) {
				err = fmt.Errorf("position: %w", faultOf(err))
			}
			results[at].Err = err
		}
		left = again
		return failed
	})
	for _, at := range left {
		results[at].Err = err
	}
	return results
}

// position decodes the values of a channel's clock and epoch.
func (s *Store) position(ctx context.Context, name string, reply rueidis.RedisResult) (channel.Position, error) {
	values, err := reply.ToArray()
	switch {
	case SlotMoving(err):
		return singleReads{store: s, keys: s.channel(name)}.channelPosition(ctx)
	case err != nil:
		return channel.Position{}, err
	case len(values) != 2:
		return channel.Position{}, fmt.Errorf("%w: MGET of 2 keys returned %d values", ErrReply, len(values))
	}
	var at channel.Position
	text, err := values[0].ToString()
	if err != nil {
		return at, channel.ErrNoChannel
	}
	if at.Clock, err = clock.Parse(text); err != nil {
		return at, fmt.Errorf("%w: clock: %w", ErrReply, err)
	}
	if text, err = values[1].ToString(); err != nil {
		return at, nil // made by the predecessor: the epoch 0
	}
	if at.Epoch, err = ulid.ParseStrict(text); err != nil {
		return at, fmt.Errorf("%w: epoch: %w", ErrReply, err)
	}
	return at, nil
}
