package queues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

var statesScript = lua.Must("queues/states")

// ListenAssigned subscribes to the topic on which scripts notify of assigned or removed tickets. An unreadable
// notification counts as an interruption, since its content is lost.
func (s *Store) ListenAssigned(queue string, l matchmaking.AssignedListener) (stop func()) {
	return s.conn.Listen(s.keys(queue).assigned(), pubsub.Listener{
		Confirmed:   l.Confirmed,
		Interrupted: func(error) { l.Interrupted() },
		Repeats:     true,
		Message: func(text string) {
			if err := parseEnds(text, l.Ended); err != nil {
				s.conn.Logger().Warn("cannot read a notification of assignments", "queue", queue, "error", err)
				l.Interrupted()
				l.Confirmed()
			}
		},
	})
}

// notifyAssigned publishes the tickets of matches that replicas have confirmed: players are not notified earlier. If it
// fails, or its server stops first, waiting clients find the assignment at the next read of the ticket.
func (s *Store) notifyAssigned(ctx context.Context, r matchmaking.AssignRequest, outcomes []matchmaking.AssignOutcome) {
	var assigned []matchmaking.AssignTicket
	for i, o := range outcomes {
		if o.Err == nil && len(o.Conflicts) == 0 {
			assigned = append(assigned, r.Matches[i].Assignments...)
		}
	}
	s.notifyTickets(ctx, r.Queue, assigned)
}

func (s *Store) notifyTickets(ctx context.Context, queue string, assigned []matchmaking.AssignTicket) {
	var text []byte
	publish := func() {
		c := s.conn.Client()
		err := s.conn.Retry(ctx, "notify", func(ctx context.Context) error {
			return c.Do(ctx, c.B().Spublish().Channel(s.keys(queue).assigned()).Message(string(text)).Build()).Error()
		})
		if err != nil && ctx.Err() == nil {
			s.conn.Logger().WarnContext(ctx, "cannot notify of assignments", "queue", queue, "error", err)
		}
		text = text[:0]
	}
	for i, created := range s.creationsOf(ctx, queue, assigned) {
		a := &assigned[i]
		if created.IsZero() {
			continue // it was removed since
		}
		if len(text) > 0 && len(text)+len(a.Content) > feedBytes {
			publish()
		}
		text = fmt.Appendf(text, "%s %d %d %s", a.ID, created.UnixMicro(), len(a.Content), a.Content)
	}
	if len(text) > 0 {
		publish()
	}
}

// creationsOf returns when assigned tickets were created. It reads the time of those for which none was requested.
func (s *Store) creationsOf(ctx context.Context, queue string, assigned []matchmaking.AssignTicket) []time.Time {
	times, at := make([]time.Time, len(assigned)), map[string]int{}
	var ids []string
	for i, a := range assigned {
		if times[i] = a.Created; a.Created.IsZero() {
			ids, at[a.ID] = append(ids, a.ID), i
		}
	}
	if len(ids) == 0 {
		return times
	}
	states, err := s.States(ctx, queue, ids)
	if err != nil && ctx.Err() == nil {
		s.conn.Logger().WarnContext(ctx, "cannot notify of assignments", "queue", queue, "error", err)
	}
	for i, state := range states {
		times[at[ids[i]]] = state.Created
	}
	return times
}

// statesAtOnce is the number of tickets that one call of states.lua reads.
const statesAtOnce = 1000

// States runs states.lua.
func (s *Store) States(ctx context.Context, queue string, ids []string) ([]matchmaking.TicketState, error) {
	states := make([]matchmaking.TicketState, 0, len(ids))
	for batch := range slices.Chunk(ids, statesAtOnce) {
		call := s.statesCall(queue, batch)
		rep, err := s.conn.Run(ctx, statesScript, call.Keys, call.Args)
		if err != nil {
			return nil, fmt.Errorf("read the states of tickets: %w", err)
		}
		found, err := decodeStates(rep, len(batch))
		if err != nil {
			return nil, err
		}
		if s.confirmed != nil {
			s.confirmStates(ctx, queue, batch, found)
		}
		states = append(states, found...)
	}
	return states, nil
}

