package queuetest

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// Queue is a queue of a store, with shortcuts for tests.
type Queue struct {
	matchmaking.Store
	Name  string
	Fence uint64 // of the lease that Lead took last
}

// Lives that are longer than any test, and one that tests wait for.
const (
	LongTTL  = 10 * time.Minute
	LongKeep = time.Minute
	LongHold = time.Minute
	Shortest = matchmaking.MinLifetime
)

// Spec is the spec of a ticket sent by Open Match's client.
func Spec(tag string) matchmaking.Spec {
	spec, err := convert.ToSpec(&openmatch.Ticket{SearchFields: &openmatch.SearchFields{
		Tags: []string{tag}, DoubleArgs: map[string]float64{"skill": 1500.5},
		StringArgs: map[string]string{"language": "ja"},
	}})
	if err != nil {
		panic(err) // for malformed extensions only
	}
	return spec
}

// Request returns a request for a long-lived ticket with a channel, by a new attempt.
func (q *Queue) Request(id string) matchmaking.CreateRequest {
	return matchmaking.CreateRequest{
		Ticket:  matchmaking.Ticket{Queue: q.Name, ID: id, Spec: Spec(id), TTL: LongTTL},
		Attempt: ulid.Make().String(), Keep: LongKeep,
	}
}

// Add creates long-lived tickets.
func (q *Queue) Add(t testing.TB, ids ...string) {
	t.Helper()
	for _, id := range ids {
		_, created := q.make(t, q.Request(id))
		require.True(t, created, id)
	}
}

// make creates a ticket, or finds it.
func (q *Queue) make(t testing.TB, r matchmaking.CreateRequest) (made matchmaking.Ticket, created bool) {
	t.Helper()
	made, created, err := q.Create(t.Context(), r)
	require.NoError(t, err, r.ID)
	return made, created
}

// AddShort creates tickets with the shortest possible life.
func (q *Queue) AddShort(t testing.TB, ids ...string) {
	t.Helper()
	for _, id := range ids {
		r := q.Request(id)
		r.TTL = Shortest
		q.make(t, r)
	}
}

// Expires waits until a ticket has expired.
func (q *Queue) Expires(t testing.TB, id string) {
	t.Helper()
	require.Eventually(t, func() bool { return q.Status(t, id) == matchmaking.Expired }, storagetest.Patience,
		Shortest/10)
}

// requireNoTicket expects a ticket not to exist.
func (q *Queue) requireNoTicket(t testing.TB, id string) {
	t.Helper()
	require.ErrorIs(t, storagetest.ErrorOf(q.Ticket(t.Context(), q.Name, id)), matchmaking.ErrNoTicket)
}

// outgoing returns entries of the outbox of at least the given age.
func (q *Queue) outgoing(t testing.TB, age time.Duration, limit int) []matchmaking.OutboxEntry {
	t.Helper()
	entries, err := q.Outgoing(t.Context(), q.Name, age, limit)
	require.NoError(t, err)
	return entries
}

// AddQuiet creates long-lived tickets without channels.
func (q *Queue) AddQuiet(t testing.TB, ids ...string) {
	t.Helper()
	for _, id := range ids {
		r := q.Request(id)
		r.NoChannel = true
		_, created := q.make(t, r)
		require.True(t, created, id)
	}
}

// Get returns a ticket.
func (q *Queue) Get(t testing.TB, id string) matchmaking.Ticket {
	t.Helper()
	found, err := q.Ticket(t.Context(), q.Name, id)
	require.NoError(t, err, id)
	return found
}

// Status returns a ticket's status.
func (q *Queue) Status(t testing.TB, id string) matchmaking.Status {
	t.Helper()
	return q.Get(t, id).Status
}

// ClaimIDs claims tickets for a long time.
func (q *Queue) ClaimIDs(t testing.TB, token string, ids ...string) matchmaking.Claimed {
	t.Helper()
	claimed, err := q.Claim(t.Context(), matchmaking.ClaimRequest{Queue: q.Name, Token: token, Hold: LongHold,
		IDs: ids})
	require.NoError(t, err)
	return claimed
}

