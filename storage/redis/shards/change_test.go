package shards_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/layout"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// hold claims shards for a host, one after another, and pings, until ctx ends.
func (h *harness) hold(ctx context.Context, m shard.Member) error {
	for n := 0; ; n++ {
		token := fmt.Sprint(m.Host, n)
		_, err := h.store.Claim(ctx, m, token, time.Minute, shard.Claimed{})
		for err == nil {
			err = h.store.Ping(ctx, m, token, time.Minute, true)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, shard.ErrMoved):
			err = h.store.Leave(ctx, m, token)
		case errors.Is(err, lease.ErrHeld), errors.Is(err, shard.ErrNoLayout):
			err = nil
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", m.Host, err)
		}
	}
}

// Three data centres change from two to three shards and back. While one is split again each key has a holder in both
// others.
func TestChange(t *testing.T) {
	t.Parallel()
	h := open(t, redistest.Standalone(t).URL())
	dcs := []string{"a", "b", "c"}
	ctx, stop := context.WithCancel(t.Context())
	var nodes sync.WaitGroup
	defer nodes.Wait()
	defer stop()
	for _, dc := range dcs {
		_, err := h.store.SetLayout(ctx, "c", dc, 0, shard.Even(2))
		require.NoError(t, err)
		for i := range 3 {
			m := shard.Member{Cache: "c", DC: dc, Host: fmt.Sprint("h", i), Address: fmt.Sprint(dc, i, ":1")}
			nodes.Go(func() {
				if err := h.hold(ctx, m); err != nil {
					t.Error(err)
				}
			})
		}
	}
	status := func() []shard.DC {
		all, err := h.store.Status(ctx, "c")
		require.NoError(t, err)
		return all
	}
	storetest.WaitFor(t, "all are whole", func() bool { return len(layout.Missing(status())) == 0 })
	for _, n := range []int{3, 2} {
		plan := layout.Plan{Cache: "c", Starts: shard.Even(n), Settle: time.Millisecond, Poll: time.Millisecond}
		require.NoError(t, layout.Change(ctx, h.store, plan, func(p layout.Progress) {
			whole := 0
			for _, dc := range status() {
				if dc.Whole() {
					whole++
				}
			}
			require.GreaterOrEqual(t, whole, len(dcs)-1, "%+v", p)
		}))
		require.Empty(t, layout.Missing(status()))
		require.Empty(t, layout.Unsettled(status()))
	}
}