func (s *Store) statesCall(queue string, ids []string) redis.Call {
	k := s.keys(queue)
	keys := append(make([]string, 0, 2+2*len(ids)), k.waiting(), k.expiries())
	for _, id := range ids {
		keys = append(keys, k.ticket(id), k.assignment(id))
	}
	return redis.Call{Keys: keys, Args: ids}
}

// confirmStates repeats the read of the states with an assignment, until enough replicas have it too. On a failure or a
// timeout they are Unconfirmed.
func (s *Store) confirmStates(ctx context.Context, queue string, ids []string, states []matchmaking.TicketState) {
	var at []int
	var assigned []string
	for i, state := range states {
		if state.Content != "" {
			at, assigned = append(at, i), append(assigned, ids[i])
		}
	}
	if len(assigned) == 0 {
		return
	}
	confirmed, err := s.confirmedStates(ctx, queue, assigned)
	for n, i := range at {
		if err == nil {
			states[i] = confirmed[n]
		} else {
			states[i].Content, states[i].Unconfirmed = "", true
		}
	}
}

// confirmedStates reads the states of tickets that enough replicas have.
func (s *Store) confirmedStates(ctx context.Context, queue string, ids []string) ([]matchmaking.TicketState, error) {
	rep, err := s.confirmed.readStates(ctx, s.keys(queue).matched(), s.statesCall(queue, ids))
	if err != nil {
		return nil, fmt.Errorf("confirm the assignments of tickets: %w", err)
	}
	return decodeStates(rep, len(ids))
}

var errChanged = fault.ErrUnavailable.WithCause(errors.New("the ticket was changed while it was read"))

// confirmTicket completes the result of a ticket read. If the ticket is assigned, it waits until enough replicas have
// the assignment, so that it may be sent to the player.
func (s *Store) confirmTicket(ctx context.Context, t *matchmaking.Ticket) error {
	if t.Assignment == nil || s.confirmed == nil {
		return nil
	}
	states, err := s.confirmedStates(ctx, t.Queue, []string{t.ID})
	switch {
	case err != nil:
	case states[0].Content == "" || !states[0].Created.Equal(t.CreateTime):
		err = errChanged
	default:
		err = setAssignment(t, []byte(states[0].Content))
	}
	if err != nil {
		*t = matchmaking.Ticket{}
	}
	return err
}

// decodeStates returns the states of n tickets.
func decodeStates(r redis.Reply, n int) ([]matchmaking.TicketState, error) {
	if r.Status != redis.OK {
		return nil, refusals.Error(r)
	}
	d := r.Decoder()
	states := make([]matchmaking.TicketState, 0, n)
	d.Each(func(list *redis.Decoder) {
		var state matchmaking.TicketState
		if created := list.Int64(); created != 0 {
			state.Created = time.UnixMicro(created)
		}
		state.Remaining, state.Content = time.Duration(list.Int64())*time.Millisecond, list.Text()
		states = append(states, state)
	})
	if len(states) != n {
		d.Fail(fmt.Errorf("%d states of %d tickets", len(states), n))
	}
	return states, d.End()
}

// removedSize is the size in a notification that marks a removed ticket.
const removedSize = -1

// parseEnds calls each for the tickets of a notification: "<id> <created, µs> <size> <assignment of that many bytes>",
// one after the other. A size of 0 means that the assignment was omitted.
func parseEnds(text string, each func(matchmaking.TicketEnd)) error {
	if text == "" {
		return errNotification
	}
	for text != "" {
		parts, rest, err := cut(text)
		if err != nil {
			return err
		}
		created, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %w", errNotification, err)
		}
		size, err := strconv.Atoi(parts[2])
		if err != nil || size < removedSize || size > len(rest) {
			return fmt.Errorf("%w: size %q", errNotification, parts[2])
		}
		end := matchmaking.TicketEnd{ID: parts[0], Created: time.UnixMicro(created), Removed: size == removedSize}
		end.Content, text = rest[:max(size, 0)], rest[max(size, 0):]
		each(end)
	}
	return nil
}