// Hold claims tickets, all of which must be free.
func (q *Queue) Hold(t testing.TB, token string, ids ...string) {
	t.Helper()
	require.Equal(t, ids, q.ClaimIDs(t, token, ids...).IDs)
}

// Match returns a match of tickets.
func (q *Queue) Match(id string, tickets ...string) matchmaking.AssignMatch {
	m := matchmaking.AssignMatch{ID: id, Record: []byte(`{"matchId": "` + id + `"}`)}
	for i, ticket := range tickets {
		content, err := json.Marshal(matchmaking.Assignment{
			TicketID: ticket, MatchID: id, Queue: q.Name, Connection: "127.0.0.1:7777", Team: i,
		})
		if err != nil {
			panic(err) // assignments contain only values that JSON can represent
		}
		m.Assignments = append(m.Assignments, matchmaking.AssignTicket{ID: ticket, Content: content})
	}
	return m
}

// AssignMatches assigns matches.
func (q *Queue) AssignMatches(ctx context.Context, token string,
	matches ...matchmaking.AssignMatch) []matchmaking.AssignOutcome {
	return q.Assign(ctx, matchmaking.AssignRequest{Queue: q.Name, Token: token, Keep: LongKeep, Matches: matches})
}

// AssignOne assigns a match, which must succeed.
func (q *Queue) AssignOne(t testing.TB, token, match string, tickets ...string) matchmaking.AssignOutcome {
	t.Helper()
	outcomes := q.AssignMatches(t.Context(), token, q.Match(match, tickets...))
	require.Len(t, outcomes, 1)
	require.NoError(t, outcomes[0].Err)
	require.Empty(t, outcomes[0].Conflicts)
	return outcomes[0]
}

// CancelID cancels a ticket.
func (q *Queue) CancelID(ctx context.Context, id string) error {
	return q.Cancel(ctx, matchmaking.CancelRequest{Queue: q.Name, ID: id, Keep: LongKeep})
}

// DeindexID deindexes a ticket.
func (q *Queue) DeindexID(ctx context.Context, id string) error {
	return q.Cancel(ctx, matchmaking.CancelRequest{Queue: q.Name, ID: id, Deindex: true})
}

// DeleteID cancels a ticket, or removes it if it is assigned. It succeeds if there is none.
func (q *Queue) DeleteID(ctx context.Context, id string) error {
	err := q.Cancel(ctx, matchmaking.CancelRequest{Queue: q.Name, ID: id, RemoveAssigned: true})
	if errors.Is(err, matchmaking.ErrNoTicket) {
		return nil
	}
	return err
}

// Lead acquires the lease of the queue's director, which needs a ticket.
func (q *Queue) Lead(ctx context.Context, token string, ttl time.Duration) (err error) {
	q.Fence, err = q.Leases().Acquire(ctx, lease.Request{Name: q.Name, Token: token, TTL: ttl})
	return err
}

// KeepLease renews the lease.
func (q *Queue) KeepLease(ctx context.Context, token string) error {
	return q.Leases().Renew(ctx, []lease.Request{{Name: q.Name, Token: token, TTL: LongTTL}})[0]
}

// Resign releases the lease.
func (q *Queue) Resign(ctx context.Context, token string) error {
	return q.Leases().Release(ctx, q.Name, token)
}

// ClaimToken returns the token of a claim by the holder that took the lease last.
func (q *Queue) ClaimToken() string { return strconv.FormatUint(q.Fence, 10) + ".1" }

// Changes reads changes of the queue once.
func (q *Queue) Changes(ctx context.Context, r matchmaking.ChangesRequest) (matchmaking.Changes, error) {
	r.Queue = q.Name
	f := q.Follow(r)
	defer f.Stop()
	return f.Next(ctx, 0)
}

