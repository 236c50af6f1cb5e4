package shards_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/shardtest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		shardtest.Run(t, func(t testing.TB) shardtest.Harness { return open(t, r.URL) })
	})
}

// harness is a store with a key prefix of its own.
type harness struct {
	store  *shards.Store
	client rueidis.Client
	prefix string
}

func open(t testing.TB, url string) *harness {
	t.Helper()
	prefix := redistest.Prefix(t)
	conn := storetest.Connect(t, redis.Options{URL: url, KeyPrefix: prefix})
	return &harness{store: shards.New(conn), client: conn.Client(), prefix: prefix}
}

func (h *harness) Store() shardtest.Store { return h.store }

// key spells a key of docs/redis/shards.md out, so that it doesn't repeat a mistake of the store.
func (h *harness) key(cache, what string) string { return h.prefix + "sc.{" + cache + "}." + what }

// Lose records another primary than the current one, and removes the claim of a host.
func (h *harness) Lose(ctx context.Context, cache, dc, host string) error {
	return errors.Join(
		h.client.Do(ctx, h.client.B().Hset().Key(h.key(cache, "layout."+dc)).FieldValue().FieldValue("run",
			"another").Build()).Error(),
		h.client.Do(ctx, h.client.B().Hdel().Key(h.key(cache, "shards."+dc)).Field(host).Build()).Error(),
	)
}

// Clear removes the keys of a cache.
func (h *harness) Clear(ctx context.Context, cache string) error {
	keys := []string{h.key(cache, "dcs")}
	for _, dc := range []string{"a", "b"} {
		keys = append(keys, h.key(cache, "layout."+dc), h.key(cache, "shards."+dc))
	}
	return h.client.Do(ctx, h.client.B().Del().Key(keys...).Build()).Error()
}

// Pass moves the end and the last ping of each holder, and the time when a change of the primary was detected, into the
// past.
func (h *harness) Pass(ctx context.Context, cache, dc string, d time.Duration) error {
	key := h.key(cache, "shards."+dc)
	layout := h.key(cache, "layout."+dc)
	since, err := h.client.Do(ctx, h.client.B().Hget().Key(layout).Field("since").Build()).AsInt64()
	if err == nil && since > 0 {
		err = h.client.Do(ctx, h.client.B().Hincrby().Key(layout).Field("since").Increment(
			-d.Milliseconds()).Build()).Error()
	}
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	holders, err := h.client.Do(ctx, h.client.B().Hgetall().Key(key).Build()).AsStrMap()
	if err != nil || len(holders) == 0 {
		return err
	}
	set := h.client.B().Hset().Key(key).FieldValue()
	for host, value := range holders {
		parts := strings.SplitN(value, " ", 3)
		for i, part := range parts[:2] {
			ms, err := strconv.ParseInt(part, 10, 64)
			if err != nil {
				return fmt.Errorf("%s: %w", host, err)
			}
			if ms > 0 {
				parts[i] = strconv.FormatInt(ms-d.Milliseconds(), 10)
			}
		}
		set = set.FieldValue(host, strings.Join(parts, " "))
	}
	return h.client.Do(ctx, set.Build()).Error()
}
