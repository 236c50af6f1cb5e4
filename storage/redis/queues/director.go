package queues

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var campaignScript = lua.Must("queues/campaign")

// Leases returns the leases of the queues' directors. Their keys are in the queues' slots, so that claims check them.
func (s *Store) Leases() lease.Store {
	return directors{store: s, Store: leases.NewLayout(s.conn, leases.Layout{
		Holder: func(queue string) string { return s.keys(queue).director() },
		Topic:  func(queue string) string { return s.keys(queue).nudges() },
	})}
}

// directors grants a lease only if its queue has work.
type directors struct {
	*leases.Store
	store *Store
}

// Acquire runs campaign.lua.
func (l directors) Acquire(ctx context.Context, r lease.Request) (fence uint64, err error) {
	k := l.store.keys(r.Name)
	keys := []string{k.director(), k.expiries(), k.outbox(), k.changes(), k.backfills()}
	rep, err := l.store.conn.Run(ctx, campaignScript, keys, []string{r.Token, redis.Milliseconds(r.TTL)})
	if err != nil {
		return 0, fmt.Errorf("campaign: %w", err)
	}
	granted, err := leases.Granted(rep, refusals)
	return granted.Fence, err
}

// fenceText returns the script argument for a fence: empty for none.
func fenceText(fence uint64) string {
	if fence == 0 {
		return ""
	}
	return strconv.FormatUint(fence, 10)
}
