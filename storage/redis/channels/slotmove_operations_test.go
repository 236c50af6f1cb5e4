package channels

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
)

// movingOperation is a call on a half moved channel, whose messages m1 and m2 were fetched as b. It fails the test if
// the answer is wrong.
type movingOperation struct {
	name   string
	call   func(ctx context.Context, s *Store, h halfMoved, b channel.Batch) error
	before func(t *testing.T, s *Store, h halfMoved, direct rueidis.Client) // nil: nothing more
	// after checks the state after the operation, which may have been called more than once; nil: the channel is gone.
	after func(s *Store, h halfMoved, d channel.Description) error
}

var movingOperations = []movingOperation{
	{name: "ack", call: ackAll, after: marksAre(clock.Clock(2))},
	{name: "next", call: ackFirstAndFetch, after: marksAre(clock.Clock(1))},
	{name: "resubscribe", call: subscribeAs(reader, channel.StartLatest), after: marksAre(clock.Clock(0))},
	{name: "latest", call: subscribeAs("another", channel.StartLatest), after: marksAre(clock.Clock(2), clock.Clock(0))},
	{name: "earliest", call: subscribeAs("another", channel.StartEarliest), after: marksAre(clock.Clock(0), clock.Clock(0))},
	{name: "unsubscribe", call: unsubscribeReader, after: marksAre()},
	{name: "purge", call: purgeBoth, after: marksAre(clock.Clock(0))},
	{name: "seek", call: seekLatest, after: marksAre(clock.Clock(2))},
	{name: "describe", call: describeBoth, after: marksAre(clock.Clock(0))},
	{name: "delete", call: deleteLife, before: addRareKeys},
}

func ackAll(ctx context.Context, s *Store, h halfMoved, b channel.Batch) error {
	return s.Ack(ctx, channel.AckRequest{Receipt: receiptOf(h.name, b), Policy: h.policy()})
}

func ackFirstAndFetch(ctx context.Context, s *Store, h halfMoved, b channel.Batch) error {
	b.Messages, b.Through, b.Last = b.Messages[:1], b.Messages[0].Clock, b.Messages[0].Identity()
	ack := channel.AckRequest{Receipt: receiptOf(h.name, b), Policy: h.policy()}
	next, err := s.Next(ctx, ack, h.fetch(h.name))
	if err == nil && (len(next.Messages) != 1 || next.Messages[0].ID != "m2" || next.Expired != 0 ||
		next.Through != 2) {
		return fmt.Errorf("next gave %+v", next)
	}
	return err
}

func subscribeAs(name string, start channel.Start) func(context.Context, *Store, halfMoved, channel.Batch) error {
	return func(ctx context.Context, s *Store, h halfMoved, _ channel.Batch) error {
		_, err := s.Subscribe(ctx, channel.SubscribeRequest{
			Channel: h.name, Subscriber: name, From: channel.From{Start: start}, Policy: h.policy(),
		})
		return err
	}
}

func unsubscribeReader(ctx context.Context, s *Store, h halfMoved, _ channel.Batch) error {
	return s.Unsubscribe(ctx, h.name, reader, ulid.ULID{})
}

func purgeBoth(ctx context.Context, s *Store, h halfMoved, _ channel.Batch) error {
	p, err := s.Purge(ctx, channel.PurgeRequest{Channel: h.name, Policy: h.policy()})
	if err == nil && p.Clock != 2 {
		return fmt.Errorf("purged %+v", p)
	}
	return err
}

func seekLatest(ctx context.Context, s *Store, h halfMoved, _ channel.Batch) error {
	_, err := s.Seek(ctx, channel.SeekRequest{Channel: h.name, Subscriber: reader, Policy: h.policy()})
	return err
}

