package queues

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/group"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var (
	newbackfillScript = lua.Must("queues/newbackfill")
	backfillScript    = lua.Must("queues/backfill")
	backfillsScript   = lua.Must("queues/backfills")
	setbackfillScript = lua.Must("queues/setbackfill")
	delbackfillScript = lua.Must("queues/delbackfill")
	acknowledgeScript = lua.Must("queues/acknowledge")
	prolongScript     = lua.Must("queues/prolong")
)

// Limits of one call of backfill.lua or delbackfill.lua.
const (
	backfillsAtOnce = 100
	backfillBytes   = 1 << 20 // of the contents that are read, unless one has more
)

// content returns the stored forms of a backfill's content: the persistent field, and the rest. Appended they are one
// message: an update may replace the first without the second.
func content(spec *matchmaking.BackfillSpec) (rest, persistent []byte, err error) {
	rest, err = encodeSpec(&matchmaking.Spec{SearchFields: spec.SearchFields, Extensions: spec.Extensions})
	if err != nil {
		return nil, nil, err
	}
	persistent, err = encodeSpec(&matchmaking.Spec{PersistentField: spec.PersistentField})
	return rest, persistent, err
}

// BackfillSize implements matchmaking.Backfills.
func (*Store) BackfillSize(spec *matchmaking.BackfillSpec) int {
	return proto.Size(storedTicket(&matchmaking.Spec{
		SearchFields: spec.SearchFields, Extensions: spec.Extensions, PersistentField: spec.PersistentField,
	}, ""))
}

// decodeBackfill decodes a backfill in the reply of a script.
func decodeBackfill(d *redis.Decoder, queue, id string) (matchmaking.Backfill, error) {
	b := matchmaking.Backfill{ID: id, Queue: queue, Expires: d.Millis(), Generation: d.Int64(), CreateTime: d.Micros()}
	rest, persistent := d.Bytes(), d.Bytes()
	b.Tickets = strings.Fields(d.Text())
	var content matchmaking.Ticket
	if err := decodeSpec(slices.Concat(rest, persistent), &content); err != nil {
		d.Fail(fmt.Errorf("backfill %s: %w", id, err))
	}
	b.BackfillSpec = matchmaking.BackfillSpec{
		SearchFields: content.SearchFields, Extensions: content.Extensions, PersistentField: content.PersistentField,
	}
	return b, d.End()
}

// backfillOf decodes a reply that is one backfill.
func backfillOf(rep redis.Reply, queue, id string) (matchmaking.Backfill, error) {
	if rep.Status != redis.OK {
		if rep.Status == statusFull {
			return matchmaking.Backfill{}, matchmaking.ErrTooManyBackfills
		}
		return matchmaking.Backfill{}, refusals.Error(rep)
	}
	d := rep.Decoder()
	b, err := decodeBackfill(d.List(), queue, id)
	return b, errors.Join(err, d.End())
}

// CreateBackfill runs newbackfill.lua.
func (s *Store) CreateBackfill(ctx context.Context, r matchmaking.CreateBackfillRequest) (matchmaking.Backfill, error) {
	rest, persistent, err := content(&r.Spec)
	if err != nil {
		return matchmaking.Backfill{}, fmt.Errorf("create backfill %s: %w", r.ID, err)
	}
	k := s.keys(r.Queue)
	args := []string{r.ID, redis.Milliseconds(r.TTL), strconv.Itoa(r.Max), string(rest), string(persistent), k.nudges()}
	rep, err := s.conn.Run(ctx, newbackfillScript, []string{k.backfills(), k.backfill(r.ID), k.director()}, args)
	if err != nil {
		return matchmaking.Backfill{}, err
	}
	return backfillOf(rep, r.Queue, r.ID)
}

// Backfill runs backfill.lua for one backfill.
func (s *Store) Backfill(ctx context.Context, queue, id string) (matchmaking.Backfill, error) {
	found, _, err := s.readBackfills(ctx, queue, []string{id})
	switch {
	case err != nil:
		return matchmaking.Backfill{}, err
	case len(found) == 0:
		return matchmaking.Backfill{}, matchmaking.ErrNoBackfill
	}
	return *found[0], nil
}

