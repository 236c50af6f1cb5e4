package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Claim runs claim.lua, once for 3,000 tickets.
func (q *Queues) Claim(ctx context.Context, r matchmaking.ClaimRequest) (matchmaking.Claimed, error) {
	k := q.keys(r.Queue)
	keys := []string{k.waiting(), k.expiries(), k.proposed(), k.claims(), k.director()}
	args := []string{r.Token, r.Lease, milliseconds(r.Hold), strconv.Itoa(r.Limit)}
	all := matchmaking.Claimed{Held: map[string]time.Time{}}
	for first := 0; first == 0 || first < len(r.IDs); first += maxIDs {
		ids := r.IDs[first:min(first+maxIDs, len(r.IDs))]
		rep, err := q.runConfirmed(ctx, claimScript, keys, slices.Concat(args, ids))
		if err == nil {
			err = addClaimed(rep, &all)
		}
		if errors.Is(err, matchmaking.ErrLeaseLost) && len(all.IDs) > 0 {
			return matchmaking.Claimed{}, errors.Join(err, q.Release(ctx, r.Queue, r.Token, all.IDs))
		}
		if err != nil {
			return matchmaking.Claimed{}, err
		}
	}
	return all, nil
}

// addClaimed decodes what claim.lua returns, and adds it to what was claimed before.
func addClaimed(r Reply, all *matchmaking.Claimed) error {
	if r.Status != OK {
		return queueRefusals.Error(r)
	}
	d := r.Decoder()
	now, deadline, mine := d.Micros(), d.Millis(), d.Texts()
	if all.Now.IsZero() {
		all.Now, all.Deadline = now, deadline // the first is the earliest
	}
	d.Each(func(held *Decoder) {
		id := held.Text()
		all.Held[id] = held.Millis()
	})
	all.IDs, all.Gone = append(all.IDs, mine...), append(all.Gone, d.Texts()...)
	return d.End()
}

// Release runs release.lua, once for 3,000 tickets.
func (q *Queues) Release(ctx context.Context, queue, token string, ids []string) error {
	k := q.keys(queue)
	for some := range slices.Chunk(ids, maxIDs) {
		rep, err := q.store.Run(ctx, releaseScript, []string{k.proposed(), k.claims(), k.director(), k.changes()},
			slices.Concat([]string{token, k.nudges()}, some))
		if err != nil {
			return err
		}
		if err := queueRefusals.Check(rep, OK); err != nil {
			return err
		}
	}
	return nil
}

// TakeOver runs takeover.lua, once for 3,000 tickets.
func (q *Queues) TakeOver(ctx context.Context, queue, lease string, ids []string) ([]string, error) {
	k := q.keys(queue)
	var freed []string
	for some := range slices.Chunk(ids, maxIDs) {
		rep, err := q.store.Run(ctx, takeoverScript, []string{k.proposed(), k.claims(), k.director()},
			slices.Concat([]string{lease}, some))
		if err != nil {
			return nil, err
		}
		if rep.Status != OK {
			return nil, queueRefusals.Error(rep)
		}
		d := rep.Decoder()
		freed = append(freed, d.Texts()...)
		if err := d.End(); err != nil {
			return nil, err
		}
	}
	return freed, nil
}

// Sweep runs sweep.lua. It lists no more than 3,000 tickets, and takes no more out.
func (q *Queues) Sweep(ctx context.Context, queue string, told []string, limit int) (matchmaking.Swept, error) {
	k := q.keys(queue)
	keys := []string{k.waiting(), k.expiries(), k.proposed(), k.claims(), k.stats()}
	args := append([]string{strconv.Itoa(min(limit, maxIDs))}, told[:min(len(told), maxIDs)]...)
	rep, err := q.store.Run(ctx, sweepScript, keys, args)
	if err != nil {
		return matchmaking.Swept{}, err
	}
	if rep.Status != OK {
		return matchmaking.Swept{}, queueRefusals.Error(rep)
	}
	d := rep.Decoder()
	swept := matchmaking.Swept{Taken: int(d.Int64()), Expired: d.Texts()}
	return swept, d.End()
}
