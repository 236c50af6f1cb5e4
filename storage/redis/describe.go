package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

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

// Position reads a channel's clock and epoch with one command, or two where the channel's slot is half moved.
func (s *Store) Position(ctx context.Context, name string) (channel.Position, error) {
	ch := s.channel(name)
	var at channel.Position
	err := s.Retry(ctx, "position", func(ctx context.Context) error {
		found, err := s.Client().Do(ctx, s.Client().B().Mget().Key(ch.clock(), ch.epoch()).Build()).ToArray()
		if SlotMoving(err) {
			at, err = singleReads{store: s, keys: ch}.channelPosition(ctx)
			return err
		}
		if err != nil {
			return err
		}
		if len(found) != 2 {
			return fmt.Errorf("%w: MGET of 2 keys gave %d values", ErrReply, len(found))
		}
		at, err = parsePosition(found[0].ToString, found[1].ToString)
		return err
	})
	return at, err
}

func parsePosition(clockText, epochText func() (string, error)) (channel.Position, error) {
	var at channel.Position
	text, err := clockText()
	if err != nil {
		return at, channel.ErrNoChannel
	}
	if at.Clock, err = clock.Parse(text); err != nil {
		return at, fmt.Errorf("%w: clock: %w", ErrReply, err)
	}
	if text, err = epochText(); err != nil {
		return at, nil // made by the predecessor: the epoch 0
	}
	if at.Epoch, err = ulid.ParseStrict(text); err != nil {
		return at, fmt.Errorf("%w: epoch: %w", ErrReply, err)
	}
	return at, nil
}
