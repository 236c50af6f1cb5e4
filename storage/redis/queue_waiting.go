package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// contentsAtOnce is how many tickets are in memory at once while a queue's tickets are walked.
const contentsAtOnce = 100

// Waiting reads pages with snapshot.lua, and what the tickets of each are with one command for contentsAtOnce of them.
func (q *Queues) Waiting(ctx context.Context, r matchmaking.WaitingRequest, each func([]*matchmaking.Ticket) error) error {
	from, limit := "0", pageSize
	var last []string // IDs of the tickets that were seen and made at from
	for {
		page, now, err := q.waitingPage(ctx, r.Queue, from, limit)
		if err != nil {
			return err
		}
		full := len(page) == limit
		page = slices.DeleteFunc(page, func(w waitingTicket) bool { return w.created == from && slices.Contains(last, w.id) })
		for some := range slices.Chunk(page, contentsAtOnce) {
			tickets, err := q.contents(ctx, r, some, now)
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
		if len(page) == 0 { // more tickets than a page has were made in the same microsecond
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

// waitingPage reads a page of the tickets that wait, from when they were made on.
func (q *Queues) waitingPage(ctx context.Context, queue, from string, limit int) ([]waitingTicket, time.Time, error) {
	k := q.keys(queue)
	keys := []string{k.waiting(), k.expiries(), k.proposed(), k.changes()}
	rep, err := q.store.Run(ctx, snapshotScript, keys, []string{from, strconv.Itoa(limit)})
	if err != nil {
		return nil, time.Time{}, err
	}
	var about matchmaking.Snapshot
	page, err := decodePage(rep, &about)
	return page, about.Now, err
}

// contents makes tickets of a part of a page, with what was asked for. Those that have ended are left out.
func (q *Queues) contents(
	ctx context.Context, r matchmaking.WaitingRequest, page []waitingTicket, now time.Time,
) ([]*matchmaking.Ticket, error) {
	var values [][]byte
	if r.Fields != matchmaking.FieldsNone {
		keys := make([]string, len(page))
		for i, w := range page {
			keys[i] = q.keys(r.Queue).ticket(w.id)
		}
		var err error
		if values, err = q.store.readAll(ctx, keys); err != nil {
			return nil, err
		}
	}
	tickets := make([]*matchmaking.Ticket, 0, len(page))
	for i, w := range page {
		if !w.expires.After(now) || values != nil && !isTicketRecord(values[i]) {
			continue
		}
		t, err := q.content(r, w, values, i)
		if err != nil {
			q.store.Logger().ErrorContext(ctx, "a stored ticket can't be read and is passed over", "queue", r.Queue, "ticket", w.id, "error", err)
			continue
		}
		if w.heldFor.After(now) {
			t.Status = matchmaking.Pending
		}
		tickets = append(tickets, &t)
	}
	return tickets, nil
}

// content makes one ticket of a page, which is the i-th of values.
func (q *Queues) content(r matchmaking.WaitingRequest, w waitingTicket, values [][]byte, i int) (matchmaking.Ticket, error) {
	switch r.Fields {
	case matchmaking.FieldsNone:
		us, err := strconv.ParseInt(w.created, 10, 64)
		return ticketRecord{created: time.UnixMicro(us).UTC()}.ticket(r.Queue, w.id, w.expires), err
	case matchmaking.FieldsSearch:
		record, spec, err := splitTicketRecord(values[i])
		if err != nil {
			return matchmaking.Ticket{}, err
		}
		var search struct {
			SearchFields matchmaking.SearchFields `json:"searchFields"`
		}
		if err := json.Unmarshal(spec, &search); err != nil {
			return matchmaking.Ticket{}, fmt.Errorf("%w: %w", errTicketRecord, err)
		}
		record.spec.SearchFields = search.SearchFields
		return record.ticket(r.Queue, w.id, w.expires), nil
	case matchmaking.FieldsAll:
	}
	record, err := parseTicketRecord(values[i])
	return record.ticket(r.Queue, w.id, w.expires), err
}
