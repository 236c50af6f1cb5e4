package redis

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Campaign runs campaign.lua.
func (q *Queues) Campaign(ctx context.Context, r matchmaking.LeaseRequest) (time.Time, error) {
	k := q.keys(r.Queue)
	keys := []string{k.director(), k.expiries(), k.outbox()}
	rep, err := q.store.Run(ctx, campaignScript, keys, []string{r.Lease, milliseconds(r.TTL)})
	if err != nil {
		return time.Time{}, err
	}
	return leased(rep)
}

// Lease runs lease.lua.
func (q *Queues) Lease(ctx context.Context, r matchmaking.LeaseRequest) (time.Time, error) {
	rep, err := q.store.Run(ctx, leaseScript, []string{q.keys(r.Queue).director()}, []string{r.Lease, milliseconds(r.TTL)})
	if err != nil {
		return time.Time{}, err
	}
	return leased(rep)
}

// leased decodes what lease.lua and campaign.lua return.
func leased(r Reply) (time.Time, error) {
	if r.Status != OK {
		return time.Time{}, queueRefusals.Error(r)
	}
	d := r.Decoder()
	now := d.Micros()
	return now, d.End()
}

// Resign runs resign.lua.
func (q *Queues) Resign(ctx context.Context, queue, lease string) error {
	q.mu.Lock()
	delete(q.feeds, queue)
	q.mu.Unlock()
	k := q.keys(queue)
	rep, err := q.store.Run(ctx, resignScript, []string{k.director()}, []string{lease, k.nudges()})
	if err != nil {
		return err
	}
	return queueRefusals.Check(rep, OK)
}

// pageSize is how many tickets a snapshot reads at once.
const pageSize = 1000

// waitingTicket is a ticket of a snapshot's page.
type waitingTicket struct {
	id, created      string
	expires, heldFor time.Time
}

// Snapshot runs snapshot.lua for each page of tickets, and reads what they are with one command a page. What happens
// in between is among the changes after the point, which is that of the first page.
func (q *Queues) Snapshot(ctx context.Context, queue string) (matchmaking.Snapshot, error) {
	k := q.keys(queue)
	keys := []string{k.waiting(), k.expiries(), k.proposed(), k.changes()}
	whole := matchmaking.Snapshot{Held: map[string]time.Time{}}
	seen, limit := map[string]bool{}, pageSize
	for from := "0"; ; {
		rep, err := q.store.Run(ctx, snapshotScript, keys, []string{from, strconv.Itoa(limit)})
		if err != nil {
			return matchmaking.Snapshot{}, err
		}
		page, err := decodePage(rep, &whole)
		if err != nil {
			return matchmaking.Snapshot{}, err
		}
		full := len(page) == limit
		if full && page[len(page)-1].created == from {
			limit += pageSize // all of the page's tickets were made in the same microsecond
		}
		if len(page) > 0 {
			from = page[len(page)-1].created
		}
		page = slices.DeleteFunc(page, func(w waitingTicket) bool { return seen[w.id] })
		for _, w := range page {
			seen[w.id] = true
		}
		if err := q.readPage(ctx, queue, page, &whole); err != nil {
			return matchmaking.Snapshot{}, err
		}
		if !full {
			return whole, nil
		}
	}
}

// decodePage decodes what snapshot.lua returns. The snapshot gets the point of the first page.
func decodePage(r Reply, s *matchmaking.Snapshot) ([]waitingTicket, error) {
	if r.Status != OK {
		return nil, queueRefusals.Error(r)
	}
	d := r.Decoder()
	now, point := d.Micros(), d.Text()
	if s.Now = now; s.After == "" {
		s.After = point
	}
	var page []waitingTicket
	d.Each(func(list *Decoder) {
		page = append(page, waitingTicket{id: list.Text(), created: list.Text(), expires: list.Millis(), heldFor: list.Millis()})
	})
	return page, d.End()
}

// readPage adds the tickets of a page to a snapshot. Those that have ended since are left out, and one that can't be
// read is logged.
func (q *Queues) readPage(ctx context.Context, queue string, page []waitingTicket, s *matchmaking.Snapshot) error {
	keys := make([]string, len(page))
	for i, w := range page {
		keys[i] = q.keys(queue).ticket(w.id)
	}
	values, err := q.store.readAll(ctx, keys)
	if err != nil {
		return err
	}
	for i, w := range page {
		if !isTicketRecord(values[i]) || !w.expires.After(s.Now) {
			continue
		}
		record, err := parseTicketRecord(values[i])
		if err != nil {
			q.store.Logger().ErrorContext(ctx, "a stored ticket can't be read and is passed over", "queue", queue, "ticket", w.id, "error", err)
			continue
		}
		if record.cancelled {
			continue
		}
		t := record.ticket(queue, w.id, w.expires)
		if w.heldFor.After(s.Now) {
			t.Status = matchmaking.Pending
			s.Held[w.id] = w.heldFor
		}
		s.Tickets = append(s.Tickets, &t)
	}
	return nil
}

// readAll reads strings of one slot with one command, or one by one where the slot is half moved. Those that aren't
// there are nil. Many tickets are megabytes, which other commands don't wait for.
func (s *Store) readAll(ctx context.Context, keys []string) ([][]byte, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	values := make([][]byte, len(keys))
	err := s.Retry(ctx, "read tickets", func(ctx context.Context) error {
		found, err := s.Bulk().Do(ctx, s.Bulk().B().Mget().Key(keys...).Build()).ToArray()
		if SlotMoving(err) {
			return s.readSingly(ctx, keys, values)
		}
		if err != nil {
			return err
		}
		for i, m := range found {
			values[i] = nil
			if !m.IsNil() {
				if values[i], err = m.AsBytes(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return values, err
}

func (s *Store) readSingly(ctx context.Context, keys []string, values [][]byte) error {
	commands := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		commands[i] = s.Bulk().B().Get().Key(key).Build()
	}
	for i, result := range s.Bulk().DoMulti(ctx, commands...) {
		value, err := result.AsBytes()
		if err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
		values[i] = value
	}
	return nil
}
