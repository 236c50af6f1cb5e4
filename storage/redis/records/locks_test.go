package records_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/lease"
	domain "github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
	"github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/storagetest"
	"github.com/tidemark-dev/tidemark/storage/storagetest/leasetest"
)

type locksHarness struct {
	*leases.Store
	conn *redis.Conn
}

func open(t testing.TB, url string) *locksHarness {
	t.Helper()
	conn, err := redis.Connect(t.Context(), redis.Options{URL: url, KeyPrefix: redistest.Prefix(t),
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return &locksHarness{Store: records.NewLocks(conn), conn: conn}
}

// TestLocksConformance: locks follow all rules of leases, with the keys of the source.
func TestLocksConformance(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		leasetest.Run(t, func(t testing.TB) leasetest.Harness { return suite{open(t, r.URL)} })
		t.Run("what a lock is shown as", func(t *testing.T) {
			t.Parallel()
			show(t, open(t, r.URL))
		})
	})
}

// suite is a harness for the suite.
type suite struct{ *locksHarness }

func (s suite) Store() lease.Store { return s.locksHarness.Store }

func (s suite) Forget(ctx context.Context, name string) error {
	c := s.conn.Client()
	if err := c.Do(ctx, c.B().Del().Key(s.conn.Prefix()+name).Build()).Error(); err != nil {
		return fmt.Errorf("forget %s: %w", name, err)
	}
	return nil
}

func show(t *testing.T, h *locksHarness) {
	t.Helper()
	ctx, name := t.Context(), domain.Lock.Key("re}size", "a:{b}")
	require.Equal(t, "lock:{re%7Dsize}:a:%7Bb%7D", name)
	free, err := h.Show(ctx, name)
	require.NoError(t, err)
	require.Zero(t, free)

	r := lease.Request{Name: name, Token: "token", TTL: time.Minute}
	granted, err := h.Grant(ctx, r)
	require.NoError(t, err)
	require.InDelta(t, granted.Fence/1000+60_000, granted.Until.UnixMilli(), 1, "both are Redis's time")
	held, err := h.Show(ctx, name)
	require.NoError(t, err)
	require.Equal(t, granted, held)

	r.TTL = time.Hour
	longer, err := h.Prolong(ctx, r)
	require.NoError(t, err)
	require.Equal(t, granted.Fence, longer.Fence)
	require.Greater(t, longer.Until, granted.Until.Add(50*time.Minute))
	c := h.conn.Client()
	ttl, err := c.Do(ctx, c.B().Pttl().Key(h.conn.Prefix()+name).Build()).AsInt64()
	require.NoError(t, err)
	require.LessOrEqual(t, ttl, domain.Lock.TTL.Milliseconds())
	require.NoError(t, h.Release(ctx, name, "token"))
	released, err := h.Show(ctx, name)
	require.NoError(t, err)
	require.Equal(t, lease.Holding{Fence: granted.Fence}, released)
	brief, err := h.Grant(ctx, lease.Request{Name: name, Token: "brief", TTL: time.Millisecond})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		ended, err := h.Show(ctx, name)
		return err == nil && ended == lease.Holding{Fence: brief.Fence}
	}, storagetest.Patience, time.Millisecond, "it has ended by itself")
	_, err = h.Prolong(ctx, r)
	require.ErrorIs(t, err, lease.ErrLost)
}