// readBackfills runs backfill.lua for the first backfills, of at most backfillBytes. It returns how many of the IDs
// that were, and leaves those out that do not exist.
func (s *Store) readBackfills(ctx context.Context, queue string, ids []string) (found []*matchmaking.Backfill, read int,
	err error) {
	k := s.keys(queue)
	keys := append(make([]string, 0, 1+len(ids)), k.backfills())
	for _, id := range ids {
		keys = append(keys, k.backfill(id))
	}
	d, err := s.run(ctx, backfillScript, keys, append([]string{strconv.Itoa(backfillBytes)}, ids...))
	if err != nil {
		return nil, 0, err
	}
	d.Each(func(list *redis.Decoder) {
		values := list.List()
		if values.Len() > 0 && read < len(ids) {
			b, err := decodeBackfill(values, queue, ids[read])
			list.Fail(err)
			found = append(found, &b)
		}
		read++
	})
	if read == 0 || read > len(ids) {
		d.Fail(fmt.Errorf("%d of %d backfills", read, len(ids)))
	}
	return found, read, d.End()
}

// EachBackfill runs backfills.lua for each page, by the ends of the backfills' lives, and backfill.lua for its
// backfills. An acknowledgement moves a backfill to a later page: it may be in two of them, of which the second is
// left out, but in none only if it was removed.
func (s *Store) EachBackfill(ctx context.Context, queue string, each func([]*matchmaking.Backfill) error) error {
	seen, from, limit := map[string]bool{}, int64(0), pageSize
	for {
		ids, last, err := s.backfillPage(ctx, queue, false, from, limit)
		if err != nil {
			return err
		}
		full := len(ids) == limit
		ids = slices.DeleteFunc(ids, func(id string) bool { return seen[id] })
		for _, id := range ids {
			seen[id] = true
		}
		for len(ids) > 0 {
			found, read, err := s.readBackfills(ctx, queue, ids[:min(len(ids), backfillsAtOnce)])
			if err != nil {
				return err
			}
			if err := each(found); err != nil {
				return err
			}
			ids = ids[read:]
		}
		switch {
		case !full:
			return nil
		case last == from: // more lives than a page holds end in the same millisecond
			limit += pageSize
		default:
			from, limit = last, pageSize
		}
	}
}

// backfillPage runs backfills.lua. last is the end of the life of the page's last backfill.
func (s *Store) backfillPage(ctx context.Context, queue string, ended bool, from int64, limit int) (ids []string,
	last int64, err error) {
	args := []string{flagText(ended), strconv.FormatInt(from, 10), strconv.Itoa(limit)}
	d, err := s.run(ctx, backfillsScript, []string{s.keys(queue).backfills()}, args)
	if err != nil {
		return nil, 0, err
	}
	d.Each(func(list *redis.Decoder) {
		ids = append(ids, list.Text())
		last = list.Int64()
	})
	return ids, last, d.End()
}

// UpdateBackfill runs setbackfill.lua.
func (s *Store) UpdateBackfill(ctx context.Context, r matchmaking.UpdateBackfillRequest) (matchmaking.Backfill, error) {
	rest, _, err := content(&r.Spec)
	if err != nil {
		return matchmaking.Backfill{}, fmt.Errorf("update backfill %s: %w", r.ID, err)
	}
	k := s.keys(r.Queue)
	keys := []string{k.backfills(), k.backfill(r.ID), k.proposed(), k.claims(), k.director(), k.changes()}
	rep, err := s.conn.Run(ctx, setbackfillScript, keys, []string{r.ID, r.Attempt, string(rest), k.nudges(), k.feed()})
	if err != nil {
		return matchmaking.Backfill{}, err
	}
	return backfillOf(rep, r.Queue, r.ID)
}

// removed selects the backfills that delbackfill.lua removes.
type removed string

const (
	removedAll   removed = "all"
	removedNew   removed = "new"   // those that have generation 1
	removedEnded removed = "ended" // those whose lives have ended
)

// DeleteBackfills runs delbackfill.lua.
func (s *Store) DeleteBackfills(ctx context.Context, queue string, ids []string) error {
	_, err := s.removeAll(ctx, queue, removedAll, ids)
	return err
}

