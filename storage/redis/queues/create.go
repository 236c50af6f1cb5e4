package queues

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/group"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

var (
	createScript = lua.Must("queues/create")
	findScript   = lua.Must("queues/find")
	undoScript   = lua.Must("queues/undo")
	vacateScript = lua.Must("queues/vacate")
)

// Limits of one call of create.lua.
const (
	createTickets = 64
	createBytes   = 256 << 10
)

// creation is a ticket to be created by a call of create.lua.
type creation struct {
	matchmaking.CreateRequest
	spec string // encoded
}

// size returns the approximate number of bytes of a creation's arguments.
func (c *creation) size() int { return len(c.spec) + 2*len(c.ID) + 200 }

// newCreations returns the group in which concurrent calls of Create share calls of create.lua: one at a time for each
// queue.
func (s *Store) newCreations() *group.Group[string, *creation, *redis.Decoder] {
	return group.New(group.Options[string, *creation, *redis.Decoder]{
		Run: s.createAll, Calls: 1, Size: (*creation).size, Items: createTickets, Bytes: createBytes, Limit: s.conn.Timeout(),
	})
}

// createAll runs create.lua. It returns the outcome of each creation, and the pause before the queue accepts further
// tickets.
func (s *Store) createAll(ctx context.Context, queue string, all []*creation) ([]*redis.Decoder, time.Duration, error) {
	ctx, span := tracing.Shared(ctx, "redis create together", len(all), func(i int) string { return all[i].Trace })
	defer span.End()
	taken := s.removals.takeWaiting(queue)
	keys, args := s.createCall(queue, all, taken)
	rep, err := s.conn.Run(ctx, createScript, keys, args)
	if err != nil {
		return nil, 0, err
	}
	finish(taken)
	outcomes, outgoing, err := createOutcomes(rep, len(all))
	pause := createPause(outgoing)
	if pause > 0 {
		s.slowed(queue, pause)
	}
	return outcomes, pause, err
}

// createPause returns the pause before a queue accepts further tickets, given its number of unpublished assignments:
// players of new tickets would only wait longer for theirs.
func createPause(outgoing int) time.Duration {
	const enough, perEntry, longest = 2000, 50 * time.Microsecond, 100 * time.Millisecond
	return min(time.Duration(max(outgoing-enough, 0))*perEntry, longest)
}

func (s *Store) createCall(queue string, all []*creation, taken []*removal) (keys, args []string) {
	k := s.keys(queue)
	keys = append(make([]string, 0, 7+2*len(all)), k.waiting(), k.expiries(), k.proposed(), k.changes(), k.outbox(),
		k.director(), k.listening())
	delivered := entriesOf(taken)
	args = append(make([]string, 0, 3+len(delivered)+9*len(all)), k.nudges(), k.feed(), strconv.Itoa(len(delivered)))
	args = append(args, delivered...)
	for _, r := range all {
		keys = append(keys, k.ticket(r.ID), k.assignment(r.ID))
		args = append(args, r.ID, redis.Milliseconds(r.TTL), redis.Milliseconds(r.Keep),
			redis.Milliseconds(max(r.Life, r.TTL)), strconv.Itoa(r.MaxTickets), r.Attempt, epochText(r.Epoch),
			flagText(!r.NoChannel), r.spec)
	}
	return keys, args
}

// createOutcomes splits the reply of create.lua for n tickets. Each caller decodes its own outcome.
func createOutcomes(r redis.Reply, n int) (outcomes []*redis.Decoder, outgoing int, err error) {
	if r.Status != redis.OK {
		return nil, 0, refusals.Error(r)
	}
	d := r.Decoder()
	outgoing = int(d.Int64())
	d.Each(func(list *redis.Decoder) { outcomes = append(outcomes, list.List()) })
	if len(outcomes) != n {
		d.Fail(fmt.Errorf("%d outcomes of %d tickets", len(outcomes), n))
	}
	return outcomes, outgoing, d.End()
}

