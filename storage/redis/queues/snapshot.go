package queues

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var snapshotScript = lua.Must("queues/snapshot")

// pageSize is how many tickets a snapshot reads at once.
const pageSize = 1000

// waitingTicket is a ticket of a snapshot's page.
type waitingTicket struct {
	id, created      string
	expires, heldFor time.Time
}

// Snapshot runs snapshot.lua for each page of tickets, and reads their contents with one command a page. What happens in
// between is among the changes after the snapshot's point, which is that of the first page.
func (s *Store) Snapshot(ctx context.Context, queue string) (matchmaking.Snapshot, error) {
	k := s.keys(queue)
	keys := []string{k.waiting(), k.expiries(), k.proposed(), k.changes()}
	whole := matchmaking.Snapshot{Held: map[string]time.Time{}}
	seen, limit := map[string]bool{}, pageSize
	for from := "0"; ; {
		rep, err := s.conn.Run(ctx, snapshotScript, keys, []string{from, strconv.Itoa(limit)})
		if err != nil {
			return matchmaking.Snapshot{}, err
		}
		page, err := decodePage(rep, &whole)
		if err != nil {
			return matchmaking.Snapshot{}, err
		}
		full := len(page) == limit
		if full && page[len(page)-1].created == from {
			limit += pageSize // all tickets of the page were created in the same microsecond
		}
		if len(page) > 0 {
			from = page[len(page)-1].created
		}
		page = slices.DeleteFunc(page, func(w waitingTicket) bool { return seen[w.id] })
		for _, w := range page {
			seen[w.id] = true
		}
		if err := s.readPage(ctx, queue, page, &whole); err != nil {
			return matchmaking.Snapshot{}, err
		}
		if !full {
			return whole, nil
		}
	}
}

// decodePage decodes what snapshot.lua returns. The snapshot gets the point of the first page.
func decodePage(r redis.Reply, s *matchmaking.Snapshot) ([]waitingTicket, error) {
	if r.Status != redis.OK {
		return nil, refusals.Error(r)
	}
	d := r.Decoder()
	now, point := d.Micros(), d.Text()
	if s.Now = now; s.After == "" {
		s.After = point
	}
	var page []waitingTicket
	d.Each(func(list *redis.Decoder) {
		page = append(page, waitingTicket{id: list.Text(), created: list.Text(), expires: list.Millis(), heldFor: list.Millis()})
	})
	return page, d.End()
}

// readPage adds the tickets of a page to a snapshot. It omits those that have ended since, and logs malformed ones.
func (s *Store) readPage(ctx context.Context, queue string, page []waitingTicket, to *matchmaking.Snapshot) error {
	keys := make([]string, len(page))
	for i, w := range page {
		keys[i] = s.keys(queue).ticket(w.id)
	}
	values, err := s.readAll(ctx, keys)
	if err != nil {
		return err
	}
	for i, w := range page {
		if !isTicketRecord(values[i]) || !w.expires.After(to.Now) {
			continue
		}
		record, err := parseTicketRecord(values[i])
		if err != nil {
			s.conn.Logger().ErrorContext(ctx, "cannot read a stored ticket, skipping it", "queue", queue, "ticket", w.id, "error", err)
			continue
		}
		if record.cancelled {
			continue
		}
		t := record.ticket(queue, w.id, w.expires)
		if w.heldFor.After(to.Now) {
			t.Status = matchmaking.Pending
			to.Held[w.id] = w.heldFor
		}
		to.Tickets = append(to.Tickets, &t)
	}
	return nil
}