// DeleteNewBackfills runs delbackfill.lua.
func (s *Store) DeleteNewBackfills(ctx context.Context, queue string, ids []string) error {
	_, err := s.removeAll(ctx, queue, removedNew, ids)
	return err
}

// ExpireBackfills reads backfills whose lives have ended, and runs delbackfill.lua for them.
func (s *Store) ExpireBackfills(ctx context.Context, queue string, limit int) (n int, err error) {
	for n < limit {
		ids, _, err := s.backfillPage(ctx, queue, true, 0, min(limit-n, backfillsAtOnce))
		if err != nil || len(ids) == 0 {
			return n, err
		}
		count, err := s.removeAll(ctx, queue, removedEnded, ids)
		n += count
		if err != nil || count == 0 {
			return n, err
		}
	}
	return n, nil
}

// removeAll removes those of some backfills that which selects, and returns how many these were.
func (s *Store) removeAll(ctx context.Context, queue string, which removed, ids []string) (n int, err error) {
	for len(ids) > 0 {
		count, seen, err := s.removeBackfills(ctx, queue, which, ids[:min(len(ids), backfillsAtOnce)])
		n += count
		if err != nil {
			return n, err
		}
		ids = ids[seen:]
	}
	return n, nil
}

// removeBackfills runs delbackfill.lua. It returns how many of the first backfills it has removed, and how many it has
// seen: at least one.
func (s *Store) removeBackfills(ctx context.Context, queue string, which removed, ids []string) (n, seen int, err error) {
	k := s.keys(queue)
	keys := []string{k.backfills(), k.proposed(), k.claims(), k.director(), k.changes()}
	for _, id := range ids {
		keys = append(keys, k.backfill(id))
	}
	args := append([]string{string(which), k.nudges(), k.feed()}, ids...)
	d, err := s.run(ctx, delbackfillScript, keys, args)
	if err != nil {
		return 0, 0, err
	}
	n, seen = int(d.Int64()), int(d.Int64())
	if seen < 1 || seen > len(ids) {
		d.Fail(fmt.Errorf("%d backfills of %d", seen, len(ids)))
	}
	return n, seen, d.End()
}

// Limits of one call of prolong.lua.
const (
	prolongs     = 100
	prolongBytes = 1 << 20 // of contents in its reply, after which it leaves the others to the next call
)

// prolongPause returns the pause after a call of prolong.lua for n backfills. Game servers acknowledge every few
// seconds, and one call for many backfills costs Redis a fraction of many calls: the more arrive, the longer it is. A
// caller that sends one acknowledgement after the other is delayed little.
func prolongPause(n int) time.Duration {
	if n == prolongs { // perhaps more are waiting
		return 0
	}
	return min(10*time.Millisecond+time.Duration(n)*time.Millisecond/2, 25*time.Millisecond)
}

// lives are the acknowledgements that can share a call of prolong.lua: the queue, and how long its backfills live.
type lives struct {
	queue string
	ttl   time.Duration
}

// prolonged is the outcome of prolong.lua for one backfill.
type prolonged struct {
	backfill matchmaking.Backfill
	match    string   // of the tickets that were last assigned
	tickets  []string // not nil: these may have to be assigned, and nothing was changed
	err      error
}

// newProlongations returns the group in which concurrent acknowledgements share calls of prolong.lua.
func (s *Store) newProlongations() *group.Group[lives, string, prolonged] {
	return group.New(group.Options[lives, string, prolonged]{
		Run: s.prolongAll, Calls: 1, Size: func(string) int { return 1 }, Items: prolongs, Bytes: prolongs,
		Limit: s.conn.Timeout(),
	})
}

// prolongAll runs prolong.lua until it has the outcome of each backfill.
func (s *Store) prolongAll(ctx context.Context, l lives, ids []string) ([]prolonged, time.Duration, error) {
	outcomes := make([]prolonged, 0, len(ids))
	for len(outcomes) < len(ids) {
		page, err := s.prolongSome(ctx, l, ids[len(outcomes):])
		if err != nil {
			return nil, 0, err
		}
		outcomes = append(outcomes, page...)
	}
	return outcomes, prolongPause(len(ids)), nil
}

