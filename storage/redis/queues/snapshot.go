package queues

import (
	"context"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var snapshotScript = lua.Must("queues/snapshot")

const (
	pageSize       = 250 // tickets per page: Redis serves nobody else while it reads one
	contentsAtOnce = 32  // tickets that a replica is read for at once: each may have the queue's maximum size
	maxBatch       = 100 // of Waiting
	pagesAtOnce    = 4   // pages whose contents a snapshot reads at the same time
)

// page contains some of the waiting tickets, without their contents.
type page struct {
	now     time.Time
	point   string // the last change
	tickets []waitingTicket
}

// free returns the tickets that are not held for a match.
func (p page) free() (free []waitingTicket) {
	for _, w := range p.tickets {
		if !w.heldFor.After(p.now) {
			free = append(free, w)
		}
	}
	return free
}

// waitingTicket is a ticket of a page.
type waitingTicket struct {
	id, created      string
	expires, heldFor time.Time
}

// Snapshot reads pages, and meanwhile the contents of their tickets. Concurrent events are among the changes after the
// snapshot's position, which is that of the first page.
//
// The pages come from the primary, so that the snapshot has each waiting ticket, independent of the lag of replicas.
// Contents never change, so they may come from a replica.
func (s *Store) Snapshot(ctx context.Context, r matchmaking.WaitingRequest) (matchmaking.Snapshot, error) {
	whole := matchmaking.Snapshot{Held: map[string]time.Time{}}
	var parts []*[]*matchmaking.Ticket
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(pagesAtOnce)
	err := pages{s, r.Queue}.Each(reading, func(p page) error {
		if whole.Now = p.now; whole.After == "" {
			whole.After = p.point
		}
		for _, w := range p.tickets {
			if w.expires.After(p.now) && w.heldFor.After(p.now) {
				whole.Held[w.id] = w.heldFor
			}
		}
		part := new([]*matchmaking.Ticket)
		parts = append(parts, part)
		group.Go(func() error {
			return s.eachContents(reading, r, p, func(tickets []*matchmaking.Ticket) error {
				*part = append(*part, tickets...)
				return nil
			})
		})
		return nil
	})
	if failed := group.Wait(); failed != nil {
		err = failed // ends the pages
	}
	for _, part := range parts {
		whole.Tickets = append(whole.Tickets, *part...)
	}
	return whole, err
}

// Waiting reads pages, and the contents of their tickets.
func (s *Store) Waiting(ctx context.Context, r matchmaking.WaitingRequest,
	each func([]*matchmaking.Ticket) error) error {
	return pages{s, r.Queue}.Each(ctx, func(p page) error {
		if r.Free {
			p.tickets = p.free()
		}
		return s.eachContents(ctx, r, p, func(tickets []*matchmaking.Ticket) error {
			for batch := range slices.Chunk(tickets, maxBatch) {
				if err := each(batch); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// eachContents calls each with the tickets of a page, with the fields that r requests, except tickets that have ended
// since: with as many at a time as are read together.
func (s *Store) eachContents(ctx context.Context, r matchmaking.WaitingRequest, p page,
	each func([]*matchmaking.Ticket) error) error {
	for len(p.tickets) > 0 {
		first := p
		values, err := s.records(ctx, r, &first)
		if err != nil {
			return err
		}
		if err := each(s.contents(ctx, r, first, values)); err != nil {
			return err
		}
		p.tickets = p.tickets[len(first.tickets):]
	}
	return nil
}

// pages reads the waiting tickets of a queue.
type pages struct {
	store *Store
	queue string
}

// Each runs snapshot.lua for each page, the oldest tickets first, and calls each with it until that returns an error.
// No ticket is in two pages.
func (q pages) Each(ctx context.Context, each func(page) error) error {
	k := q.store.keys(q.queue)
	keys := []string{k.waiting(), k.expiries(), k.proposed(), k.changes()}
	from, limit := "0", pageSize
	var last []string // IDs of the tickets of earlier pages that were created at from
	for {
		rep, err := q.store.conn.Run(ctx, snapshotScript, keys, []string{from, strconv.Itoa(limit)})
		if err != nil {
			return err
		}
		p, err := decodePage(rep)
		if err != nil {
			return err
		}
		full := len(p.tickets) == limit
		p.tickets = slices.DeleteFunc(p.tickets, func(w waitingTicket) bool {
			return w.created == from &&
				slices.Contains(last, w.id)
		})
		if err := each(p); err != nil || !full {
			return err
		}
		if len(p.tickets) == 0 { // more tickets than a page holds were created in the same microsecond
			limit += pageSize
			continue
		}
		if newest := p.tickets[len(p.tickets)-1].created; newest != from {
			from, last, limit = newest, last[:0], pageSize
		}
		for _, w := range p.tickets {
			if w.created == from {
				last = append(last, w.id)
			}
		}
	}
}

// decodePage decodes the reply of snapshot.lua.
func decodePage(r redis.Reply) (page, error) {
	if r.Status != redis.OK {
		return page{}, refusals.Error(r)
	}
	d := r.Decoder()
	p := page{now: d.Micros(), point: d.Text()}
	d.Each(func(list *redis.Decoder) {
		p.tickets = append(p.tickets, waitingTicket{id: list.Text(), created: list.Text(), expires: list.Millis(),
			heldFor: list.Millis()})
	})
	return p, d.End()
}

// contents returns the tickets of a page, whose records are values, except those that have ended.
func (s *Store) contents(ctx context.Context, r matchmaking.WaitingRequest, p page, values [][]byte,
) []*matchmaking.Ticket {
	tickets := make([]*matchmaking.Ticket, 0, len(p.tickets))
	for i, w := range p.tickets {
		if !w.expires.After(p.now) || values != nil && !isRecord(values[i]) {
			continue
		}
		t, err := s.content(r, w, values, i)
		if err != nil {
			s.conn.Logger().ErrorContext(ctx, "cannot read a stored ticket, skipping it", "queue", r.Queue, "ticket",
				w.id, "error", err)
			continue
		}
		if w.heldFor.After(p.now) {
			t.Status = matchmaking.Pending
		}
		if t.Status != matchmaking.Cancelled {
			tickets = append(tickets, &t)
		}
	}
	return tickets
}

// content returns one ticket of a page, whose record is the i-th of values.
func (s *Store) content(r matchmaking.WaitingRequest, w waitingTicket, values [][]byte, i int) (matchmaking.Ticket,
	error) {
	if r.Fields == matchmaking.FieldsNone {
		us, err := strconv.ParseInt(w.created, 10, 64)
		return matchmaking.Ticket{
			ID: w.id, Queue: r.Queue, CreateTime: time.UnixMicro(us).UTC(), Expires: w.expires,
			Status: matchmaking.Searching,
		}, err
	}
	t, err := parseRecord(r.Queue, w.id, values[i])
	t.KeepOnly(r.Fields)
	t.Expires = w.expires
	return t, err
}

// records returns the records of the first tickets of a page, and leaves only these in it: those that contents.lua
// reads, or with replicas contentsAtOnce, of which those that a replica lacks come from the primary. A record doesn't
// change while its ticket waits.
func (s *Store) records(ctx context.Context, r matchmaking.WaitingRequest, p *page) ([][]byte, error) {
	if r.Fields == matchmaking.FieldsNone {
		return nil, nil
	}
	if s.replicas != nil {
		p.tickets = p.tickets[:min(len(p.tickets), contentsAtOnce)]
	}
	keys := make([]string, len(p.tickets))
	for i, w := range p.tickets {
		keys[i] = s.keys(r.Queue).ticket(w.id)
	}
	if s.replicas == nil {
		values, err := s.values.First(ctx, keys)
		if err != nil {
			return nil, err
		}
		p.tickets = p.tickets[:len(values)]
		return values, nil
	}
	return s.values.Read(ctx, keys, func(i int, value []byte) bool { return isRecordOf(value, p.tickets[i].created) })
}
