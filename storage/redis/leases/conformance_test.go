package leases_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/managed"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
	"github.com/tidemark-dev/tidemark/storage/storagetest/leasetest"
)

func TestConformanceStandalone(t *testing.T) {
	t.Parallel()
	conform(t, redistest.Standalone(t).URL())
}

func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	conform(t, strings.Join(redistest.Cluster(t).Addrs(), ","))
}

// TestConformanceValkey has nothing to run if this machine has no valkey-server.
func TestConformanceValkey(t *testing.T) {
	t.Parallel()
	node, ok := redistest.Valkey(t)
	if !ok {
		t.Log("no valkey-server on PATH: the store was not tried on Valkey")
		return
	}
	conform(t, node.URL())
}

// TestConformanceManaged uses what a bare `tidemark serve` uses.
func TestConformanceManaged(t *testing.T) {
	t.Parallel()
	server, err := managed.Open(managed.Options{DataDir: t.TempDir()})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	require.NoError(t, server.Ready(t.Context()))
	conform(t, server.Address())
}

func conform(t *testing.T, url string) {
	t.Helper()
	leasetest.Run(t, func(t testing.TB) leasetest.Harness {
		t.Helper()
		return open(t, url)
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
	conn, err := redis.Connect(t.Context(), redis.Options{URL: url, KeyPrefix: prefix, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return &harness{store: leases.New(conn), client: conn.Client(), prefix: prefix}
}

func (h *harness) Store() lease.Store { return h.store }

// key spells the key of docs/redis-internals.md out, so that it doesn't follow a mistake of the store.
func (h *harness) key(name string) string { return h.prefix + "lease.{" + name + "}.holder" }

func (h *harness) Forget(ctx context.Context, name string) error {
	if err := h.client.Do(ctx, h.client.B().Del().Key(h.key(name)).Build()).Error(); err != nil {
		return fmt.Errorf("forget %s: %w", name, err)
	}
	return nil
}