// ChangesAfter returns changes of the queue.
func (q *Queue) ChangesAfter(t testing.TB, after string, limit int) matchmaking.Changes {
	t.Helper()
	found, err := q.Changes(t.Context(), matchmaking.ChangesRequest{After: after, Limit: limit,
		Fields: matchmaking.FieldsAll})
	require.NoError(t, err)
	return found
}

// Whole returns a snapshot of the queue.
func (q *Queue) Whole(t testing.TB) matchmaking.Snapshot {
	t.Helper()
	found, err := q.Snapshot(t.Context(), matchmaking.WaitingRequest{Queue: q.Name, Fields: matchmaking.FieldsAll})
	require.NoError(t, err)
	return found
}

// ShortForm returns changes in short form: the ID of an added ticket, after a dash if it was cancelled, after a plus if
// it was released.
func ShortForm(changes []matchmaking.Change) []string {
	var found []string
	for _, c := range changes {
		switch {
		case c.Added != nil:
			found = append(found, c.Added.ID)
		case c.Released != "":
			found = append(found, "+"+c.Released)
		default:
			found = append(found, "-"+c.Cancelled)
		}
	}
	return found
}

// Nudges watches the queue until the test ends.
func (q *Queue) Nudges(t *testing.T) <-chan bool {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	nudges, ended := make(chan bool, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		q.Watch(ctx, q.Name, func(free bool) { nudges <- free })
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return nudges
}

// Picture is the observable state of the queue: its state, some tickets, its outbox and its number of changes.
type Picture struct {
	State   matchmaking.QueueState
	Tickets map[string]matchmaking.Ticket
	Outbox  []string
	Changes []string
}

// Picture returns the observable state of the queue, for comparison with another picture.
func (q *Queue) Picture(t testing.TB, ids ...string) Picture {
	t.Helper()
	state, err := q.Describe(t.Context(), q.Name, 10)
	require.NoError(t, err)
	state.Now, state.OldestWait, state.Conflicts = time.Time{}, 0, 0
	p := Picture{State: state, Tickets: map[string]matchmaking.Ticket{},
		Changes: ShortForm(q.ChangesAfter(t, "0-0", 1000).Changes)}
	for _, id := range ids {
		found, err := q.Ticket(t.Context(), q.Name, id)
		if !errors.Is(err, matchmaking.ErrNoTicket) {
			require.NoError(t, err)
			p.Tickets[id] = found
		}
	}
	for _, e := range q.outgoing(t, 0, 1000) {
		p.Outbox = append(p.Outbox, e.Entry)
	}
	return p
}

// counts returns the numbers of the queue's state.
func (q *Queue) counts(t testing.TB) matchmaking.QueueState {
	t.Helper()
	state, err := q.Describe(t.Context(), q.Name, 0)
	require.NoError(t, err)
	state.Now, state.OldestWait, state.Recent = time.Time{}, 0, nil
	return state
}

// undo undoes an attempt to create a ticket, and reports whether the ticket exists.
func (q *Queue) undo(t *testing.T, id, attempt string) (exists bool) {
	t.Helper()
	exists, err := q.Undo(t.Context(), q.Name, id, attempt)
	require.NoError(t, err)
	return exists
}

// vacate undoes all attempts with an epoch to create a ticket, and reports whether the ticket exists.
func (q *Queue) vacate(t *testing.T, id string, epoch ulid.ULID) (exists bool) {
	t.Helper()
	exists, err := q.Vacate(t.Context(), q.Name, id, epoch)
	require.NoError(t, err)
	return exists
}

// walk reads the queue's tickets in parts.
func (q *Queue) walk(t *testing.T, fields matchmaking.Fields) []*matchmaking.Ticket {
	t.Helper()
	return q.read(t, matchmaking.WaitingRequest{Queue: q.Name, Fields: fields})
}

func (q *Queue) read(t *testing.T, r matchmaking.WaitingRequest) (all []*matchmaking.Ticket) {
	t.Helper()
	err := q.Waiting(t.Context(), r, func(some []*matchmaking.Ticket) error {
		require.LessOrEqual(t, len(some), 100)
		all = append(all, some...)
		return nil
	})
	require.NoError(t, err)
	return all
}
