package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// durable makes a private server keep everything over a restart.
var durable = redistest.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}}

// call is an operation of a store that a test makes while something is wrong.
type call struct {
	name string
	do   func(ctx context.Context) error
}

// calls gives all operations on a channel that lore.make made, with one message at least. Each can be made again.
func calls(t *testing.T, s *Store, name string) []call {
	t.Helper()
	l := lore{}
	b, err := s.Fetch(t.Context(), l.fetch(name))
	require.NoError(t, err)
	ack := channel.AckRequest{Receipt: receiptOf(name, b), Policy: l.policy()}
	batch := one(name, "b1")
	batch.Drafts = drafted("b1", "b2", "b3")
	return []call{
		{"publish", func(ctx context.Context) error { return second(s.Publish(ctx, one(name, "p1"))) }},
		{"publish a batch", func(ctx context.Context) error { return second(s.Publish(ctx, batch)) }},
		{"fetch", func(ctx context.Context) error { return second(s.Fetch(ctx, l.fetch(name))) }},
		{"ack", func(ctx context.Context) error { return s.Ack(ctx, ack) }},
		{"next", func(ctx context.Context) error { return second(s.Next(ctx, ack, l.fetch(name))) }},
		{"subscribe", func(ctx context.Context) error {
			return second(s.Subscribe(ctx, channel.SubscribeRequest{Channel: name, Subscriber: "another", Policy: l.policy()}))
		}},
		{"unsubscribe", func(ctx context.Context) error { return s.Unsubscribe(ctx, name, "another") }},
		{"describe", func(ctx context.Context) error { return second(s.Describe(ctx, about(name, l.policy()))) }},
		{"position", func(ctx context.Context) error { return second(s.Position(ctx, name)) }},
		{"ready", s.Ready},
		{"inspect", func(ctx context.Context) error { return second(s.Inspect(ctx)) }},
		{"receipt key", func(ctx context.Context) error { return second(s.ReceiptKeys(ctx)) }},
	}
}

func second[T any](_ T, err error) error { return err }

// only gives some of the calls.
func only(all []call, names ...string) []call {
	return slices.DeleteFunc(slices.Clone(all), func(c call) bool { return !slices.Contains(names, c.name) })
}

// allBut gives the others.
func allBut(all []call, names ...string) []call {
	return slices.DeleteFunc(slices.Clone(all), func(c call) bool { return slices.Contains(names, c.name) })
}

// requireEach makes all calls at the same time and expects something of each error.
func requireEach(ctx context.Context, t *testing.T, all []call, expect func(t testing.TB, err error, about ...any)) {
	t.Helper()
	errs := make([]error, len(all))
	var g errgroup.Group
	for i, c := range all {
		g.Go(func() error {
			errs[i] = c.do(ctx)
			return nil
		})
	}
	_ = g.Wait()
	for i, c := range all {
		expect(t, errs[i], c.name)
	}
}

func requireFine(t testing.TB, err error, about ...any) {
	t.Helper()
	require.NoError(t, err, about...)
}

func requireFull(t testing.TB, err error, about ...any) {
	t.Helper()
	require.ErrorIs(t, err, fault.ErrStorageFull, about...)
}

// dumpOf gives each key of a server with its contents and its end.
func dumpOf(t *testing.T, n *redistest.Node) map[string]string {
	t.Helper()
	keys, err := n.Do(t, "KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	found := map[string]string{}
	for _, key := range keys {
		value, err := n.Do(t, "DUMP", key).ToString()
		require.NoError(t, err)
		ends, err := n.Do(t, "PEXPIRETIME", key).AsInt64()
		require.NoError(t, err)
		found[key] = fmt.Sprintf("%q until %d", value, ends)
	}
	return found
}

// set changes a server's configuration.
func set(t *testing.T, n *redistest.Node, parameter, value string) {
	t.Helper()
	require.NoError(t, n.Do(t, "CONFIG", "SET", parameter, value).Error())
}

// publishAll publishes messages one after the other under their own IDs. Each must succeed, and none is a duplicate, also
// where the answer of its first try was lost. told is called after each.
func publishAll(ctx context.Context, s *Store, name, first string, n int, told func()) error {
	for i := range n {
		id := first + strconv.Itoa(i)
		published, err := s.Publish(ctx, one(name, id))
		if err != nil {
			return err
		}
		if p := published[0]; p.ID != id || p.Clock < 1 || p.Duplicate {
			return fmt.Errorf("%s was published as %+v", id, p)
		}
		told()
	}
	return nil
}

// requireWhole expects a channel to hold n messages from clock 1 on, without a hole, each ID once, and dedup records
// that agree.
func requireWhole(t *testing.T, s *Store, direct rueidis.Client, name string, n int) {
	t.Helper()
	ch := s.channel(name)
	get := func(key string) string {
		value, err := direct.Do(t.Context(), direct.B().Get().Key(key).Build()).ToString()
		require.NoError(t, err, key)
		return value
	}
	require.Equal(t, strconv.Itoa(n), get(ch.clock()))
	seen := map[string]bool{}
	for at := clock.Clock(1); at <= clock.Clock(n); at++ {
		m, err := parseEnvelope([]byte(get(ch.message(at))), at)
		require.NoError(t, err)
		require.False(t, seen[m.ID], m.ID)
		seen[m.ID] = true
		require.Equal(t, at.String(), get(ch.messageID(m.ID)))
	}
}

// about asks for a channel and the first page of its subscribers.
func about(name string, p channel.Policy) channel.DescribeRequest {
	return channel.DescribeRequest{Channel: name, Page: channel.Page{Limit: channel.DefaultPage}, Policy: p}
}

// Position reads one channel's position.
func (s *Store) Position(ctx context.Context, name string) (channel.Position, error) {
	r := s.Positions(ctx, []string{name})[0]
	return r.Position, r.Err
}
