package queues

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
	"github.com/tidemark-dev/tidemark/storage/redis/queues/internal/record"
)

var statesScript = lua.Must("queues/states")

// ListenAssigned subscribes to the topic on which scripts notify of tickets that are assigned or removed. After a
// notification that it cannot read, l can't know what it has missed, as after an interruption.
func (s *Store) ListenAssigned(queue string, l matchmaking.AssignedListener) (stop func()) {
	return s.conn.Listen(s.keys(queue).assigned(), pubsub.Listener{
		Confirmed:   l.Confirmed,
		Interrupted: func(error) { l.Interrupted() },
		Repeats:     true,
		Message: func(text string) {
			if err := record.Ends(text, l.Ended); err != nil {
				s.conn.Logger().Warn("cannot read a notification of assignments", "queue", queue, "error", err)
				l.Interrupted()
				l.Confirmed()
			}
		},
	})
}

// notifyAssigned publishes the tickets of matches that replicas have confirmed: no player is told before. If it fails, or its
// server dies first, those who wait find the assignment when they read the ticket again.
func (s *Store) notifyAssigned(ctx context.Context, r matchmaking.AssignRequest, outcomes []matchmaking.AssignOutcome) {
	var text []byte
	publish := func() {
		c := s.conn.Client()
		err := s.conn.Retry(ctx, "notify", func(ctx context.Context) error {
			return c.Do(ctx, c.B().Spublish().Channel(s.keys(r.Queue).assigned()).Message(string(text)).Build()).Error()
		})
		if err != nil && ctx.Err() == nil {
			s.conn.Logger().WarnContext(ctx, "cannot notify of assignments", "queue", r.Queue, "error", err)
		}
		text = text[:0]
	}
	for i, o := range outcomes {
		if o.Err != nil || len(o.Conflicts) > 0 {
			continue
		}
		for _, a := range r.Matches[i].Assignments {
			if a.Created.IsZero() {
				continue // any ticket with the ID was meant
			}
			if len(text) > 0 && len(text)+len(a.Content) > feedBytes {
				publish()
			}
			text = fmt.Appendf(text, "%s %d %d %s", a.ID, a.Created.UnixMicro(), len(a.Content), a.Content)
		}
	}
	if len(text) > 0 {
		publish()
	}
}

// statesAtOnce is how many tickets one call of states.lua reads.
const statesAtOnce = 1000

// States runs states.lua.
func (s *Store) States(ctx context.Context, queue string, ids []string) ([]matchmaking.TicketState, error) {
	k := s.keys(queue)
	states := make([]matchmaking.TicketState, 0, len(ids))
	for some := range slices.Chunk(ids, statesAtOnce) {
		keys := append(make([]string, 0, 2+2*len(some)), k.waiting(), k.expiries())
		for _, id := range some {
			keys = append(keys, k.ticket(id), k.assignment(id))
		}
		rep, err := s.conn.Run(ctx, statesScript, keys, some)
		if err != nil {
			return nil, fmt.Errorf("read the states of tickets: %w", err)
		}
		if states, err = decodeStates(rep, states, len(some)); err != nil {
			return nil, err
		}
	}
	return states, nil
}

// decodeStates appends the states of n tickets.
func decodeStates(r redis.Reply, states []matchmaking.TicketState, n int) ([]matchmaking.TicketState, error) {
	if r.Status != redis.OK {
		return nil, refusals.Error(r)
	}
	d := r.Decoder()
	before := len(states)
	d.Each(func(list *redis.Decoder) {
		var state matchmaking.TicketState
		if created := list.Int64(); created != 0 {
			state.Created = time.UnixMicro(created)
		}
		state.Left, state.Content = time.Duration(list.Int64())*time.Millisecond, list.Text()
		states = append(states, state)
	})
	if len(states)-before != n {
		d.Fail(fmt.Errorf("%d states of %d tickets", len(states)-before, n))
	}
	return states, d.End()
}