// addRareKeys adds those keys of a channel without which a half moved slot refuses a deletion before its first write.
func addRareKeys(t *testing.T, s *Store, h halfMoved, direct rueidis.Client) {
	t.Helper()
	ch := s.keys(h.name)
	for key, value := range map[string]string{ch.Label(): "a label", ch.Purged(): "-1 0", ch.Deleted(): "-1"} {
		require.NoError(t, direct.Do(t.Context(), direct.B().Set().Key(key).Value(value).Build()).Error())
	}
}

func deleteLife(ctx context.Context, s *Store, h halfMoved, b channel.Batch) error {
	return s.Delete(ctx, channel.DeleteRequest{Channel: h.name, Epoch: b.Epoch, Policy: h.policy()})
}

func describeBoth(ctx context.Context, s *Store, h halfMoved, b channel.Batch) error {
	d, err := s.Describe(ctx, about(h.name, h.policy()))
	if err == nil && (d.Position != channel.Position{Epoch: b.Epoch, Clock: 2} || d.Live != 2 || d.Oldest != 1) {
		return fmt.Errorf("described as %+v", d)
	}
	if err == nil {
		return marksAre(clock.Clock(0))(s, h, d)
	}
	return err
}

// isGone expects that a channel can't be described, and that none of its keys is left.
func isGone(ctx context.Context, s *Store, h halfMoved, direct rueidis.Client, err error) error {
	if !errors.Is(err, channel.ErrNoChannel) {
		return fmt.Errorf("the channel is there: %w", err)
	}
	remaining, err := direct.Do(ctx, direct.B().Exists().Key(h.parts(s, h.name)...).Build()).AsInt64()
	if err == nil && remaining > 0 {
		err = fmt.Errorf("%d keys are left", remaining)
	}
	return err
}

// marksAre expects the marks of the subscribers, by their names.
func marksAre(want ...clock.Clock) func(*Store, halfMoved, channel.Description) error {
	return func(_ *Store, _ halfMoved, d channel.Description) error {
		if len(d.Subscribers) != len(want) {
			return fmt.Errorf("subscribers are %+v", d.Subscribers)
		}
		for i, sub := range d.Subscribers {
			if sub.Mark != want[i] {
				return fmt.Errorf("subscribers are %+v", d.Subscribers)
			}
		}
		return nil
	}
}

// Operations on a half moved slot succeed or are refused for now, whichever keys have moved. Refused operations succeed
// when the slot has closed, and none takes effect twice.
func otherOperations(t *testing.T, c storetest.TwoNodes) {
	t.Helper()
	s := openOn(t, c, redis.Options{})
	for _, op := range movingOperations {
		all := everySubset(c, s, op.name, map[string]lore{"two messages": {messages: 2},
			"as many as it keeps": {messages: 2, keeps: 2}})
		before := map[string]channel.Batch{}
		for _, h := range all {
			h.make(t, s, c.Direct, h.name)
			before[h.name] = fetchOnce(t, s, h)
			if op.before != nil {
				op.before(t, s, h, c.Direct)
			}
		}
		m := c.OpenMove(t, op.name)
		for _, h := range all {
			h.move(t, s, m.MoveKey)
		}
		ctx, answered := storetest.Shortly(t), 0
		for i, err := range storetest.AtOnce(all,
			func(h halfMoved) error { return op.call(ctx, s, h, before[h.name]) }) {
			if err == nil {
				answered++
				continue
			}
			storetest.RequireUnavailable(t, err, op.name+": "+all[i].about)
		}
		t.Logf("%s: %d of %d were answered", op.name, answered, len(all))
		m.CloseSlot(t)
		for i, err := range storetest.AtOnce(all, func(h halfMoved) error {
			if err := op.call(t.Context(), s, h, before[h.name]); err != nil {
				return err
			}
			d, err := s.Describe(t.Context(), about(h.name, h.policy()))
			if op.after == nil {
				return isGone(t.Context(), s, h, c.Direct, err)
			}
			return errors.Join(err, op.after(s, h, d))
		}) {
			require.NoError(t, err, op.name+": "+all[i].about)
		}
	}
}
