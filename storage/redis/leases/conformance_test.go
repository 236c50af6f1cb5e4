package leases_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/leasetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		leasetest.Run(t, func(t testing.TB) leasetest.Harness { return open(t, r.URL) })
	})
}

// harness is a store with a key prefix of its own.
type harness struct {
	store  *leases.Store
	client rueidis.Client
	prefix string
}

func open(t testing.TB, url string) *harness {
	t.Helper()
	prefix := redistest.Prefix(t)
	conn := storetest.Connect(t, redis.Options{URL: url, KeyPrefix: prefix})
	return &harness{store: leases.New(conn), client: conn.Client(), prefix: prefix}
}

func (h *harness) Store() lease.Store { return h.store }

// key spells the key of docs/redis/leases.md out, so that it doesn't follow a mistake of the store.
func (h *harness) key(name string) string { return h.prefix + "lease.{" + name + "}.holder" }

func (h *harness) Forget(ctx context.Context, name string) error {
	if err := h.client.Do(ctx, h.client.B().Del().Key(h.key(name)).Build()).Error(); err != nil {
		return fmt.Errorf("forget %s: %w", name, err)
	}
	return nil
}
