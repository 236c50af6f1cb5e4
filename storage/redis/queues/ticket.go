package queues

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var (
	ticketScript = lua.Must("queues/ticket")
	cancelScript = lua.Must("queues/cancel")
	renewScript  = lua.Must("queues/renew")
)

// deindexed is how scripts report a ticket that is matchmaking.Cancelled and Deindexed.
const deindexed matchmaking.Status = "DEINDEXED"

// decodeTicket decodes a status, an expiry, a ticket and its assignment.
func decodeTicket(d *redis.Decoder, queue, id string) (matchmaking.Ticket, error) {
	status, expires, value, assigned := matchmaking.Status(d.Text()), d.Millis(), d.Bytes(), d.Bytes()
	if err := d.End(); err != nil {
		return matchmaking.Ticket{}, err
	}
	t, err := parseRecord(queue, id, value)
	d.Fail(err)
	t.Status = status
	if !expires.IsZero() { // it waits, or is deindexed
		t.Expires = expires
	}
	switch status {
	case deindexed:
		t.Status, t.Deindexed = matchmaking.Cancelled, true
	case matchmaking.MatchFound:
		d.Fail(setAssignment(&t, assigned))
	case matchmaking.Searching, matchmaking.Pending, matchmaking.Cancelled, matchmaking.Expired:
	default:
		d.Fail(fmt.Errorf("status %q", status))
	}
	if err := d.Err(); err != nil {
		return matchmaking.Ticket{}, err
	}
	return t, nil
}

// setAssignment decodes the assignment of a ticket. The error is of one that is damaged.
func setAssignment(t *matchmaking.Ticket, content []byte) error {
	t.Assignment = new(matchmaking.Assignment)
	if !utf8.Valid(content) {
		return errors.New("the assignment isn't UTF-8")
	}
	err := json.Unmarshal(content, t.Assignment)
	t.MatchID = t.Assignment.MatchID
	return err
}

// Ticket runs ticket.lua, on a replica first if there are any.
func (s *Store) Ticket(ctx context.Context, queue, id string) (matchmaking.Ticket, error) {
	k := s.keys(queue)
	keys, args := []string{k.ticket(id), k.assignment(id), k.expiries(), k.proposed()}, []string{id}
	if s.replicas != nil {
		if rep, ok := s.replicas.Run(ctx, ticketScript, keys, args); ok {
			if t, err := decodeTicket(rep.Decoder(), queue, id); t.Assignment == nil || s.confirmed == nil {
				return t, err
			}
		}
	}
	d, err := s.run(ctx, ticketScript, keys, args)
	if err != nil {
		return matchmaking.Ticket{}, err
	}
	t, err := decodeTicket(d, queue, id)
	if err == nil {
		err = s.confirmTicket(ctx, &t)
	}
	return t, err
}

// Cancel runs cancel.lua.
func (s *Store) Cancel(ctx context.Context, r matchmaking.CancelRequest) error {
	k, keep := s.keys(r.Queue), ""
	if r.Keep > 0 {
		keep = redis.Milliseconds(r.Keep)
	}
	keys := []string{
		k.ticket(r.ID), k.assignment(r.ID), k.waiting(), k.expiries(), k.proposed(), k.claims(), k.changes(), k.stats(),
		k.director(), k.listening(),
	}
	return s.do(ctx, cancelScript, keys, []string{
		r.ID, keep, flagText(r.RemoveAssigned), flagText(r.Deindex), k.nudges(), k.feed(), k.assigned(),
	})
}

// Renew runs renew.lua.
func (s *Store) Renew(ctx context.Context, queue string, ids []string) error {
	k := s.keys(queue)
	for batch := range slices.Chunk(ids, maxIDs) {
		keys := append(make([]string, 0, 3+len(batch)), k.waiting(), k.expiries(), k.listening())
		for _, id := range batch {
			keys = append(keys, k.ticket(id))
		}
		if err := s.do(ctx, renewScript, keys, batch); err != nil {
			return err
		}
	}
	return nil
}
