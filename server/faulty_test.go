package server_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// faultyStore is a store that can be made to fail, or to hang, before each of its calls.
type faultyStore struct {
	channel.Store
	before  atomic.Pointer[func(ctx context.Context, call string) error]
	fetched atomic.Pointer[func()] // called after each fetch
}

// fail makes all calls return err from now on; nil: they work again.
func (f *faultyStore) fail(err error) {
	f.intercept(func(context.Context, string) error { return err })
}

// intercept makes all calls call before first, with the name of their method, and return its error if it has one.
func (f *faultyStore) intercept(before func(ctx context.Context, call string) error) {
	f.before.Store(&before)
}

// onFetch calls done after each fetch from now on.
func (f *faultyStore) onFetch(done func()) { f.fetched.Store(&done) }

func (f *faultyStore) enter(ctx context.Context, call string) error {
	if before := f.before.Load(); before != nil {
		return (*before)(ctx, call)
	}
	return nil
}

func (f *faultyStore) Publish(ctx context.Context, r channel.PublishRequest) ([]channel.Published, error) {
	if err := f.enter(ctx, "Publish"); err != nil {
		return nil, err
	}
	return f.Store.Publish(ctx, r)
}

func (f *faultyStore) Fetch(ctx context.Context, r channel.FetchRequest) (channel.Batch, error) {
	if err := f.enter(ctx, "Fetch"); err != nil {
		return channel.Batch{}, err
	}
	b, err := f.Store.Fetch(ctx, r)
	if done := f.fetched.Load(); done != nil {
		(*done)()
	}
	return b, err
}

func (f *faultyStore) Ack(ctx context.Context, r channel.AckRequest) error {
	if err := f.enter(ctx, "Ack"); err != nil {
		return err
	}
	return f.Store.Ack(ctx, r)
}

func (f *faultyStore) Next(ctx context.Context, a channel.AckRequest, r channel.FetchRequest) (channel.Batch, error) {
	if err := f.enter(ctx, "Next"); err != nil {
		return channel.Batch{}, err
	}
	return f.Store.Next(ctx, a, r)
}

func (f *faultyStore) Subscribe(ctx context.Context, r channel.SubscribeRequest) (channel.Subscription, error) {
	if err := f.enter(ctx, "Subscribe"); err != nil {
		return channel.Subscription{}, err
	}
	return f.Store.Subscribe(ctx, r)
}

// faultyLookup fails with the store.
type faultyLookup struct {
	matchmaking.Lookup
	store *faultyStore
}

func (f *faultyLookup) Reserve(ctx context.Context, r matchmaking.Reservation) (matchmaking.Owner, error) {
	if err := f.store.enter(ctx, "Reserve"); err != nil {
		return matchmaking.Owner{}, err
	}
	return f.Lookup.Reserve(ctx, r)
}

func (f *faultyStore) Unsubscribe(ctx context.Context, name, subscriber string) error {
	if err := f.enter(ctx, "Unsubscribe"); err != nil {
		return err
	}
	return f.Store.Unsubscribe(ctx, name, subscriber)
}

func (f *faultyStore) Describe(ctx context.Context, r channel.DescribeRequest) (channel.Description, error) {
	if err := f.enter(ctx, "Describe"); err != nil {
		return channel.Description{}, err
	}
	return f.Store.Describe(ctx, r)
}

// logs keeps what is logged, and lets a test wait for it.
type logs struct {
	mu      sync.Mutex
	records []slog.Record
	more    chan struct{} // closed with the next record
}

func newLogs() *logs { return &logs{more: make(chan struct{})} }

func (l *logs) Enabled(context.Context, slog.Level) bool { return true }
func (l *logs) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logs) WithGroup(string) slog.Handler            { return l }

func (l *logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, r)
	close(l.more)
	l.more = make(chan struct{})
	return nil
}

// record is a log record with its attributes as text.
type record struct {
	slog.Record
	attrs map[string]string
}

// await gives the first record that match accepts, and waits for it where it isn't there yet.
func (l *logs) await(t testing.TB, match func(record) bool) record {
	t.Helper()
	for i := 0; ; {
		l.mu.Lock()
		records, more := l.records, l.more
		l.mu.Unlock()
		for ; i < len(records); i++ {
			r := record{Record: records[i], attrs: map[string]string{}}
			r.Attrs(func(a slog.Attr) bool {
				r.attrs[a.Key] = a.Value.String()
				return true
			})
			if match(r) {
				return r
			}
		}
		select {
		case <-more:
		case <-t.Context().Done():
			require.FailNow(t, "the record was not logged")
		}
	}
}

// request gives the access log's record of a request.
func (l *logs) request(t testing.TB, id string) record {
	t.Helper()
	return l.await(t, func(r record) bool { return r.Message == "request" && r.attrs["requestId"] == id })
}
