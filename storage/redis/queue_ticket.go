package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Create runs create.lua.
func (q *Queues) Create(ctx context.Context, r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) {
	spec, err := json.Marshal(r.Spec)
	if err != nil {
		return matchmaking.Ticket{}, false, fmt.Errorf("create ticket %s: %w", r.ID, err)
	}
	k := q.keys(r.Queue)
	keys := []string{k.ticket(r.ID), k.assignment(r.ID), k.waiting(), k.expiries(), k.proposed(), k.changes()}
	args := []string{
		r.ID, milliseconds(r.TTL), milliseconds(r.Keep), milliseconds(max(r.Life, r.TTL)), strconv.Itoa(r.MaxTickets),
		r.Attempt + " " + epochText(r.Epoch), string(spec), k.nudges(),
	}
	rep, err := q.store.exec(ctx, createScript, keys, args)
	if err != nil {
		return matchmaking.Ticket{}, false, err
	}
	if rep.status == statusExists {
		t, err := rep.decoder().ticket(r.Queue, r.ID)
		return t, false, err
	}
	t, err := rep.created(r)
	return t, err == nil, err
}

// Find runs find.lua.
func (q *Queues) Find(ctx context.Context, r matchmaking.CreateRequest) (matchmaking.Ticket, error) {
	k := q.keys(r.Queue)
	keys := []string{k.ticket(r.ID), k.assignment(r.ID), k.expiries(), k.proposed()}
	args := []string{r.ID, r.Attempt, r.Epoch.String(), milliseconds(matchmaking.UndoneFor)}
	rep, err := q.store.exec(ctx, findScript, keys, args)
	if err != nil {
		return matchmaking.Ticket{}, err
	}
	if rep.status != statusExists {
		return matchmaking.Ticket{}, rep.refusal()
	}
	return rep.decoder().ticket(r.Queue, r.ID)
}

// created decodes what create.lua returns for a ticket that it made.
func (r reply) created(made matchmaking.CreateRequest) (matchmaking.Ticket, error) {
	if r.status != statusCreated {
		return matchmaking.Ticket{}, r.refusal()
	}
	d := r.decoder()
	record := ticketRecord{created: d.micros(), ttl: made.TTL, life: max(made.Life, made.TTL), epoch: made.Epoch, spec: made.Spec}
	expires := d.millis()
	return record.ticket(made.Queue, made.ID, expires), d.end()
}

// ticket decodes a status, an end, a ticket and its assignment.
func (d *decoder) ticket(queue, id string) (matchmaking.Ticket, error) {
	status, expires, value, assigned := matchmaking.Status(d.text()), d.millis(), d.bytes(), d.bytes()
	if err := d.end(); err != nil {
		return matchmaking.Ticket{}, err
	}
	record, err := parseTicketRecord(value)
	d.fail(err)
	t := record.ticket(queue, id, expires)
	t.Status = status
	switch status {
	case matchmaking.MatchFound:
		t.Assignment = new(matchmaking.Assignment)
		d.fail(json.Unmarshal(assigned, t.Assignment))
		t.MatchID = t.Assignment.MatchID
	case matchmaking.Searching, matchmaking.Pending, matchmaking.Cancelled, matchmaking.Expired:
	default:
		d.fail(fmt.Errorf("status %q", status))
	}
	if d.err != nil {
		return matchmaking.Ticket{}, d.err
	}
	return t, nil
}

// errUndone is the error of a creation that Undo came before. Whoever asked for it has been told of its failure already.
var errUndone = fault.ErrUnavailable.WithCause(matchmaking.ErrUndone)

// Undo runs undo.lua.
func (q *Queues) Undo(ctx context.Context, queue, id, attempt string) (there bool, err error) {
	k := q.keys(queue)
	keys := []string{k.ticket(id), k.waiting(), k.expiries(), k.proposed(), k.claims(), k.changes()}
	rep, err := q.store.exec(ctx, undoScript, keys, []string{id, attempt, milliseconds(matchmaking.UndoneFor), k.nudges()})
	if err != nil {
		return false, err
	}
	return rep.status == statusKept, rep.oneOf(statusOK, statusKept)
}

// Ticket runs ticket.lua, on a replica first where there are any.
func (q *Queues) Ticket(ctx context.Context, queue, id string) (matchmaking.Ticket, error) {
	k := q.keys(queue)
	keys, args := []string{k.ticket(id), k.assignment(id), k.expiries(), k.proposed()}, []string{id}
	if q.replicas != nil {
		if rep, ok := q.replicas.read(ctx, keys, args); ok {
			return rep.decoder().ticket(queue, id)
		}
	}
	rep, err := q.store.exec(ctx, ticketScript, keys, args)
	if err != nil {
		return matchmaking.Ticket{}, err
	}
	if rep.status != statusOK {
		return matchmaking.Ticket{}, rep.refusal()
	}
	return rep.decoder().ticket(queue, id)
}

// Cancel runs cancel.lua.
func (q *Queues) Cancel(ctx context.Context, r matchmaking.CancelRequest) error {
	k := q.keys(r.Queue)
	keys := []string{
		k.ticket(r.ID), k.assignment(r.ID), k.waiting(), k.expiries(), k.proposed(), k.claims(), k.changes(), k.stats(),
	}
	rep, err := q.store.exec(ctx, cancelScript, keys, []string{r.ID, milliseconds(r.Keep), k.nudges()})
	if err != nil {
		return err
	}
	return rep.oneOf(statusOK)
}

// Renew runs renew.lua.
func (q *Queues) Renew(ctx context.Context, queue string, ids []string) error {
	k := q.keys(queue)
	for some := range slices.Chunk(ids, maxIDs) {
		keys := append(make([]string, 0, 2+len(some)), k.waiting(), k.expiries())
		for _, id := range some {
			keys = append(keys, k.ticket(id))
		}
		rep, err := q.store.exec(ctx, renewScript, keys, some)
		if err != nil {
			return err
		}
		if err := rep.oneOf(statusOK); err != nil {
			return err
		}
	}
	return nil
}
