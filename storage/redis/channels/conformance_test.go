package channels_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/channeltest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		open := func(t testing.TB) *harness {
			t.Helper()
			prefix := redistest.Prefix(t)
			conn := storetest.Connect(t, redis.Options{URL: r.URL, KeyPrefix: prefix})
			store, err := channels.New(conn, channels.Options{})
			require.NoError(t, err)
			t.Cleanup(store.Close)
			return &harness{store: store, lookup: queues.NewLookup(conn), client: r.Client, prefix: prefix}
		}
		channeltest.Run(t, func(t testing.TB) channeltest.Harness { return open(t) })
		t.Run("lookup", func(t *testing.T) {
			t.Parallel()
			channeltest.RunLookup(t, func(t testing.TB) channeltest.LookupHarness { return open(t) })
		})
	})
}

// harness accesses the data of a store by the keys of docs/redis/channels.md. It builds the keys itself, so that
// mistakes of the store are found.
type harness struct {
	store  *channels.Store
	lookup *queues.Lookup
	client rueidis.Client
	prefix string
}

func (h *harness) Store() channel.Store { return h.store }

func (h *harness) Lookup() matchmaking.Lookup { return h.lookup }

// do times out if Redis doesn't answer, so that a case fails instead of hanging.
func (h *harness) do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return h.client.Do(ctx, command)
}

func (h *harness) key(channel string, p channeltest.Part) string {
	base := h.prefix + "c.{" + channel + "}."
	switch p.Kind {
	case channeltest.PartClock:
		return base + "clock"
	case channeltest.PartEpoch:
		return base + "epoch"
	case channeltest.PartSubscribers:
		return base + "subs"
	case channeltest.PartMark:
		return base + "r." + p.Subscriber
	case channeltest.PartMessage:
		return base + "m." + p.Clock.String()
	case channeltest.PartRecord:
		return base + "mid." + p.ID
	case channeltest.PartPurged:
		return base + "purged"
	case channeltest.PartDeleted:
		return base + "deleted"
	case channeltest.PartProducers:
		return base + "producers"
	}
	panic(fmt.Sprintf("a part of kind %d", p.Kind))
}

func (h *harness) SetClock(ctx context.Context, channel string, c clock.Clock) error {
	key := h.key(channel, channeltest.Part{Kind: channeltest.PartClock})
	err := h.do(ctx, h.client.B().Set().Key(key).Value(c.String()).Xx().Keepttl().Build()).Error()
	if err != nil {
		return fmt.Errorf("set %s: %w", key, err)
	}
	return nil
}

// deleteAll deletes all keys of a channel. They are in one slot, and so is the script.
const deleteAll = `for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end return 0`

func (h *harness) Expire(ctx context.Context, channel string, parts ...channeltest.Part) error {
	b := h.client.B()
	if len(parts) == 0 {
		key := h.key(channel, channeltest.Part{Kind: channeltest.PartClock})
		pattern := h.prefix + "c.{" + channel + "}*"
		return h.do(ctx, b.Eval().Script(deleteAll).Numkeys(1).Key(key).Arg(pattern).Build()).Error()
	}
	keys := make([]string, len(parts))
	for i, p := range parts {
		keys[i] = h.key(channel, p)
	}
	return h.do(ctx, b.Del().Key(keys...).Build()).Error()
}

func (h *harness) Life(ctx context.Context, channel string, p channeltest.Part) (time.Duration, error) {
	key := h.key(channel, p)
	ms, err := h.do(ctx, h.client.B().Pttl().Key(key).Build()).AsInt64()
	switch {
	case err != nil:
		return 0, fmt.Errorf("read the TTL of %s: %w", key, err)
	case ms == -1:
		return 0, fmt.Errorf("%s has no TTL", key)
	case ms == -2:
		return 0, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func (h *harness) SetLife(ctx context.Context, channel string, p channeltest.Part, life time.Duration) error {
	key := h.key(channel, p)
	set, err := h.do(ctx, h.client.B().Pexpire().Key(key).Milliseconds(life.Milliseconds()).Build()).AsBool()
	if err == nil && !set {
		err = errors.New("no such key")
	}
	if err != nil {
		return fmt.Errorf("set the TTL of %s: %w", key, err)
	}
	return nil
}
