package queues

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var (
	campaignScript = lua.Must("queues/campaign")
	leaseScript    = lua.Must("queues/lease")
	resignScript   = lua.Must("queues/resign")
)

// Campaign runs campaign.lua.
func (s *Store) Campaign(ctx context.Context, r matchmaking.LeaseRequest) (time.Time, error) {
	k := s.keys(r.Queue)
	keys := []string{k.director(), k.expiries(), k.outbox()}
	rep, err := s.conn.Run(ctx, campaignScript, keys, []string{r.Lease, milliseconds(r.TTL)})
	if err != nil {
		return time.Time{}, err
	}
	return leased(rep)
}

// Lease runs lease.lua.
func (s *Store) Lease(ctx context.Context, r matchmaking.LeaseRequest) (time.Time, error) {
	rep, err := s.conn.Run(ctx, leaseScript, []string{s.keys(r.Queue).director()}, []string{r.Lease, milliseconds(r.TTL)})
	if err != nil {
		return time.Time{}, err
	}
	return leased(rep)
}

// leased decodes what lease.lua and campaign.lua return.
func leased(r redis.Reply) (time.Time, error) {
	if r.Status != redis.OK {
		return time.Time{}, refusals.Error(r)
	}
	d := r.Decoder()
	now := d.Micros()
	return now, d.End()
}

// Resign runs resign.lua.
func (s *Store) Resign(ctx context.Context, queue, lease string) error {
	s.mu.Lock()
	delete(s.feeds, queue)
	s.mu.Unlock()
	k := s.keys(queue)
	rep, err := s.conn.Run(ctx, resignScript, []string{k.director()}, []string{lease, k.nudges()})
	if err != nil {
		return err
	}
	return refusals.Check(rep, redis.OK)
}
