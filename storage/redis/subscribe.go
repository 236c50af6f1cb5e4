package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
)

// Subscribe runs subscribe.lua.
func (s *Store) Subscribe(ctx context.Context, r channel.SubscribeRequest) (channel.Subscription, error) {
	ch := s.channel(r.Channel)
	args := []string{
		r.Subscriber, fromText(r.From), ch.messagePrefix(), ch.markPrefix(), ttlMillis(r.Policy),
		ulid.Make().String(), strconv.Itoa(r.Policy.MaxMessages),
	}
	rep, err := s.exec(ctx, subscribeScript, ch.forSubscriber(r.Subscriber), args)
	if err != nil {
		return channel.Subscription{}, err
	}
	return rep.subscription()
}

// subscription decodes what subscribe.lua returns.
func (r reply) subscription() (channel.Subscription, error) {
	switch r.status {
	case statusCreated, statusExists:
	case statusAhead:
		return channel.Subscription{}, channel.ErrClockAhead
	default:
		return channel.Subscription{}, r.refusal()
	}
	d := r.decoder()
	at := channel.Position{Epoch: d.epoch(), Clock: d.clock()}
	if err := d.end(); err != nil {
		return channel.Subscription{}, err
	}
	return channel.Subscription{Created: r.status == statusCreated, Position: at}, nil
}

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
func (s *Store) Unsubscribe(ctx context.Context, name, subscriber string) error {
	ch := s.channel(name)
	rep, err := s.exec(ctx, unsubscribeScript, ch.forSubscriber(subscriber), []string{subscriber, ch.topic()})
	if err != nil {
		return err
	}
	return rep.oneOf(statusOK, statusNoSubscriber)
}
