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
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/group"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var assignScript = lua.Must("queues/assign")

// Limits of one call of assign.lua or handout.lua. A match is never split: a larger one has its own call. The
// notification of a full call of small assignments contains them, and other commands run between the calls.
const (
	assignTickets = 128
	assignBytes   = 512 << 10
)

// feedBytes is the size beyond which a notification of assignments omits their contents.
const feedBytes = 64 << 10

// Assign runs assign.lua for many matches at once, all calls in one round trip.
func (s *Store) Assign(ctx context.Context, r matchmaking.AssignRequest) []matchmaking.AssignOutcome {
	parts := group.Parts(r.Matches, assignSize, assignTickets, assignBytes)
	calls := make([]redis.Call, len(parts))
	for i, part := range parts {
		calls[i] = s.assignCall(r, part)
	}
	run := s.conn.RunMany
	if s.confirmed != nil {
		run = s.confirmed.runMany(s.keys(r.Queue).matched(), statuses{Repeated: statusExists, Refused: statusConflict})
	}
	outcomes := make([]matchmaking.AssignOutcome, 0, len(r.Matches))
	for i, result := range run(ctx, assignScript, calls) {
		outcomes = append(outcomes, assigned(parts[i], result)...)
	}
	if s.confirmed != nil {
		s.notifyAssigned(ctx, r, outcomes)
	}
	return outcomes
}

// assignSize returns the number of tickets of a match, and their approximate size in bytes.
func assignSize(m matchmaking.AssignMatch) (tickets, bytes int) {
	for _, a := range m.Assignments {
		bytes += len(a.Content)
	}
	return max(1, len(m.Assignments)), bytes + len(m.Record)
}

func (s *Store) assignCall(r matchmaking.AssignRequest, matches []matchmaking.AssignMatch) redis.Call {
	k := s.keys(r.Queue)
	tickets := 0
	for _, m := range matches {
		tickets += len(m.Assignments)
	}
	c := redis.Call{
		Keys: make([]string, 0, 9+len(matches)+2*tickets),
		Args: make([]string, 0, 7+3*len(matches)+4*tickets),
	}
	c.Keys = append(c.Keys, k.waiting(), k.expiries(), k.proposed(), k.claims(), k.outbox(), k.matched(), k.stats(),
		k.director(),
		k.listening())
	c.Args = append(c.Args, r.Token, fenceText(r.Fence), redis.Milliseconds(r.Keep), k.assigned(), s.notifies(),
		strconv.Itoa(feedBytes), flagText(r.Any))
	for _, m := range matches {
		c.Keys = append(c.Keys, k.match(m.ID))
		c.Args = append(c.Args, m.ID, string(m.Record), strconv.Itoa(len(m.Assignments)))
		for _, a := range m.Assignments {
			c.Keys = append(c.Keys, k.ticket(a.ID), k.assignment(a.ID))
			c.Args = append(c.Args, a.ID, createdText(a.Created), epochText(a.Epoch), string(a.Content))
		}
	}
	return c
}

// notifies returns the script argument for whether a script notifies players of assignments. If replicas have to
// confirm these, notifyAssigned does.
func (s *Store) notifies() string { return flagText(s.confirmed == nil) }

// flagText returns the script argument for a condition.
func flagText(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

// Match parses the value after the mark of a match: its assignment time and its record.
func (s *Store) Match(ctx context.Context, queue, id string) (record []byte, at time.Time, err error) {
	c, key := s.conn.Client(), s.keys(queue).match(id)
	err = s.conn.Retry(ctx, "match", func(ctx context.Context) error {
		value, err := c.Do(ctx, c.B().Get().Key(key).Build()).AsBytes()
		if err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
		parts := bytes.SplitN(value, []byte(" "), 4)
		if len(parts) < 4 || len(parts[3]) == 0 {
			return matchmaking.ErrNoMatch
		}
		us, err := strconv.ParseInt(string(parts[2]), 10, 64)
		record, at = parts[3], time.UnixMicro(us).UTC()
		return err
	})
	return record, at, err
}

// isTransient reports whether an error is caused by the state of the storage and not by the request.
func isTransient(err error) bool {
	return errors.Is(err, fault.ErrUnavailable) || errors.Is(err, fault.ErrStorageFull)
}

// createdText returns the script argument for a ticket's creation time: empty for any time.
func createdText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return strconv.FormatInt(at.UnixMicro(), 10)
}

// assigned returns the outcomes of the matches of one call. If replicas didn't confirm the call, only refusals are
// certain.
func assigned(matches []matchmaking.AssignMatch, r redis.Result) []matchmaking.AssignOutcome {
	outcomes, err := make([]matchmaking.AssignOutcome, 0, len(matches)), r.Err
	if err == nil || r.Reply.Status != "" {
		decoded, malformed := assignOutcomes(r.Reply, len(matches))
		outcomes, err = append(outcomes, decoded...), errors.Join(err, malformed)
	}
	if _, replied := errors.AsType[*rueidis.RedisError](err); replied && !isTransient(err) {
		err = fmt.Errorf("%w: %w", matchmaking.ErrNotAssigned, err)
	}
	all := make([]matchmaking.AssignOutcome, len(matches))
	for i, m := range matches {
		if i < len(outcomes) && (err == nil || len(outcomes[i].Conflicts) > 0 || outcomes[i].Err != nil) {
			all[i] = outcomes[i]
		} else {
			all[i].Err = fmt.Errorf("match %s: %w", m.ID, err)
		}
	}
	return all
}

// assignOutcomes decodes the reply of assign.lua for n matches.
func assignOutcomes(r redis.Reply, n int) ([]matchmaking.AssignOutcome, error) {
	switch r.Status {
	case redis.OK, statusExists, statusConflict:
	default:
		return nil, refusals.Error(r)
	}
	d := r.Decoder()
	outcomes := make([]matchmaking.AssignOutcome, 0, n)
	d.Each(func(list *redis.Decoder) {
		outcome := list.List()
		outcomes = append(outcomes, assignOutcome(outcome))
		list.Fail(outcome.End())
	})
	if len(outcomes) != n {
		d.Fail(fmt.Errorf("%d outcomes of %d matches", len(outcomes), n))
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	return outcomes, nil
}

// assignOutcome decodes the outcome of one match.
func assignOutcome(d *redis.Decoder) (o matchmaking.AssignOutcome) {
	switch status := redis.Status(d.Text()); status {
	case redis.OK:
		o.Entries = d.Texts()
		d.Each(func(list *redis.Decoder) {
			o.Waits = append(o.Waits, time.Duration(list.Int64())*time.Microsecond)
		})
	case statusConflict:
		o.Conflicts = conflicts(d)
	case statusLease:
		o.Err = lease.ErrLost
	case statusExists:
	default:
		d.Fail(fmt.Errorf("outcome %q", status))
	}
	return o
}

func conflicts(d *redis.Decoder) (all []matchmaking.Conflict) {
	d.Each(func(list *redis.Decoder) {
		all = append(all, matchmaking.Conflict{ID: list.Text(), Reason: reason(list), Until: list.Millis()})
	})
	return all
}

func reason(d *redis.Decoder) matchmaking.ConflictReason {
	found := matchmaking.ConflictReason(d.Text())
	switch found {
	case matchmaking.ConflictNotWaiting, matchmaking.ConflictClaim:
	default:
		d.Fail(fmt.Errorf("reason %q", found))
	}
	return found
}
