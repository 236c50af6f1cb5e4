package channels

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// calls returns all operations on a channel of lore.make, with at least one message. Each can be repeated.
func calls(t *testing.T, s *Store, name string) []storetest.Call {
	t.Helper()
	l := lore{}
	b, err := s.Fetch(t.Context(), l.fetch(name))
	require.NoError(t, err)
	ack := channel.AckRequest{Receipt: receiptOf(name, b), Policy: l.policy()}
	batch := publishOf(name, "b1")
	batch.Drafts = drafted("b1", "b2", "b3")
	return []storetest.Call{
		{Name: "publish",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf(s.Publish(ctx, publishOf(name, "p1"))) }},
		{Name: "publish a batch",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf(s.Publish(ctx, batch)) }},
		{Name: "fetch",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf(s.Fetch(ctx, l.fetch(name))) }},
		{Name: "ack", Do: func(ctx context.Context) error { return s.Ack(ctx, ack) }},
		{Name: "next",
			Do: func(ctx context.Context) error { return storagetest.ErrorOf(s.Next(ctx, ack, l.fetch(name))) }},
		{Name: "poll", Do: func(ctx context.Context) error {
			return pollOne(ctx, s, channel.PollRequest{FetchRequest: l.fetch(name)})
		}},
		{Name: "poll and ack", Do: func(ctx context.Context) error {
			return pollOne(ctx, s, channel.PollRequest{FetchRequest: l.fetch(name), Receipt: &ack.Receipt})
		}},
		{Name: "fetch together", Do: func(ctx context.Context) error {
			return s.FetchEach(ctx, []channel.FetchRequest{l.fetch(name)})[0].Err
		}},
		{Name: "subscribe", Do: func(ctx context.Context) error {
			return storagetest.ErrorOf(s.Subscribe(ctx, channel.SubscribeRequest{Channel: name, Subscriber: "another",
				Policy: l.policy()}))
		}},
		{Name: "unsubscribe", Do: func(ctx context.Context) error {
			return s.Unsubscribe(ctx, name, "another",
				ulid.ULID{})
		}},
		{Name: "describe",
			Do: func(ctx context.Context) error {
				return storagetest.ErrorOf(s.Describe(ctx, about(name, l.policy())))
			}},
		{Name: "position", Do: func(ctx context.Context) error { return storagetest.ErrorOf(s.Position(ctx, name)) }},
		{Name: "ready", Do: s.conn.Ready},
		{Name: "inspect", Do: func(ctx context.Context) error { return storagetest.ErrorOf(s.conn.Inspect(ctx)) }},
		{Name: "receipt key", Do: func(ctx context.Context) error { return storagetest.ErrorOf(s.ReceiptKeys(ctx)) }},
	}
}

func pollOne(ctx context.Context, s *Store, r channel.PollRequest) error {
	return s.Poll(ctx, []channel.PollRequest{r})[0].Err
}

// publishAll publishes messages one after the other under their own IDs. Each must succeed and must not be a duplicate,
// even if the answer of its first try was lost. told is called after each.
func publishAll(ctx context.Context, s *Store, name, first string, n int, answered func()) error {
	for i := range n {
		id := first + strconv.Itoa(i)
		published, err := s.Publish(ctx, publishOf(name, id))
		if err != nil {
			return err
		}
		if p := published[0]; p.ID != id || p.Clock < 1 || p.Duplicate {
			return fmt.Errorf("%s was published as %+v", id, p)
		}
		answered()
	}
	return nil
}

// requireWhole expects a channel to hold n messages from clock 1 on, without a hole, each ID once, and dedup records
// that agree.
func requireWhole(t *testing.T, s *Store, direct rueidis.Client, name string, n int) {
	t.Helper()
	ch := s.keys(name)
	get := func(key string) string {
		value, err := direct.Do(t.Context(), direct.B().Get().Key(key).Build()).ToString()
		require.NoError(t, err, key)
		return value
	}
	require.Equal(t, strconv.Itoa(n), get(ch.Clock()))
	seen := map[string]bool{}
	for at := clock.Clock(1); at <= clock.Clock(n); at++ {
		m, err := parseEnvelope([]byte(get(ch.Message(at))), at)
		require.NoError(t, err)
		require.False(t, seen[m.ID], m.ID)
		seen[m.ID] = true
		require.Equal(t, at.String(), get(ch.MessageID(m.ID)))
	}
}

// about describes a channel, with the first page of its subscribers.
func about(name string, p channel.Policy) channel.DescribeRequest {
	return channel.DescribeRequest{Channel: name, Page: channel.Page{Limit: channel.DefaultPage}, Policy: p}
}

// Position reads one channel's position.
func (s *Store) Position(ctx context.Context, name string) (channel.Position, error) {
	r := s.Positions(ctx, []string{name})[0]
	return r.Position, r.Err
}
