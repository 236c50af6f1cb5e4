package channels

import (
	"context"
	"fmt"
	"strconv"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var (
	subscribeScript   = lua.Must("channels/subscribe")
	unsubscribeScript = lua.Must("channels/unsubscribe")
)

// Subscribe runs subscribe.lua.
func (s *Store) Subscribe(ctx context.Context, r channel.SubscribeRequest) (channel.Subscription, error) {
	ch, create, epoch := s.keys(r.Channel), "1", id.New()
	if r.Existing {
		create = "0"
	}
	if r.ExistingChannel {
		epoch = ""
	}
	args := []string{
		r.Subscriber, fromText(r.From), ch.MessagePrefix(), ch.MarkPrefix(), ttlMillis(r.Policy), create, epoch,
		strconv.Itoa(r.Policy.MaxMessages), strconv.Itoa(r.Policy.MaxSubscribers), ch.Deleted(),
	}
	rep, err := s.conn.Run(ctx, subscribeScript, ch.ForSubscriber(r.Subscriber), args)
	if err != nil {
		return channel.Subscription{}, err
	}
	return subscription(rep)
}

// subscription decodes the reply of subscribe.lua.
func subscription(r redis.Reply) (channel.Subscription, error) {
	switch r.Status {
	case statusBegun, statusCreated, statusExists:
	case statusAhead:
		return channel.Subscription{}, channel.ErrClockAhead
	default:
		return channel.Subscription{}, refusals.Error(r)
	}
	d := r.Decoder()
	at := channel.Position{Epoch: d.ULID(), Clock: clockOf(d)}
	if err := d.End(); err != nil {
		return channel.Subscription{}, err
	}
	return channel.Subscription{Created: r.Status != statusExists, Begun: r.Status == statusBegun, Position: at}, nil
}

// fromText returns the argument of scripts for where a mark or a tail begins.
func fromText(f channel.From) string {
	switch f.Start {
	case channel.StartLatest:
		return "latest"
	case channel.StartEarliest:
		return "earliest"
	case channel.StartAt:
		return f.Clock.String()
	}
	panic(fmt.Sprintf("channel.Start %d is not known", f.Start))
}

// Unsubscribe runs unsubscribe.lua.
func (s *Store) Unsubscribe(ctx context.Context, name, subscriber string, last ulid.ULID) error {
	ch, epoch := s.keys(name), ""
	defer s.ttls.remove(ch.Mark(subscriber))
	if !last.IsZero() {
		epoch = last.String()
	}
	rep, err := s.conn.Run(ctx, unsubscribeScript, ch.ForSubscriber(subscriber),
		[]string{subscriber, ch.Topic(), epoch})
	if err != nil {
		return err
	}
	return refusals.Check(rep, redis.OK, statusNoSubscriber)
}
