package queues

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch/convert"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var (
	createScript = lua.Must("queues/create")
	findScript   = lua.Must("queues/find")
	undoScript   = lua.Must("queues/undo")
)

// Create runs create.lua.
func (s *Store) Create(ctx context.Context, r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) {
	spec, err := convert.Encode(r.Spec)
	if err != nil {
		return matchmaking.Ticket{}, false, fmt.Errorf("create ticket %s: %w", r.ID, err)
	}
	k := s.keys(r.Queue)
	keys := []string{k.ticket(r.ID), k.assignment(r.ID), k.waiting(), k.expiries(), k.proposed(), k.changes()}
	args := []string{
		r.ID, milliseconds(r.TTL), milliseconds(r.Keep), milliseconds(max(r.Life, r.TTL)), strconv.Itoa(r.MaxTickets),
		r.Attempt + " " + epochText(r.Epoch), string(spec), k.nudges(),
	}
	rep, err := s.conn.Run(ctx, createScript, keys, args)
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
func (s *Store) Find(ctx context.Context, r matchmaking.CreateRequest) (matchmaking.Ticket, error) {
	k := s.keys(r.Queue)
	keys := []string{k.ticket(r.ID), k.assignment(r.ID), k.expiries(), k.proposed()}
	args := []string{r.ID, r.Attempt, r.Epoch.String(), milliseconds(matchmaking.UndoneFor)}
	rep, err := s.conn.Run(ctx, findScript, keys, args)
	if err != nil {
		return matchmaking.Ticket{}, err
	}
	if rep.Status != statusExists {
		return matchmaking.Ticket{}, refusals.Error(rep)
	}
	return decodeTicket(rep, r.Queue, r.ID)
}

// createdTicket decodes what create.lua returns for a ticket that it created.
func createdTicket(r redis.Reply, made matchmaking.CreateRequest) (matchmaking.Ticket, error) {
	if r.Status != statusCreated {
		return matchmaking.Ticket{}, refusals.Error(r)
	}
	d := r.Decoder()
	record := ticketRecord{created: d.Micros(), ttl: made.TTL, life: max(made.Life, made.TTL), epoch: made.Epoch, spec: made.Spec}
	expires := d.Millis()
	return record.ticket(made.Queue, made.ID, expires), d.End()
}

// errUndone is the error of a creation that was undone before it arrived. Its caller has already got an error.
var errUndone = fault.ErrUnavailable.WithCause(matchmaking.ErrUndone)

// Undo runs undo.lua.
func (s *Store) Undo(ctx context.Context, queue, id, attempt string) (there bool, err error) {
	k := s.keys(queue)
	keys := []string{k.ticket(id), k.waiting(), k.expiries(), k.proposed(), k.claims(), k.changes()}
	rep, err := s.conn.Run(ctx, undoScript, keys, []string{id, attempt, milliseconds(matchmaking.UndoneFor), k.nudges(), k.assigned()})
	if err != nil {
		return false, err
	}
	return rep.Status == statusKept, refusals.Check(rep, redis.OK, statusKept)
}
