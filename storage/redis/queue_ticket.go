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
	rep, err := q.store.Run(ctx, createScript, keys, args)
	if err != nil {
		return matchmaking.Ticket{}, false, err
	}
	if rep.Status == statusExists {
		t, err := decodeTicket(rep, r.Queue, r.ID)
		return t, false, err
	}
	t, err := createdTicket(rep, r)
	return t, err == nil, err
}

// Find runs find.lua.
func (q *Queues) Find(ctx context.Context, r matchmaking.CreateRequest) (matchmaking.Ticket, error) {
	k := q.keys(r.Queue)
	keys := []string{k.ticket(r.ID), k.assignment(r.ID), k.expiries(), k.proposed()}
	args := []string{r.ID, r.Attempt, r.Epoch.String(), milliseconds(matchmaking.UndoneFor)}
	rep, err := q.store.Run(ctx, findScript, keys, args)
	if err != nil {
		return matchmaking.Ticket{}, err
	}
	if rep.Status != statusExists {
		return matchmaking.Ticket{}, queueRefusals.Error(rep)
	}
	return decodeTicket(rep, r.Queue, r.ID)
}

// createdTicket decodes what create.lua returns for a ticket that it made.
func createdTicket(r Reply, made matchmaking.CreateRequest) (matchmaking.Ticket, error) {
	if r.Status != statusCreated {
		return matchmaking.Ticket{}, queueRefusals.Error(r)
	}
	d := r.Decoder()
	record := ticketRecord{created: d.Micros(), ttl: made.TTL, life: max(made.Life, made.TTL), epoch: made.Epoch, spec: made.Spec}
	expires := d.Millis()
	return record.ticket(made.Queue, made.ID, expires), d.End()
}

// decodeTicket decodes a status, an end, a ticket and its assignment.
func decodeTicket(r Reply, queue, id string) (matchmaking.Ticket, error) {
	d := r.Decoder()
	status, expires, value, assigned := matchmaking.Status(d.Text()), d.Millis(), d.Bytes(), d.Bytes()
	if err := d.End(); err != nil {
		return matchmaking.Ticket{}, err
	}
	record, err := parseTicketRecord(value)
	d.Fail(err)
	t := record.ticket(queue, id, expires)
	t.Status = status
	switch status {
	case matchmaking.MatchFound:
		t.Assignment = new(matchmaking.Assignment)
		d.Fail(json.Unmarshal(assigned, t.Assignment))
		t.MatchID = t.Assignment.MatchID
	case matchmaking.Searching, matchmaking.Pending, matchmaking.Cancelled, matchmaking.Expired:
	default:
		d.Fail(fmt.Errorf("status %q", status))
	}
	if err := d.Err(); err != nil {
		return matchmaking.Ticket{}, err
	}
	return t, nil
}

// errUndone is the error of a creation that Undo came before. Whoever asked for it has been told of its failure already.
var errUndone = fault.ErrUnavailable.WithCause(matchmaking.ErrUndone)

// Undo runs undo.lua.
func (q *Queues) Undo(ctx context.Context, queue, id, attempt string) (there bool, err error) {
	k := q.keys(queue)
	keys := []string{k.ticket(id), k.waiting(), k.expiries(), k.proposed(), k.claims(), k.changes()}
	rep, err := q.store.Run(ctx, undoScript, keys, []string{id, attempt, milliseconds(matchmaking.UndoneFor), k.nudges()})
	if err != nil {
		return false, err
	}
	return rep.Status == statusKept, queueRefusals.Check(rep, OK, statusKept)
}

// Ticket runs ticket.lua, on a replica first where there are any.
func (q *Queues) Ticket(ctx context.Context, queue, id string) (matchmaking.Ticket, error) {
	k := q.keys(queue)
	keys, args := []string{k.ticket(id), k.assignment(id), k.expiries(), k.proposed()}, []string{id}
	if q.replicas != nil {
		if rep, ok := q.replicas.Run(ctx, ticketScript, keys, args); ok {
			return decodeTicket(rep, queue, id)
		}
	}
	rep, err := q.store.Run(ctx, ticketScript, keys, args)
	if err != nil {
		return matchmaking.Ticket{}, err
	}
	if rep.Status != OK {
		return matchmaking.Ticket{}, queueRefusals.Error(rep)
	}
	return decodeTicket(rep, queue, id)
}

// Cancel runs cancel.lua.
func (q *Queues) Cancel(ctx context.Context, r matchmaking.CancelRequest) error {
	k := q.keys(r.Queue)
	keys := []string{
		k.ticket(r.ID), k.assignment(r.ID), k.waiting(), k.expiries(), k.proposed(), k.claims(), k.changes(), k.stats(),
	}
	rep, err := q.store.Run(ctx, cancelScript, keys, []string{r.ID, milliseconds(r.Keep), k.nudges()})
	if err != nil {
		return err
	}
	return queueRefusals.Check(rep, OK)
}

// Renew runs renew.lua.
func (q *Queues) Renew(ctx context.Context, queue string, ids []string) error {
	k := q.keys(queue)
	for some := range slices.Chunk(ids, maxIDs) {
		keys := append(make([]string, 0, 2+len(some)), k.waiting(), k.expiries())
		for _, id := range some {
			keys = append(keys, k.ticket(id))
		}
		rep, err := q.store.Run(ctx, renewScript, keys, some)
		if err != nil {
			return err
		}
		if err := queueRefusals.Check(rep, OK); err != nil {
			return err
		}
	}
	return nil
}
