package servertest

import (
	"context"
	"sync/atomic"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// FaultyStore is a store that can be made to fail, or to block, before each call.
type FaultyStore struct {
	channel.Store
	before  atomic.Pointer[func(ctx context.Context, call string) error]
	fetched atomic.Pointer[func()] // called after each fetch
}

// Fail makes all calls return err from now on. If err is nil, they succeed again.
func (f *FaultyStore) Fail(err error) {
	f.Intercept(func(context.Context, string) error { return err })
}

// Intercept makes all calls call before first, with the name of their method, and fail if it fails.
func (f *FaultyStore) Intercept(before func(ctx context.Context, call string) error) {
	f.before.Store(&before)
}

// onFetch makes each fetch call done at its end.
func (f *FaultyStore) onFetch(done func()) { f.fetched.Store(&done) }

func (f *FaultyStore) enter(ctx context.Context, call string) error {
	if before := f.before.Load(); before != nil {
		return (*before)(ctx, call)
	}
	return nil
}

// Publish implements channel.Store.
func (f *FaultyStore) Publish(ctx context.Context, r channel.PublishRequest) ([]channel.Published, error) {
	if err := f.enter(ctx, "Publish"); err != nil {
		return nil, err
	}
	return f.Store.Publish(ctx, r)
}

// BeginPublish implements channel.Store.
func (f *FaultyStore) BeginPublish(ctx context.Context, r channel.PublishRequest,
	done func([]channel.Published, error)) bool {
	return f.before.Load() == nil && f.Store.BeginPublish(ctx, r, done)
}

// Fetch implements channel.Store.
func (f *FaultyStore) Fetch(ctx context.Context, r channel.FetchRequest) (channel.Batch, error) {
	if err := f.enter(ctx, "Fetch"); err != nil {
		return channel.Batch{}, err
	}
	b, err := f.Store.Fetch(ctx, r)
	if done := f.fetched.Load(); done != nil {
		(*done)()
	}
	return b, err
}

// Poll implements channel.Store.
func (f *FaultyStore) Poll(ctx context.Context, requests []channel.PollRequest) []channel.PollResult {
	results := make([]channel.PollResult, len(requests))
	if err := f.enter(ctx, "Poll"); err != nil {
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	results = f.Store.Poll(ctx, requests)
	if done := f.fetched.Load(); done != nil {
		(*done)()
	}
	return results
}

// Ack implements channel.Store.
func (f *FaultyStore) Ack(ctx context.Context, r channel.AckRequest) error {
	if err := f.enter(ctx, "Ack"); err != nil {
		return err
	}
	return f.Store.Ack(ctx, r)
}

// Next implements channel.Store.
func (f *FaultyStore) Next(ctx context.Context, a channel.AckRequest, r channel.FetchRequest) (channel.Batch, error) {
	if err := f.enter(ctx, "Next"); err != nil {
		return channel.Batch{}, err
	}
	return f.Store.Next(ctx, a, r)
}

// Subscribe implements channel.Store.
func (f *FaultyStore) Subscribe(ctx context.Context, r channel.SubscribeRequest) (channel.Subscription, error) {
	if err := f.enter(ctx, "Subscribe"); err != nil {
		return channel.Subscription{}, err
	}
	return f.Store.Subscribe(ctx, r)
}

// faultyLookup fails with the store.
type faultyLookup struct {
	matchmaking.Lookup
	store *FaultyStore
}

func (f *faultyLookup) Reserve(ctx context.Context, r matchmaking.Reservation) (matchmaking.Owner, error) {
	if err := f.store.enter(ctx, "Reserve"); err != nil {
		return matchmaking.Owner{}, err
	}
	return f.Lookup.Reserve(ctx, r)
}

// Unsubscribe implements channel.Store.
func (f *FaultyStore) Unsubscribe(ctx context.Context, name, subscriber string, last ulid.ULID) error {
	if err := f.enter(ctx, "Unsubscribe"); err != nil {
		return err
	}
	return f.Store.Unsubscribe(ctx, name, subscriber, last)
}

// Describe implements channel.Store.
func (f *FaultyStore) Describe(ctx context.Context, r channel.DescribeRequest) (channel.Description, error) {
	if err := f.enter(ctx, "Describe"); err != nil {
		return channel.Description{}, err
	}
	return f.Store.Describe(ctx, r)
}