// Create runs create.lua, together with concurrent creations in the queue.
func (s *Store) Create(ctx context.Context, r matchmaking.CreateRequest) (t matchmaking.Ticket, created bool,
	err error) {
	spec, err := encodeTicket(&r.Ticket)
	if err != nil {
		return matchmaking.Ticket{}, false, fmt.Errorf("create ticket %s: %w", r.ID, err)
	}
	outcome, err := s.creations.Do(ctx, r.Queue, &creation{CreateRequest: r, spec: string(spec)})
	if err != nil {
		failure := s.conn.Failure(ctx, createScript.Name(), err)
		if errors.Is(err, group.ErrDropped) {
			failure = fmt.Errorf("%w: %w", matchmaking.ErrNotSent, failure)
		}
		return matchmaking.Ticket{}, false, failure
	}
	if t, created, err = createOutcome(outcome, &r); err == nil {
		err = s.confirmTicket(ctx, &t)
	}
	return t, created, err
}

// createOutcome decodes the outcome of one creation.
func createOutcome(d *redis.Decoder, r *matchmaking.CreateRequest) (t matchmaking.Ticket, created bool, err error) {
	switch status := redis.Status(d.Text()); status {
	case statusExists:
		t, err = decodeTicket(d, r.Queue, r.ID)
		return t, false, err
	case statusCreated:
		t = r.Ticket
		t.CreateTime, t.Expires, t.Status, t.Life = d.Micros(), d.Millis(), matchmaking.Searching, max(r.Life, r.TTL)
		return t, true, d.End()
	default:
		return matchmaking.Ticket{}, false, cmp.Or(d.Err(), refusals.Error(redis.Reply{Status: status}))
	}
}

// Find runs find.lua.
func (s *Store) Find(ctx context.Context, r matchmaking.CreateRequest) (matchmaking.Ticket, error) {
	k := s.keys(r.Queue)
	keys := []string{k.ticket(r.ID), k.assignment(r.ID), k.expiries(), k.proposed()}
	args := []string{r.ID, r.Attempt, r.Epoch.String(), redis.Milliseconds(matchmaking.UndoneFor)}
	rep, err := s.conn.Run(ctx, findScript, keys, args)
	if err != nil {
		return matchmaking.Ticket{}, err
	}
	if rep.Status != statusExists {
		return matchmaking.Ticket{}, refusals.Error(rep)
	}
	t, err := decodeTicket(rep.Decoder(), r.Queue, r.ID)
	if err == nil {
		err = s.confirmTicket(ctx, &t)
	}
	return t, err
}

// errUndone is the error of a creation that was undone before it arrived. Its caller has already received an error.
var errUndone = fault.ErrUnavailable.WithCause(matchmaking.ErrUndone)

// Undo runs undo.lua.
func (s *Store) Undo(ctx context.Context, queue, id, attempt string) (exists bool, err error) {
	k := s.keys(queue)
	keys := []string{k.ticket(id), k.waiting(), k.expiries(), k.proposed(), k.claims(), k.changes(), k.director(),
		k.listening()}
	args := []string{id, attempt, redis.Milliseconds(matchmaking.UndoneFor), k.nudges(), k.feed(), k.assigned()}
	rep, err := s.conn.Run(ctx, undoScript, keys, args)
	if err != nil {
		return false, err
	}
	return rep.Status == statusKept, refusals.Check(rep, redis.OK, statusKept)
}

// Vacate runs vacate.lua.
func (s *Store) Vacate(ctx context.Context, queue, id string, epoch ulid.ULID) (exists bool, err error) {
	args := []string{epoch.String(), redis.Milliseconds(matchmaking.UndoneFor)}
	rep, err := s.conn.Run(ctx, vacateScript, []string{s.keys(queue).ticket(id)}, args)
	if err != nil {
		return false, err
	}
	return rep.Status == statusExists, refusals.Check(rep, redis.OK, statusExists)
}

// epochText returns the script argument for an epoch: empty for none.
func epochText(epoch ulid.ULID) string {
	if epoch.IsZero() {
		return ""
	}
	return epoch.String()
}
