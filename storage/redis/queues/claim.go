package queues

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var (
	claimScript    = lua.Must("queues/claim")
	releaseScript  = lua.Must("queues/release")
	takeoverScript = lua.Must("queues/takeover")
	sweepScript    = lua.Must("queues/sweep")
)

// Claim runs claim.lua, once for each 3,000 tickets.
func (s *Store) Claim(ctx context.Context, r matchmaking.ClaimRequest) (matchmaking.Claimed, error) {
	k := s.keys(r.Queue)
	keys := []string{k.waiting(), k.expiries(), k.proposed(), k.claims(), k.director()}
	args := []string{r.Token, fenceText(r.Fence), redis.Milliseconds(r.Hold), strconv.Itoa(r.Limit)}
	run := s.conn.Run
	if s.confirmed != nil {
		run = s.confirmed.run
	}
	all := matchmaking.Claimed{Held: map[string]time.Time{}}
	for first := 0; first == 0 || first < len(r.IDs); first += maxIDs {
		ids := r.IDs[first:min(first+maxIDs, len(r.IDs))]
		rep, err := run(ctx, claimScript, keys, slices.Concat(args, ids))
		if err == nil {
			err = addClaimed(rep, &all)
		}
		if errors.Is(err, lease.ErrLost) && len(all.IDs) > 0 {
			return matchmaking.Claimed{}, errors.Join(err, s.Release(ctx, r.Queue, r.Token, all.IDs))
		}
		if err != nil {
			return matchmaking.Claimed{}, err
		}
	}
	return all, nil
}

// addClaimed decodes the reply of claim.lua, and adds it to the earlier ones.
func addClaimed(r redis.Reply, all *matchmaking.Claimed) error {
	if r.Status != redis.OK {
		return refusals.Error(r)
	}
	d := r.Decoder()
	now, deadline, claimed := d.Micros(), d.Millis(), d.Texts()
	if all.Now.IsZero() {
		all.Now, all.Deadline = now, deadline // the first is the earliest
	}
	d.Each(func(held *redis.Decoder) {
		id := held.Text()
		all.Held[id] = held.Millis()
	})
	all.IDs, all.NotWaiting = append(all.IDs, claimed...), append(all.NotWaiting, d.Texts()...)
	return d.End()
}

// Release runs release.lua, once for each 3,000 tickets.
func (s *Store) Release(ctx context.Context, queue, token string, ids []string) error {
	k := s.keys(queue)
	for batch := range slices.Chunk(ids, maxIDs) {
		keys, args := []string{k.proposed(), k.claims(), k.director(), k.changes()},
			[]string{token, k.nudges(), k.feed()}
		if err := s.do(ctx, releaseScript, keys, slices.Concat(args, batch)); err != nil {
			return err
		}
	}
	return nil
}

// TakeOver runs takeover.lua, once for each 3,000 tickets.
func (s *Store) TakeOver(ctx context.Context, queue string, fence uint64, ids []string) ([]string, error) {
	k := s.keys(queue)
	var freed []string
	for batch := range slices.Chunk(ids, maxIDs) {
		keys, args := []string{k.proposed(), k.claims(), k.director()}, []string{fenceText(fence)}
		d, err := s.run(ctx, takeoverScript, keys, slices.Concat(args, batch))
		if err != nil {
			return nil, err
		}
		freed = append(freed, d.Texts()...)
		if err := d.End(); err != nil {
			return nil, err
		}
	}
	return freed, nil
}

// Sweep runs sweep.lua. It lists at most 3,000 tickets and removes at most 3,000.
func (s *Store) Sweep(ctx context.Context, queue string, notified []string, limit int) (matchmaking.Swept, error) {
	k := s.keys(queue)
	keys := []string{k.waiting(), k.expiries(), k.proposed(), k.claims(), k.stats(), k.listening()}
	args := append([]string{strconv.Itoa(min(limit, maxIDs))}, notified[:min(len(notified), maxIDs)]...)
	d, err := s.run(ctx, sweepScript, keys, args)
	if err != nil {
		return matchmaking.Swept{}, err
	}
	swept := matchmaking.Swept{Removed: int(d.Int64()), Expired: d.Texts()}
	return swept, d.End()
}
