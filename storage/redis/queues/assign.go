package queues

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var assignScript = lua.Must("queues/assign")

// Assign runs assign.lua for each match, all in one round trip.
func (s *Store) Assign(ctx context.Context, r matchmaking.AssignRequest) []matchmaking.AssignOutcome {
	calls := make([]redis.Call, len(r.Matches))
	for i, m := range r.Matches {
		calls[i] = s.assignCall(r, m)
	}
	run := s.conn.RunMany
	if s.confirmations > 0 {
		run = s.runManyConfirmed(r.Queue)
	}
	outcomes := make([]matchmaking.AssignOutcome, len(r.Matches))
	for i, result := range run(ctx, assignScript, calls) {
		outcomes[i] = assigned(r.Matches[i].ID, result)
	}
	return outcomes
}

func (s *Store) assignCall(r matchmaking.AssignRequest, m matchmaking.AssignMatch) redis.Call {
	k := s.keys(r.Queue)
	c := redis.Call{
		Keys: make([]string, 0, 8+2*len(m.Assignments)),
		Args: make([]string, 0, 4+4*len(m.Assignments)),
	}
	c.Keys = append(c.Keys, k.waiting(), k.expiries(), k.proposed(), k.claims(), k.outbox(), k.matched(), k.stats(), k.match(m.ID))
	c.Args = append(c.Args, m.ID, r.Token, milliseconds(r.Keep), string(m.Record))
	for _, a := range m.Assignments {
		c.Keys = append(c.Keys, k.ticket(a.ID), k.assignment(a.ID))
		c.Args = append(c.Args, a.ID, createdText(a.Created), epochText(a.Epoch), string(a.Content))
	}
	return c
}

// Match reads the record after the mark of a match.
func (s *Store) Match(ctx context.Context, queue, id string) (record []byte, err error) {
	c, key := s.conn.Client(), s.keys(queue).match(id)
	err = s.conn.Retry(ctx, "match", func(ctx context.Context) error {
		value, err := c.Do(ctx, c.B().Get().Key(key).Build()).AsBytes()
		if err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
		if parts := bytes.SplitN(value, []byte(" "), 3); len(parts) == 3 && len(parts[2]) > 0 {
			record = parts[2]
			return nil
		}
		return matchmaking.ErrNoMatch
	})
	return record, err
}

// mayPass reports whether an error is due to the state of the storage and not to the request.
func mayPass(err error) bool {
	return errors.Is(err, fault.ErrUnavailable) || errors.Is(err, fault.ErrStorageFull)
}

// createdText returns the argument of scripts for when a ticket was created: empty for any time.
func createdText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return strconv.FormatInt(at.UnixMicro(), 10)
}

// assigned decodes what assign.lua returned for a match.
func assigned(match string, r redis.Result) matchmaking.AssignOutcome {
	var o matchmaking.AssignOutcome
	if r.Err != nil {
		o.Err = fmt.Errorf("match %s: %w", match, r.Err)
		if _, replied := errors.AsType[*rueidis.RedisError](r.Err); replied && !mayPass(r.Err) {
			o.Err = fmt.Errorf("%w: %w", matchmaking.ErrNotAssigned, o.Err)
		}
		return o
	}
	d := r.Reply.Decoder()
	switch r.Reply.Status {
	case redis.OK:
		o.Entries = d.Texts()
		d.Each(func(list *redis.Decoder) {
			o.Waits = append(o.Waits, time.Duration(list.Int64())*time.Microsecond)
		})
	case statusConflict:
		d.Each(func(list *redis.Decoder) {
			o.Conflicts = append(o.Conflicts, matchmaking.Conflict{ID: list.Text(), Reason: reason(list)})
		})
	case statusExists:
	default:
		return matchmaking.AssignOutcome{Err: refusals.Error(r.Reply)}
	}
	if err := d.End(); err != nil {
		return matchmaking.AssignOutcome{Err: err}
	}
	return o
}

func reason(d *redis.Decoder) matchmaking.ConflictReason {
	found := matchmaking.ConflictReason(d.Text())
	switch found {
	case matchmaking.ConflictGone, matchmaking.ConflictClaim:
	default:
		d.Fail(fmt.Errorf("reason %q", found))
	}
	return found
}