// prolongSome runs prolong.lua. It returns the outcomes of the first backfills, as many as their sizes allow.
func (s *Store) prolongSome(ctx context.Context, l lives, ids []string) ([]prolonged, error) {
	k := s.keys(l.queue)
	keys := append(make([]string, 0, 1+len(ids)), k.backfills())
	for _, id := range ids {
		keys = append(keys, k.backfill(id))
	}
	args := []string{redis.Milliseconds(l.ttl), strconv.Itoa(prolongBytes), strings.Join(ids, " ")}
	d, err := s.run(ctx, prolongScript, keys, args)
	if err != nil {
		return nil, err
	}
	return prolongedOf(d, l.queue, ids)
}

// prolongedOf decodes the reply of prolong.lua to a call for backfills. It does so for all callers, whose goroutines
// would each need a larger stack.
func prolongedOf(d *redis.Decoder, queue string, ids []string) (outcomes []prolonged, err error) {
	values := d.List()
	for values.More() && len(outcomes) < len(ids) {
		var o prolonged
		switch status := redis.Status(values.Text()); status {
		case redis.OK:
			o.backfill, o.err = decodeBackfill(values.Take(6), queue, ids[len(outcomes)])
			o.match = values.Text()
		case statusTickets:
			o.tickets = strings.Fields(values.Text())
		default:
			o.err = refusals.Error(redis.Reply{Status: status})
		}
		outcomes = append(outcomes, o)
	}
	d.Fail(values.End())
	if len(outcomes) == 0 {
		d.Fail(errors.New("no outcome of an acknowledgement"))
	}
	return outcomes, d.End()
}

// prolong acknowledges a backfill, together with others of its queue. It returns none if there are tickets: the IDs of
// those that may have to be assigned, or nil if the call is a repetition with a match that has tickets already.
func (s *Store) prolong(ctx context.Context, r *matchmaking.AcknowledgeRequest) (*matchmaking.Backfill, []string,
	error) {
	p, err := s.prolongations.Do(ctx, lives{r.Definition.Name, r.Definition.BackfillTTL.Std()}, r.ID)
	switch {
	case err != nil || p.err != nil:
		return nil, nil, cmp.Or(err, p.err)
	case p.tickets != nil || p.match == r.MatchID:
		return nil, p.tickets, nil
	}
	return &p.backfill, nil, nil
}

// maxExpected limits the calls of acknowledge.lua in one acknowledgement. Each further one means that the backfill's
// tickets changed in between, which is likely while several servers hand out matches with it: of 16 calls all could
// fail.
const maxExpected = 64

// AcknowledgeBackfill runs prolong.lua, together with concurrent acknowledgements in the queue. If the backfill has
// tickets, it runs acknowledge.lua with their keys, and again if others have to be assigned.
func (s *Store) AcknowledgeBackfill(ctx context.Context, r matchmaking.AcknowledgeRequest) (matchmaking.Acknowledged,
	error) {
	b, ids, err := s.prolong(ctx, &r)
	switch {
	case err != nil:
		return matchmaking.Acknowledged{}, s.conn.Failure(ctx, prolongScript.Name(), err)
	case b != nil:
		return matchmaking.Acknowledged{Backfill: *b}, nil
	}
	for attempt := range maxExpected {
		match, err := assignmentsOf(&r, ids)
		if err != nil && attempt == 0 { // some of these tickets may have ended, or may be in other matches
			match, err = assignmentsOf(&r, nil)
		}
		if err != nil {
			return matchmaking.Acknowledged{}, err
		}
		rep, err := s.assignAcknowledged(ctx, &r, &match)
		switch {
		case err != nil:
			return matchmaking.Acknowledged{}, fmt.Errorf("acknowledge backfill %s: %w", r.ID, err)
		case rep.Status == redis.OK:
			return s.acknowledged(ctx, &r, &match, rep)
		case rep.Status != statusTickets:
			return matchmaking.Acknowledged{}, refusals.Error(rep)
		}
		d := rep.Decoder()
		ids = d.Texts()
		if err := d.End(); err != nil {
			return matchmaking.Acknowledged{}, err
		}
	}
	return matchmaking.Acknowledged{}, fmt.Errorf("acknowledge backfill %s: %w", r.ID, errChanged)
}

