package channels

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var describeScript = lua.Must("channels/describe")

// Describe runs describe.lua.
func (s *Store) Describe(ctx context.Context, r channel.DescribeRequest) (channel.Description, error) {
	result := s.DescribeMany(ctx, []channel.DescribeRequest{r})[0]
	return result.Description, result.Err
}

// DescribeMany runs describe.lua for each channel.
func (s *Store) DescribeMany(ctx context.Context, rs []channel.DescribeRequest) []channel.DescribeResult {
	calls := make([]redis.Call, len(rs))
	for i, r := range rs {
		calls[i] = s.describing(r)
	}
	results := make([]channel.DescribeResult, len(rs))
	for i, r := range s.conn.RunMany(ctx, describeScript, calls) {
		if results[i].Err = r.Err; r.Err == nil {
			results[i].Description, results[i].Err = description(r.Reply)
		}
	}
	return results
}

// describing returns a call of describe.lua.
func (s *Store) describing(r channel.DescribeRequest) redis.Call {
	ch := s.keys(r.Channel)
	return redis.Call{Keys: []string{ch.Clock(), ch.Epoch(), ch.Subscribers()}, Args: []string{
		ch.MessagePrefix(), ch.MarkPrefix(), strconv.Itoa(r.Policy.MaxMessages),
		strconv.FormatUint(uint64(r.Page.Cursor), 10), strconv.Itoa(r.Page.Limit),
	}}
}

// description decodes the reply of describe.lua.
func description(r redis.Reply) (channel.Description, error) {
	if r.Status != redis.OK {
		return channel.Description{}, refusals.Error(r)
	}
	d := r.Decoder()
	about := channel.Description{Life: lifeOf(d)}
	about.Clock = clockOf(d)
	about.Remaining = time.Duration(d.Int64()) * time.Millisecond
	if steps := d.Int64(); steps >= 0 {
		about.Oldest, about.Live = about.Clock.Sub(uint64(steps)), uint64(steps)+1
	}
	about.Names, about.Next = uint64(d.Int64()), channel.Cursor(number(d))
	d.Each(func(list *redis.Decoder) {
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

// Positions reads the clock and the epoch of each channel: see mget. While a slot is being moved, it reads key by key.
func (s *Store) Positions(ctx context.Context, names []string) []channel.PositionResult {
	results := make([]channel.PositionResult, len(names))
	reads := mget{client: s.conn.Client(), keys: make([]string, 0, 2*len(names)), each: 2}
	for _, name := range names {
		reads.keys = append(reads.keys, s.positionKeys(name)...)
	}
	errs := s.conn.RetryEach(ctx, "positions", len(names), func(ctx context.Context, pending []int) []error {
		read := reads.client.DoMulti(ctx, reads.commands(pending)...)
		return reads.decode(pending, read, func(i int, values []rueidis.RedisMessage, err error) error {
			if refusal.Is(err, refusal.TryAgain) {
				var life channel.Life
				life, err = singleReads{store: s, keys: s.keys(names[i])}.channelLife(ctx)
				results[i].Position = life.Position
			} else if err == nil {
				var life channel.Life
				life, err = lifeIn(values)
				results[i].Position = life.Position
			}
			return err
		})
	})
	for i, err := range errs {
		results[i].Err = err
	}
	return results
}
