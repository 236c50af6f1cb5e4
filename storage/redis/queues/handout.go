package queues

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/group"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var (
	handoutScript = lua.Must("queues/handout")
	freeScript    = lua.Must("queues/free")
)

// numbered is a match with its number in a request, and the stored forms of its backfill.
type numbered struct {
	*matchmaking.HandOutMatch
	number           int
	rest, persistent []byte
}

// size returns the number of tickets of a match, and the approximate size of its arguments in bytes.
func (m numbered) size() (tickets, bytes int) {
	return max(1, len(m.Tickets)), 64*(1+len(m.Tickets)) + len(m.rest) + len(m.persistent)
}

// HandOut runs handout.lua for many matches at once, all calls in one round trip.
func (s *Store) HandOut(ctx context.Context, r matchmaking.HandOutRequest) []matchmaking.HandOutOutcome {
	outcomes := make([]matchmaking.HandOutOutcome, len(r.Matches))
	var all []numbered
	for i := range r.Matches {
		m := numbered{HandOutMatch: &r.Matches[i], number: i}
		if m.Backfill != nil {
			if m.rest, m.persistent, outcomes[i].Err = content(&m.Backfill.Spec); outcomes[i].Err != nil {
				continue
			}
		}
		all = append(all, m)
	}
	parts := group.Parts(all, numbered.size, assignTickets, assignBytes)
	calls := make([]redis.Call, len(parts))
	for i, part := range parts {
		calls[i] = s.handoutCall(&r, part)
	}
	run := s.conn.RunMany
	if s.confirmed != nil {
		run = s.confirmed.runMany(s.keys(r.Queue).matched(), statuses{Refused: statusConflict})
	}
	for i, result := range run(ctx, handoutScript, calls) {
		found, err := handedOut(r.Queue, parts[i], result)
		for at, m := range parts[i] {
			if err != nil {
				outcomes[m.number].Err = fmt.Errorf("hand out a match: %w", err)
			} else {
				outcomes[m.number] = found[at]
			}
		}
	}
	return outcomes
}

func (s *Store) handoutCall(r *matchmaking.HandOutRequest, matches []numbered) redis.Call {
	k := s.keys(r.Queue)
	c := redis.Call{
		Keys: []string{k.waiting(), k.expiries(), k.proposed(), k.claims(), k.backfills()},
		Args: []string{redis.Milliseconds(r.Hold), redis.Milliseconds(r.BackfillTTL), strconv.Itoa(r.MaxBackfills),
			strconv.Itoa(matchmaking.MaxBackfillTickets)},
	}
	for _, m := range matches {
		kind := ""
		if m.Backfill != nil && m.Backfill.Create {
			kind = "new"
		} else if m.Backfill != nil {
			kind = "old"
		}
		c.Args = append(c.Args, r.Token+"-"+strconv.Itoa(m.number), strconv.Itoa(len(m.Tickets)), kind)
		if b := m.Backfill; b != nil {
			c.Keys = append(c.Keys, k.backfill(b.ID))
			c.Args = append(c.Args, b.ID, strconv.FormatInt(b.Generation, 10), string(m.rest), string(m.persistent))
		}
		for _, t := range m.Tickets {
			c.Args = append(c.Args, t.ID, createdText(t.Created))
		}
	}
	return c
}

// handedOut decodes the outcomes of the matches of one call.
func handedOut(queue string, matches []numbered, r redis.Result) ([]matchmaking.HandOutOutcome, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	if r.Reply.Status != redis.OK && r.Reply.Status != statusConflict {
		return nil, refusals.Error(r.Reply)
	}
	d := r.Reply.Decoder()
	now := d.Millis()
	outcomes := make([]matchmaking.HandOutOutcome, 0, len(matches))
	d.Each(func(list *redis.Decoder) {
		outcome := list.List()
		if len(outcomes) < len(matches) {
			o := handOutOutcome(outcome, queue, matches[len(outcomes)])
			if !o.Held.IsZero() {
				o.Remaining = o.Held.Sub(now)
			}
			outcomes = append(outcomes, o)
		}
		list.Fail(outcome.End())
	})
	if len(outcomes) != len(matches) {
		d.Fail(fmt.Errorf("%d outcomes of %d matches", len(outcomes), len(matches)))
	}
	return outcomes, d.End()
}

// handOutOutcome decodes the outcome of one match.
func handOutOutcome(d *redis.Decoder, queue string, m numbered) (o matchmaking.HandOutOutcome) {
	switch status := redis.Status(d.Text()); status {
	case redis.OK:
		o.Held = d.Millis()
		if m.Backfill != nil {
			b, err := decodeBackfill(d.List(), queue, m.Backfill.ID)
			d.Fail(err)
			o.Backfill = &b
		}
	case statusConflict:
		o.Err = matchmaking.ErrNotHandedOut
		o.Conflicts = conflicts(d)
	case statusChanged:
		o.Err = matchmaking.ErrBackfillChanged
	case statusFull:
		o.Err = matchmaking.ErrTooManyBackfills
	default:
		d.Fail(fmt.Errorf("outcome %q", status))
	}
	return o
}

// ReleaseFetched runs free.lua, once for each 3,000 tickets, or for each thousand claims of the queue.
func (s *Store) ReleaseFetched(ctx context.Context, queue string, ids []string) error {
	k, parts := s.keys(queue), slices.Collect(slices.Chunk(ids, maxIDs))
	if ids == nil {
		parts = [][]string{nil}
	}
	for _, batch := range parts {
		for from := "0"; from != ""; {
			keys := []string{k.proposed(), k.claims(), k.director(), k.changes()}
			d, err := s.run(ctx, freeScript, keys, append([]string{k.nudges(), k.feed(), from}, batch...))
			if err != nil {
				return err
			}
			from = d.Text()
			if err := d.End(); err != nil {
				return err
			}
		}
	}
	return nil
}
