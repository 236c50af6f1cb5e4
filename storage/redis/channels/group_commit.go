package channels

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/group"
)

// Concurrent publishes of one message each share calls of publish.lua, which then advances the channel's clock and
// checks its expiry once for all of them. A channel has a few such calls in progress, each of the first with one
// publish, and publishes that arrive meanwhile go together in the next call. Publishes of BeginPublish, of which each
// client sends many, have fewer calls in progress, so that more share each. Publishes to other channels don't wait for
// them.
//
// A call that fails is not repeated: each of its publishes goes on alone, as if its own first attempt had failed. So a
// duplicate is answered also while the slot is half moved and Redis refuses the new messages in the same call.
//
// Batches, which are one call already, messages for one life of a channel, and publishes that wait for replicas, close
// the channel or have an order don't share calls.

// Limits of a call of a group, for which Redis needs about three milliseconds.
const (
	groupCalls    = 4 // in progress, before publishes wait; fewer would make those of many channels wait for little
	groupMessages = 256
	groupBytes    = 256 << 10
)

// terms are what the publishes of a shared call have in common.
type terms struct {
	channel         string
	ttl             time.Duration
	maxMessages     int
	plain, existing bool
}

// sharable reports whether a publish can share a call.
func sharable(r *channel.PublishRequest) bool {
	return len(r.Drafts) == 1 && r.Policy.Replicas == 0 && r.Epoch.IsZero() && r.Subscriber == "" && !r.Close &&
		r.Order == ""
}

func termsOf(r *channel.PublishRequest) terms {
	return terms{channel: r.Channel, ttl: r.Policy.TTL, maxMessages: r.Policy.MaxMessages, plain: r.Policy.Plain,
		existing: r.Existing}
}

// newGroupCommit returns the group of publishes that share calls, with a number of calls for a channel in progress.
func (s *Store) newGroupCommit(calls int) *group.Group[terms, message, reply] {
	return group.New(group.Options[terms, message, reply]{
		Run: s.commitGroup, Calls: calls, Size: message.size, Items: groupMessages, Bytes: groupBytes,
		Limit: s.conn.Timeout(),
	})
}

// size returns the approximate number of bytes of a message's arguments.
func (m message) size() int { return len(m.head) + len(m.id) + 100 }

// commitGroup publishes messages, each as a publish of its own, and returns the reply to each. Callers may have left
// meanwhile, and use the memory of their contents for something else.
func (s *Store) commitGroup(ctx context.Context, t terms, messages []message) ([]reply, time.Duration, error) {
	var o options
	for i := range messages {
		if messages[i].producer.ID != "" {
			o.Producers = producersOf(messages)
			break
		}
	}
	keys, args := s.publishCall(&channel.PublishRequest{
		Channel: t.channel, Existing: t.existing,
		Policy: channel.Policy{TTL: t.ttl, MaxMessages: t.maxMessages, Plain: t.plain},
	}, messages, true, &o)
	ctx, span := tracing.Shared(ctx, "redis publish together", len(messages),
		func(i int) string { return messages[i].trace })
	defer span.End()
	all, err := s.conn.Try(ctx, publishScript, keys, args)
	if err != nil {
		return nil, 0, err
	}
	replies := make([]reply, len(messages))
	for i := range replies {
		replies[i] = reply{all, i, len(messages)}
	}
	return replies, 0, nil
}