// assignmentsOf returns the match of the expected tickets.
func assignmentsOf(r *matchmaking.AcknowledgeRequest, ids []string) (matchmaking.AssignMatch, error) {
	if len(ids) == 0 {
		return matchmaking.AssignMatch{ID: r.MatchID}, nil
	}
	team := make([]*matchmaking.Ticket, len(ids))
	for i, id := range ids {
		team[i] = &matchmaking.Ticket{ID: id}
	}
	return r.Definition.Assignments(&matchmaking.Proposal{ID: r.MatchID, Teams: [][]*matchmaking.Ticket{team}}, r.Allocation)
}

// assignAcknowledged runs acknowledge.lua with the match of the expected tickets. Assignments count only once enough
// replicas have them, if that is required.
func (s *Store) assignAcknowledged(ctx context.Context, r *matchmaking.AcknowledgeRequest,
	m *matchmaking.AssignMatch) (redis.Reply, error) {
	k := s.keys(r.Definition.Name)
	keys := []string{k.waiting(), k.expiries(), k.proposed(), k.claims(), k.outbox(), k.matched(), k.stats(),
		k.listening(), k.backfills(), k.backfill(r.ID), k.match(r.MatchID)}
	args := []string{r.ID, redis.Milliseconds(r.Definition.BackfillTTL.Std()), r.MatchID, string(m.Record),
		redis.Milliseconds(r.Definition.AssignmentTTL.Std()), k.assigned(), s.notifies(), strconv.Itoa(feedBytes)}
	for _, a := range m.Assignments {
		keys = append(keys, k.ticket(a.ID), k.assignment(a.ID))
		args = append(args, a.ID, string(a.Content))
	}
	if s.confirmed != nil && len(m.Assignments) > 0 {
		return s.confirmed.run(ctx, acknowledgeScript, keys, args)
	}
	return s.conn.Run(ctx, acknowledgeScript, keys, args)
}

// acknowledged decodes the reply of acknowledge.lua.
func (s *Store) acknowledged(ctx context.Context, r *matchmaking.AcknowledgeRequest, m *matchmaking.AssignMatch,
	rep redis.Reply) (a matchmaking.Acknowledged, err error) {
	d, queue := rep.Decoder(), r.Definition.Name
	if a.Backfill, err = decodeBackfill(d.List(), queue, r.ID); err != nil {
		return matchmaking.Acknowledged{}, err
	}
	values, entries := d.Texts(), d.Texts()
	d.Each(func(list *redis.Decoder) { a.Waits = append(a.Waits, time.Duration(list.Int64())*time.Microsecond) })
	if len(values) > len(m.Assignments) || len(entries) > len(values) {
		d.Fail(fmt.Errorf("%d tickets and %d entries of %d assignments", len(values), len(entries), len(m.Assignments)))
	}
	if err := d.End(); err != nil {
		return matchmaking.Acknowledged{}, err
	}
	for i, value := range values {
		given := &m.Assignments[i]
		if !isRecord([]byte(value)) { // it was deleted since an earlier run
			continue
		}
		t, err := parseRecord(queue, given.ID, []byte(value))
		if err != nil {
			return matchmaking.Acknowledged{}, fmt.Errorf("ticket %s: %w", given.ID, err)
		}
		t.Status, given.Created = matchmaking.MatchFound, t.CreateTime
		if err := setAssignment(&t, given.Content); err != nil {
			return matchmaking.Acknowledged{}, fmt.Errorf("ticket %s: %w", given.ID, err)
		}
		a.Tickets = append(a.Tickets, t)
		if i < len(entries) && entries[i] != "" {
			a.Entries = append(a.Entries, matchmaking.OutboxEntry{
				Entry: entries[i], TicketID: t.ID, MatchID: m.ID, Epoch: t.Epoch, Content: given.Content,
			})
		}
	}
	if s.confirmed != nil {
		s.notifyTickets(ctx, queue, m.Assignments)
	}
	return a, nil
}