// readAll reads strings of one slot with one command, or one by one while the slot is being moved. Missing ones are nil. Many
// tickets are megabytes: it uses the connection for large replies.
func (s *Store) readAll(ctx context.Context, keys []string) ([][]byte, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	values := make([][]byte, len(keys))
	err := s.conn.Retry(ctx, "read tickets", func(ctx context.Context) error {
		found, err := s.conn.Bulk().Do(ctx, s.conn.Bulk().B().Mget().Key(keys...).Build()).ToArray()
		if redis.SlotMoving(err) {
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
		commands[i] = s.conn.Bulk().B().Get().Key(key).Build()
	}
	for i, result := range s.conn.Bulk().DoMulti(ctx, commands...) {
		value, err := result.AsBytes()
		if err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
		values[i] = value
	}
	return nil
}

// contentsAtOnce is how many tickets Waiting holds in memory at once.
const contentsAtOnce = 100

// Waiting reads pages with snapshot.lua, and the contents of contentsAtOnce tickets with each command.
func (s *Store) Waiting(ctx context.Context, r matchmaking.WaitingRequest, each func([]*matchmaking.Ticket) error) error {
	from, limit := "0", pageSize
	var last []string // IDs of the tickets that were passed on and were created at from
	for {
		page, now, err := s.waitingPage(ctx, r.Queue, from, limit)
		if err != nil {
			return err
		}
		full := len(page) == limit
		page = slices.DeleteFunc(page, func(w waitingTicket) bool { return w.created == from && slices.Contains(last, w.id) })
		for some := range slices.Chunk(page, contentsAtOnce) {
			tickets, err := s.contents(ctx, r, some, now)
			if err != nil {
				return err
			}
			if err := each(tickets); err != nil {
				return err
			}
		}
		if !full {
			return nil
		}
		if len(page) == 0 { // more tickets than a page has were created in the same microsecond
			limit += pageSize
			continue
		}
		if newest := page[len(page)-1].created; newest != from {
			from, last, limit = newest, last[:0], pageSize
		}
		for _, w := range page {
			if w.created == from {
				last = append(last, w.id)
			}
		}
	}
}

// waitingPage reads a page of the tickets that were created at from or later.
func (s *Store) waitingPage(ctx context.Context, queue, from string, limit int) ([]waitingTicket, time.Time, error) {
	k := s.keys(queue)
	keys := []string{k.waiting(), k.expiries(), k.proposed(), k.changes()}
	rep, err := s.conn.Run(ctx, snapshotScript, keys, []string{from, strconv.Itoa(limit)})
	if err != nil {
		return nil, time.Time{}, err
	}
	var about matchmaking.Snapshot
	page, err := decodePage(rep, &about)
	return page, about.Now, err
}

// contents returns the tickets of a part of a page, with the fields that r asks for, without those that have ended.
func (s *Store) contents(
	ctx context.Context, r matchmaking.WaitingRequest, page []waitingTicket, now time.Time,
) ([]*matchmaking.Ticket, error) {
	var values [][]byte
	if r.Fields != matchmaking.FieldsNone {
		keys := make([]string, len(page))
		for i, w := range page {
			keys[i] = s.keys(r.Queue).ticket(w.id)
		}
		var err error
		if values, err = s.readAll(ctx, keys); err != nil {
			return nil, err
		}
	}
	tickets := make([]*matchmaking.Ticket, 0, len(page))
	for i, w := range page {
		if !w.expires.After(now) || values != nil && !isTicketRecord(values[i]) {
			continue
		}
		t, err := s.content(r, w, values, i)
		if err != nil {
			s.conn.Logger().ErrorContext(ctx, "cannot read a stored ticket, skipping it", "queue", r.Queue, "ticket", w.id, "error", err)
			continue
		}
		if w.heldFor.After(now) {
			t.Status = matchmaking.Pending
		}
		tickets = append(tickets, &t)
	}
	return tickets, nil
}

// content returns one ticket of a page, whose record is the i-th of values.
func (s *Store) content(r matchmaking.WaitingRequest, w waitingTicket, values [][]byte, i int) (matchmaking.Ticket, error) {
	if r.Fields == matchmaking.FieldsNone {
		us, err := strconv.ParseInt(w.created, 10, 64)
		return ticketRecord{created: time.UnixMicro(us).UTC()}.ticket(r.Queue, w.id, w.expires), err
	}
	record, err := parseTicketRecord(values[i])
	record.spec.Keep(r.Fields)
	return record.ticket(r.Queue, w.id, w.expires), err
}
