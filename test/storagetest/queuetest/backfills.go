package queuetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// maxBackfills is the limit of backfills in tests.
const maxBackfills = 5000

// game returns the content of a backfill.
func game(tag string) matchmaking.BackfillSpec {
	return matchmaking.BackfillSpec{
		SearchFields:    matchmaking.SearchFields{Tags: []string{tag}, DoubleArgs: matchmaking.Doubles{"skill": 7.5}},
		Extensions:      map[string]json.RawMessage{"map": json.RawMessage(`{"@type":"t","value":"AQ=="}`)},
		PersistentField: map[string]json.RawMessage{"server": json.RawMessage(`"` + tag + `"`)},
	}
}

// Backfill creates a backfill.
func (q *Queue) Backfill(t testing.TB, ttl time.Duration) matchmaking.Backfill {
	t.Helper()
	made, err := q.CreateBackfill(t.Context(), matchmaking.CreateBackfillRequest{
		Queue: q.Name, ID: matchmaking.NewBackfillID(q.Name), Spec: game("new"), TTL: ttl, Max: maxBackfills,
	})
	require.NoError(t, err)
	return made
}

// ReadBackfill reads a backfill.
func (q *Queue) ReadBackfill(t testing.TB, id string) matchmaking.Backfill {
	t.Helper()
	found, err := q.Store.Backfill(t.Context(), q.Name, id)
	require.NoError(t, err)
	return found
}

// noBackfill expects a backfill not to exist.
func (q *Queue) noBackfill(t testing.TB, id string) {
	t.Helper()
	require.ErrorIs(t, storagetest.ErrorOf(q.Store.Backfill(t.Context(), q.Name, id)), matchmaking.ErrNoBackfill)
}

// Tickets returns a match of tickets.
func Tickets(ids ...string) matchmaking.HandOutMatch {
	var m matchmaking.HandOutMatch
	for _, id := range ids {
		m.Tickets = append(m.Tickets, matchmaking.HandOutTicket{ID: id})
	}
	return m
}

// For returns a match of tickets for an existing backfill.
func For(b *matchmaking.Backfill, ids ...string) matchmaking.HandOutMatch {
	m := Tickets(ids...)
	m.Backfill = &matchmaking.MatchBackfill{ID: b.ID, Generation: b.Generation, Spec: game("changed")}
	return m
}

// HandOutRequest returns the request for matches that are held for a long time.
func (q *Queue) HandOutRequest(matches ...matchmaking.HandOutMatch) matchmaking.HandOutRequest {
	return matchmaking.HandOutRequest{
		Queue: q.Name, Token: ulid.Make().String(), Hold: LongHold, BackfillTTL: LongTTL, MaxBackfills: maxBackfills,
		Matches: matches,
	}
}

// HandOutAll hands matches out, all of which must succeed.
func (q *Queue) HandOutAll(t testing.TB, matches ...matchmaking.HandOutMatch) []matchmaking.HandOutOutcome {
	t.Helper()
	outcomes := q.HandOut(t.Context(), q.HandOutRequest(matches...))
	require.Len(t, outcomes, len(matches))
	for _, o := range outcomes {
		require.NoError(t, o.Err)
	}
	return outcomes
}

// handOutErrors hands matches out and returns the errors.
func (q *Queue) handOutErrors(t testing.TB, matches ...matchmaking.HandOutMatch) (errs []error) {
	t.Helper()
	for _, o := range q.HandOut(t.Context(), q.HandOutRequest(matches...)) {
		errs = append(errs, o.Err)
	}
	return errs
}

// statuses returns the statuses of tickets.
func (q *Queue) statuses(t testing.TB, ids ...string) (all []matchmaking.Status) {
	t.Helper()
	for _, id := range ids {
		all = append(all, q.Status(t, id))
	}
	return all
}

// AcknowledgeRequest returns the acknowledgement of a backfill of a game server.
func (q *Queue) AcknowledgeRequest(id string) matchmaking.AcknowledgeRequest {
	d := matchmaking.UserDefinition(q.Name)
	d.Reveal = matchmaking.RevealTeammates
	return matchmaking.AcknowledgeRequest{
		Definition: &d, ID: id, MatchID: matchmaking.NewID(q.Name),
		Allocation: matchmaking.Allocation{Connection: "10.0.0.1:7000",
			Extensions: map[string]json.RawMessage{"x": json.RawMessage(`1`)}},
	}
}

// Acknowledge acknowledges a backfill.
func (q *Queue) Acknowledge(t testing.TB, r matchmaking.AcknowledgeRequest) matchmaking.Acknowledged {
	t.Helper()
	a, err := q.AcknowledgeBackfill(t.Context(), r)
	require.NoError(t, err)
	return a
}

func idsOf(tickets []matchmaking.Ticket) (ids []string) {
	for _, t := range tickets {
		ids = append(ids, t.ID)
	}
	return ids
}

// each returns all backfills of the queue by ID.
func (q *Queue) each(t testing.TB) map[string]*matchmaking.Backfill {
	t.Helper()
	all := map[string]*matchmaking.Backfill{}
	require.NoError(t, q.EachBackfill(t.Context(), q.Name, func(some []*matchmaking.Backfill) error {
		require.LessOrEqual(t, len(some), 100)
		for _, b := range some {
			require.Nil(t, all[b.ID])
			all[b.ID] = b
		}
		return nil
	}))
	return all
}

func backfills(t *testing.T, q *Queue) {
	r := matchmaking.CreateBackfillRequest{Queue: q.Name, ID: matchmaking.NewBackfillID(q.Name), Spec: game("eu"),
		TTL: LongTTL, Max: 1}
	require.Equal(t, len(`{}`), q.BackfillSize(&matchmaking.BackfillSpec{})+2)
	require.Positive(t, q.BackfillSize(&r.Spec))
	made, err := q.CreateBackfill(t.Context(), r)
	require.NoError(t, err)
	want := matchmaking.Backfill{ID: r.ID, Queue: q.Name, BackfillSpec: game("eu"), Generation: 1,
		CreateTime: made.CreateTime, Expires: made.CreateTime.Truncate(time.Millisecond).Add(LongTTL), Tickets: []string{}}
	require.Equal(t, want, made)
	require.Equal(t, want, q.ReadBackfill(t, r.ID))
	again, err := q.CreateBackfill(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, want, again, "a repetition")
	require.Equal(t, 1, q.counts(t).Backfills)
	r.ID = matchmaking.NewBackfillID(q.Name)
	require.ErrorIs(t, storagetest.ErrorOf(q.CreateBackfill(t.Context(), r)), matchmaking.ErrTooManyBackfills)

	update := matchmaking.UpdateBackfillRequest{Queue: q.Name, ID: want.ID, Attempt: ulid.Make().String(),
		Spec: game("asia")}
	update.Spec.Extensions = nil // and the persistent field stays
	want.SearchFields, want.Extensions, want.Generation = update.Spec.SearchFields, nil, 2
	for range 2 { // a repetition changes nothing more
		updated, err := q.UpdateBackfill(t.Context(), update)
		require.NoError(t, err)
		require.Equal(t, want, updated)
	}
	require.Equal(t, map[string]*matchmaking.Backfill{want.ID: &want}, q.each(t))

	for range 2 {
		require.NoError(t, q.DeleteBackfills(t.Context(), q.Name, []string{want.ID, "nobody"}))
	}
	q.noBackfill(t, want.ID)
	require.Empty(t, q.each(t))
	require.ErrorIs(t, storagetest.ErrorOf(q.UpdateBackfill(t.Context(), update)), matchmaking.ErrNoBackfill)
	_, err = q.AcknowledgeBackfill(t.Context(), q.AcknowledgeRequest(want.ID))
	require.ErrorIs(t, err, matchmaking.ErrNoBackfill)
}

func backfillsEnd(t *testing.T, q *Queue) {
	q.Add(t, "a")
	b, other := q.Backfill(t, Shortest), q.Backfill(t, LongTTL)
	q.HandOutAll(t, For(&b, "a"))
	require.Equal(t, matchmaking.Pending, q.Status(t, "a"))
	require.Equal(t, 2, q.counts(t).Backfills)
	require.Eventually(t, func() bool {
		return errors.Is(storagetest.ErrorOf(q.Store.Backfill(t.Context(), q.Name, b.ID)), matchmaking.ErrNoBackfill)
	}, storagetest.Patience, Shortest/10)
	require.Len(t, q.each(t), 1)
	require.Equal(t, 1, q.counts(t).Backfills)
	_, err := q.AcknowledgeBackfill(t.Context(), q.AcknowledgeRequest(b.ID))
	require.ErrorIs(t, err, matchmaking.ErrBackfillExpired)
	_, err = q.UpdateBackfill(t.Context(), matchmaking.UpdateBackfillRequest{Queue: q.Name, ID: b.ID, Attempt: "a"})
	require.ErrorIs(t, err, matchmaking.ErrBackfillExpired)
	b.Generation++
	require.ErrorIs(t, q.handOutErrors(t, For(&b))[0], matchmaking.ErrBackfillChanged)
	for _, want := range []int{1, 0} {
		removed, err := q.ExpireBackfills(t.Context(), q.Name, 10)
		require.NoError(t, err)
		require.Equal(t, want, removed)
	}
	require.Equal(t, matchmaking.Searching, q.Status(t, "a"), "it waits again")
	_, err = q.AcknowledgeBackfill(t.Context(), q.AcknowledgeRequest(b.ID))
	require.ErrorIs(t, err, matchmaking.ErrNoBackfill)
	q.ReadBackfill(t, other.ID)
}

func handOut(t *testing.T, q *Queue) {
	q.Add(t, "a", "b", "c", "d", "e")
	q.Hold(t, "1.1", "d")
	require.NoError(t, q.CancelID(t.Context(), "e"))
	again := Tickets("c")
	again.Tickets[0].Created = time.UnixMicro(1)
	r := q.HandOutRequest(Tickets("a", "b"), Tickets("b", "c"), Tickets("c", "d"), Tickets("c", "e", "nobody"), again,
		Tickets(), Tickets("c"))
	r.Matches[0].Tickets[0].Created = q.Get(t, "a").CreateTime
	outcomes := q.HandOut(t.Context(), r)
	require.Len(t, outcomes, len(r.Matches))
	for i, want := range [][]string{{}, {"b"}, {"d"}, {"e", "nobody"}, {"c"}, {}, {}} {
		o := outcomes[i]
		if len(want) == 0 {
			require.Equal(t, matchmaking.HandOutOutcome{Held: o.Held, Remaining: LongHold}, o, "match %d", i)
			continue
		}
		require.ErrorIs(t, o.Err, matchmaking.ErrNotHandedOut, "match %d", i)
		var ids []string
		for _, c := range o.Conflicts {
			ids = append(ids, c.ID)
		}
		require.Equal(t, want, ids)
	}
	require.Equal(t, matchmaking.ConflictClaim, outcomes[2].Conflicts[0].Reason)
	require.Equal(t, matchmaking.ConflictNotWaiting, outcomes[4].Conflicts[0].Reason)
	pending := []matchmaking.Status{matchmaking.Pending, matchmaking.Pending, matchmaking.Pending}
	require.Equal(t, pending, q.statuses(t, "a", "b", "c"))
	made := q.Get(t, "a").CreateTime.Truncate(time.Millisecond)
	require.False(t, outcomes[0].Held.Before(made.Add(LongHold)))
	require.False(t, q.HandOut(t.Context(), r)[0].Held.Before(outcomes[0].Held), "a repetition claims them again")
	require.ErrorIs(t, q.handOutErrors(t, Tickets("a"))[0], matchmaking.ErrNotHandedOut)

	r = q.HandOutRequest(Tickets("x"))
	r.Hold = Shortest
	q.Add(t, "x")
	require.NoError(t, q.HandOut(t.Context(), r)[0].Err)
	require.Eventually(t, func() bool { return q.Status(t, "x") == matchmaking.Searching }, storagetest.Patience,
		Shortest/10)
	q.HandOutAll(t, Tickets("x"))
}

// handOutOnce checks that a ticket goes into one match of a request, also if the storage divides the request.
func handOutOnce(t *testing.T, q *Queue) {
	shared, matches := "shared", []matchmaking.HandOutMatch{}
	for i := range 3 {
		match := Tickets(shared)
		for n := range 400 {
			match.Tickets = append(match.Tickets, matchmaking.HandOutTicket{ID: fmt.Sprintf("%d-%d", i, n)})
		}
		matches = append(matches, match)
	}
	q.Add(t, shared)
	for _, m := range matches {
		for _, ticket := range m.Tickets[1:] {
			q.Add(t, ticket.ID)
		}
	}
	r := q.HandOutRequest(matches...)
	for range 2 { // a repetition returns the same
		outcomes := q.HandOut(t.Context(), r)
		require.NoError(t, outcomes[0].Err)
		for _, o := range outcomes[1:] {
			require.ErrorIs(t, o.Err, matchmaking.ErrNotHandedOut)
			require.Equal(t, shared, o.Conflicts[0].ID)
			require.Len(t, o.Conflicts, 1)
		}
	}
	require.NoError(t, q.Release(t.Context(), q.Name, ulid.Make().String(), []string{shared}))
	require.Equal(t, matchmaking.Pending, q.Status(t, shared))
	require.NoError(t, q.Release(t.Context(), q.Name, r.Token, []string{shared, "0-0"}))
	require.Equal(t, []matchmaking.Status{matchmaking.Searching, matchmaking.Searching, matchmaking.Pending},
		q.statuses(t, shared, "0-0", "0-1"))
}

func handOutBackfills(t *testing.T, q *Queue) {
	q.Add(t, "a", "b", "c", "d", "e")
	b := q.Backfill(t, LongTTL)
	r, held := q.HandOutRequest(For(&b, "a"), For(&b, "b"), Tickets("b")), time.Time{}
	for range 2 { // a repetition finds its attempt
		outcomes := q.HandOut(t.Context(), r)
		require.NoError(t, outcomes[0].Err)
		require.ErrorIs(t, outcomes[1].Err, matchmaking.ErrBackfillChanged, "the first has raised the generation")
		require.NoError(t, outcomes[2].Err, "the ticket of the stale match is free")
		want := b
		want.BackfillSpec, want.Generation, want.Tickets = game("changed"), 2, []string{"a"}
		want.PersistentField = game("new").PersistentField
		require.Equal(t, &want, outcomes[0].Backfill)
		require.NotEmpty(t, outcomes[0].Held)
		require.Contains(t, []time.Time{{}, outcomes[0].Held}, held, "the claims of a repetition end as before")
		held = outcomes[0].Held
		require.Equal(t, want, q.ReadBackfill(t, b.ID))
	}
	b = *q.HandOutAll(t, For(&matchmaking.Backfill{ID: b.ID, Generation: 2}, "c"))[0].Backfill
	require.Equal(t, int64(3), b.Generation)
	require.Equal(t, []string{"a", "c"}, b.Tickets)
	require.ErrorIs(t, q.handOutErrors(t, For(&b, "a", "d"))[0], matchmaking.ErrNotHandedOut)
	require.Equal(t, int64(3), q.ReadBackfill(t, b.ID).Generation, "a match that isn't handed out changes nothing")

	created := Tickets("d")
	created.Backfill = &matchmaking.MatchBackfill{ID: matchmaking.NewBackfillID(q.Name), Create: true, Generation: 42,
		Spec: game("made")}
	r = q.HandOutRequest(created)
	r.BackfillTTL = LongHold / 2
	for range 2 {
		o := q.HandOut(t.Context(), r)[0]
		made := o.Backfill
		require.Equal(t, made.Expires, o.Held, "the end of its life releases its tickets")
		require.Equal(t, int64(1), made.Generation)
		require.Equal(t, game("made"), made.BackfillSpec)
		require.Equal(t, []string{"d"}, made.Tickets)
		require.Equal(t, 2, q.counts(t).Backfills)
	}
	r = q.HandOutRequest(Tickets("e"), Tickets("e"))
	r.MaxBackfills = 2
	r.Matches[0].Backfill = &matchmaking.MatchBackfill{ID: matchmaking.NewBackfillID(q.Name), Create: true}
	outcomes := q.HandOut(t.Context(), r)
	require.ErrorIs(t, outcomes[0].Err, matchmaking.ErrTooManyBackfills)
	require.NoError(t, outcomes[1].Err)

	require.NoError(t, q.DeleteBackfills(t.Context(), q.Name, []string{b.ID}))
	require.Equal(t, []matchmaking.Status{matchmaking.Searching, matchmaking.Pending, matchmaking.Searching},
		q.statuses(t, "a", "b", "c"), "only its own tickets wait again")
	require.ErrorIs(t, q.handOutErrors(t, For(&b, "a"))[0], matchmaking.ErrBackfillChanged)
	require.Equal(t, matchmaking.Searching, q.Status(t, "a"))
}

// handOutAgain hands a ticket out again for the backfill that it is associated with.
func handOutAgain(t *testing.T, q *Queue) {
	q.Add(t, "a", "b", "c")
	b := q.Backfill(t, LongTTL)
	b = *q.HandOutAll(t, For(&b, "a", "b"))[0].Backfill
	require.NoError(t, q.ReleaseFetched(t.Context(), q.Name, []string{"a"}))
	b = *q.HandOutAll(t, For(&b, "c", "a"))[0].Backfill
	require.Equal(t, []string{"a", "b", "c"}, b.Tickets)
	require.Equal(t, []string{"a", "b", "c"}, idsOf(q.Acknowledge(t, q.AcknowledgeRequest(b.ID)).Tickets))
	require.Equal(t, int64(3), q.counts(t).Matched)
}

// handOutReleased releases a hand-out whose match nobody got, after others for the same backfill.
func handOutReleased(t *testing.T, q *Queue) {
	q.Add(t, "a", "b", "c")
	first := q.HandOutRequest(Tickets("a", "b"))
	first.Matches[0].Backfill = &matchmaking.MatchBackfill{
		ID: matchmaking.NewBackfillID(q.Name), Create: true, Spec: game("made"),
	}
	made := *q.HandOut(t.Context(), first)[0].Backfill
	require.NoError(t, q.ReleaseFetched(t.Context(), q.Name, []string{"a"}))
	later := *q.HandOutAll(t, For(&made, "a", "c"))[0].Backfill
	unread := []string{"a", "b"}
	require.NoError(t, q.DeleteNewBackfills(t.Context(), q.Name, []string{made.ID}))
	require.NoError(t, q.Release(t.Context(), q.Name, matchmaking.BackfillToken(made.ID, first.Token), unread))
	require.Equal(t, later, q.ReadBackfill(t, made.ID), "another match has joined it")
	require.Equal(t, []matchmaking.Status{matchmaking.Pending, matchmaking.Searching, matchmaking.Pending},
		q.statuses(t, "a", "b", "c"), "one is in the later match")
	require.Equal(t, []string{"a", "c"}, idsOf(q.Acknowledge(t, q.AcknowledgeRequest(made.ID)).Tickets))

	again := q.HandOutRequest(Tickets("b"))
	again.Matches[0].Backfill = &matchmaking.MatchBackfill{
		ID: matchmaking.NewBackfillID(q.Name), Create: true, Spec: game("made"),
	}
	alone := *q.HandOut(t.Context(), again)[0].Backfill
	require.NoError(t, q.DeleteNewBackfills(t.Context(), q.Name, []string{alone.ID}))
	_, err := q.Store.Backfill(t.Context(), q.Name, alone.ID)
	require.ErrorIs(t, err, matchmaking.ErrNoBackfill)
	require.Equal(t, matchmaking.Searching, q.Status(t, "b"))
}

// backfillsAreBounded checks that a match isn't handed out if its backfill would have too many tickets.
func backfillsAreBounded(t *testing.T, q *Queue) {
	ids := storagetest.Numbered("t", matchmaking.MaxBackfillTickets+1)
	q.AddQuiet(t, ids...)
	b := q.Backfill(t, LongTTL)
	b = *q.HandOutAll(t, For(&b, ids[2:]...))[0].Backfill
	require.ErrorIs(t, q.handOutErrors(t, For(&b, ids[0], ids[1]))[0], matchmaking.ErrBackfillChanged)
	require.Equal(t, []matchmaking.Status{matchmaking.Searching, matchmaking.Searching}, q.statuses(t, ids[0], ids[1]))
	b = *q.HandOutAll(t, For(&b, ids[0]))[0].Backfill
	require.Len(t, b.Tickets, matchmaking.MaxBackfillTickets)
	require.Len(t, q.Acknowledge(t, q.AcknowledgeRequest(b.ID)).Tickets, matchmaking.MaxBackfillTickets)
	q.HandOutAll(t, For(&b, ids[1]))
}

func updateReleases(t *testing.T, q *Queue) {
	q.Add(t, "a", "b", "c")
	b := q.Backfill(t, LongTTL)
	b = *q.HandOutAll(t, For(&b, "a", "b"))[0].Backfill
	require.NoError(t, q.ReleaseFetched(t.Context(), q.Name, []string{"b"}))
	q.HandOutAll(t, Tickets("b"))
	after := q.ChangesAfter(t, "0-0", 100).After
	updated, err := q.UpdateBackfill(t.Context(), matchmaking.UpdateBackfillRequest{
		Queue: q.Name, ID: b.ID, Attempt: ulid.Make().String(), Spec: game("u"),
	})
	require.NoError(t, err)
	require.Empty(t, updated.Tickets)
	require.Equal(t, []matchmaking.Status{matchmaking.Searching, matchmaking.Pending}, q.statuses(t, "a", "b"),
		"but not a ticket that was handed out again")
	require.Equal(t, []string{"+a"}, ShortForm(q.ChangesAfter(t, after, 100).Changes))
	require.Empty(t, q.Acknowledge(t, q.AcknowledgeRequest(b.ID)).Tickets)
}

func acknowledge(t *testing.T, q *Queue) {
	q.Add(t, "a", "b", "gone", "released", "other", "matched")
	q.AddQuiet(t, "quiet")
	b := q.Backfill(t, LongTTL)
	b = *q.HandOutAll(t, For(&b, "a", "gone", "released", "other"))[0].Backfill
	b = *q.HandOutAll(t, For(&b, "matched", "quiet", "b"))[0].Backfill
	require.NoError(t, q.DeleteID(t.Context(), "gone"))
	require.NoError(t, q.ReleaseFetched(t.Context(), q.Name, []string{"released", "other"}))
	q.HandOutAll(t, Tickets("other"))
	q.assignAny(t, "m", "matched")

	r := q.AcknowledgeRequest(b.ID)
	first := q.Acknowledge(t, r)
	require.Equal(t, []string{"a", "quiet", "b"}, idsOf(first.Tickets))
	require.Empty(t, first.Backfill.Tickets)
	require.Equal(t, b.Generation, first.Backfill.Generation)
	require.False(t, first.Backfill.Expires.Equal(b.Expires))
	require.Len(t, first.Waits, 3)
	require.Len(t, first.Entries, 2, "of the tickets with channels")
	entries := q.outgoing(t, 0, 100)
	require.Len(t, entries, 3)
	for i, e := range first.Entries {
		require.Equal(t, entries[i+1].Entry, e.Entry)
		require.JSONEq(t, string(entries[i+1].Content), string(e.Content))
	}
	for _, a := range first.Tickets {
		stored := q.Get(t, a.ID)
		require.Equal(t, matchmaking.MatchFound, a.Status)
		require.Equal(t, stored.Assignment, a.Assignment)
		require.Equal(t, "10.0.0.1:7000", a.Assignment.Connection)
		require.Equal(t, r.MatchID, a.MatchID)
		require.Equal(t, Spec(a.ID), a.Spec)
		require.Len(t, a.Assignment.Teammates, 2)
	}
	require.Equal(t, []matchmaking.Status{matchmaking.Searching, matchmaking.Pending}, q.statuses(t, "released", "other"))
	require.Equal(t, "m", q.Get(t, "matched").MatchID)
	record, _, err := q.Store.Match(t.Context(), q.Name, r.MatchID)
	require.NoError(t, err)
	match, err := matchmaking.ParseMatch(record, time.Time{})
	require.NoError(t, err)
	require.Len(t, match.Teams[0], 3)
	require.Equal(t, int64(4), q.counts(t).Matched)

	require.NoError(t, q.DeleteID(t.Context(), "quiet"))
	again := q.Acknowledge(t, r)
	require.Equal(t, []string{"a", "b"}, idsOf(again.Tickets), "a repetition returns the same tickets")
	require.Empty(t, again.Entries)
	require.Equal(t, int64(4), q.counts(t).Matched, "and assigns nothing twice")
	require.Empty(t, q.Acknowledge(t, q.AcknowledgeRequest(b.ID)).Tickets, "later ones have none")
	q.HandOutAll(t, For(&b, "released"))
	require.Equal(t, []string{"released"}, idsOf(q.Acknowledge(t, q.AcknowledgeRequest(b.ID)).Tickets))
}

// assignAny assigns tickets that were handed out, or that nobody has claimed.
func (q *Queue) assignAny(t testing.TB, match string, tickets ...string) matchmaking.AssignOutcome {
	t.Helper()
	return q.Assign(t.Context(), matchmaking.AssignRequest{Queue: q.Name, Token: ulid.Make().String(), Keep: LongKeep,
		Any: true, Matches: []matchmaking.AssignMatch{q.Match(match, tickets...)}})[0]
}

func assignAny(t *testing.T, q *Queue) {
	q.Add(t, "free", "fetched", "associated", "directed", "x")
	b := q.Backfill(t, LongTTL)
	q.HandOutAll(t, Tickets("fetched"), For(&b, "associated"))
	q.Hold(t, "12.3", "directed")
	require.NoError(t, q.assignAny(t, "m1", "free", "fetched", "associated").Err)
	require.Equal(t, "m1", q.Get(t, "associated").MatchID)
	o := q.assignAny(t, "m2", "x", "directed", "free")
	require.Len(t, o.Conflicts, 2)
	require.Equal(t, matchmaking.ConflictClaim, o.Conflicts[0].Reason, "a director of the service has it")
	require.Equal(t, matchmaking.Searching, q.Status(t, "x"))
	require.Empty(t, q.Acknowledge(t, q.AcknowledgeRequest(b.ID)).Tickets)
	require.Equal(t, "m1", q.Get(t, "associated").MatchID)
}

func releaseFetched(t *testing.T, q *Queue) {
	ids := storagetest.Numbered("t", 1200)
	q.Add(t, ids...)
	q.Hold(t, "12.3", ids[1199])
	q.Hold(t, "99.1", ids[0])
	q.HandOutAll(t, Tickets(ids[1:600]...), Tickets(ids[600:1199]...))
	require.NoError(t, q.ReleaseFetched(t.Context(), q.Name, []string{}))
	require.Equal(t, 1200, q.counts(t).Pending)
	require.NoError(t, q.ReleaseFetched(t.Context(), q.Name, []string{ids[0], ids[1], "nobody"}))
	require.Equal(t, []matchmaking.Status{matchmaking.Pending, matchmaking.Searching}, q.statuses(t, ids[0], ids[1]))
	for range 2 {
		require.NoError(t, q.ReleaseFetched(t.Context(), q.Name, nil))
		require.Equal(t, 2, q.counts(t).Pending, "a director of the service has them")
	}
	require.Equal(t, matchmaking.Pending, q.Status(t, ids[1199]))
}

func manyBackfills(t *testing.T, q *Queue) {
	r := q.HandOutRequest()
	want := map[string]bool{}
	for i := range 2300 {
		id := matchmaking.NewBackfillID(q.Name)
		want[id] = true
		r.Matches = append(r.Matches, matchmaking.HandOutMatch{
			Backfill: &matchmaking.MatchBackfill{ID: id, Create: true, Spec: game(fmt.Sprint(i))},
		})
	}
	for _, o := range q.HandOut(t.Context(), r) {
		require.NoError(t, o.Err)
	}
	found := q.each(t)
	require.Len(t, found, len(want))
	for id := range found {
		require.True(t, want[id])
	}
	stop := errors.New("enough")
	require.ErrorIs(t, q.EachBackfill(t.Context(), q.Name, func([]*matchmaking.Backfill) error { return stop }), stop)
	require.NoError(t, q.DeleteBackfills(t.Context(), q.Name, slices.Collect(maps.Keys(want))))
	require.Empty(t, q.each(t))
}

// largeBackfills checks that large backfills are read a few at a time.
func largeBackfills(t *testing.T, q *Queue) {
	spec := game("large")
	spec.SearchFields.StringArgs = map[string]string{"map": strings.Repeat("x", 400<<10)}
	want := map[string]bool{}
	for range 5 {
		made, err := q.CreateBackfill(t.Context(), matchmaking.CreateBackfillRequest{
			Queue: q.Name, ID: matchmaking.NewBackfillID(q.Name), Spec: spec, TTL: LongTTL, Max: maxBackfills,
		})
		require.NoError(t, err)
		want[made.ID] = true
	}
	require.NoError(t, q.EachBackfill(t.Context(), q.Name, func(some []*matchmaking.Backfill) error {
		require.LessOrEqual(t, len(some), 2, "over 1 MiB at once")
		for _, b := range some {
			require.Equal(t, spec, b.BackfillSpec)
			require.True(t, want[b.ID])
			delete(want, b.ID)
		}
		return nil
	}))
	require.Empty(t, want)
}

func backfillsKeepAQueue(t *testing.T, q *Queue) {
	require.ErrorIs(t, q.Lead(t.Context(), "boss", LongTTL), matchmaking.ErrQueueIdle)
	nudges := q.Nudges(t)
	require.True(t, <-nudges, "the watch has begun")
	b := q.Backfill(t, LongTTL)
	require.False(t, <-nudges, "a director is wanted")
	require.NoError(t, q.Lead(t.Context(), "boss", LongTTL))
	require.NoError(t, q.Resign(t.Context(), "boss"))
	require.NoError(t, q.DeleteBackfills(t.Context(), q.Name, []string{b.ID}))
	require.ErrorIs(t, q.Lead(t.Context(), "boss", LongTTL), matchmaking.ErrQueueIdle)
}

// Concurrent hand-outs, acknowledgements, updates, releases and assignments: no ticket is in two matches that were
// handed out and not released, and none has two assignments.
func handOutsRace(t *testing.T, q *Queue) {
	ids := storagetest.Numbered("t", 60)
	q.AddQuiet(t, ids...)
	var mu sync.Mutex
	handed := map[string]int{}
	assigned := map[string]string{}
	var racing sync.WaitGroup
	for range 8 {
		racing.Go(func() {
			for range 30 {
				at := rand.IntN(len(ids) - 2)
				match := Tickets(ids[at], ids[at+1], ids[at+2])
				if q.HandOut(t.Context(), q.HandOutRequest(match))[0].Err == nil {
					mu.Lock()
					for _, ticket := range match.Tickets {
						handed[ticket.ID]++
					}
					mu.Unlock()
				}
			}
		})
	}
	racing.Wait()
	for id, times := range handed {
		require.Equal(t, 1, times, "ticket %s was handed out twice", id)
	}
	require.NotEmpty(t, handed)
	require.NoError(t, q.ReleaseFetched(t.Context(), q.Name, nil))

	b := q.Backfill(t, LongTTL)
	for worker := range 6 {
		racing.Go(func() {
			for i := range 20 {
				current := q.ReadBackfill(t, b.ID)
				at := rand.IntN(len(ids) - 1)
				q.HandOut(t.Context(), q.HandOutRequest(For(&current, ids[at], ids[at+1])))
				if worker%2 == 0 {
					a := q.Acknowledge(t, q.AcknowledgeRequest(b.ID))
					mu.Lock()
					for _, ticket := range a.Tickets {
						if assigned[ticket.ID] != "" {
							t.Errorf("ticket %s was assigned twice", ticket.ID)
						}
						assigned[ticket.ID] = ticket.MatchID
					}
					mu.Unlock()
					continue
				}
				match := fmt.Sprintf("m-%d-%d", worker, i)
				if o := q.assignAny(t, match, ids[at]); o.Err == nil && len(o.Conflicts) == 0 {
					mu.Lock()
					if assigned[ids[at]] != "" {
						t.Errorf("ticket %s was assigned twice", ids[at])
					}
					assigned[ids[at]] = match
					mu.Unlock()
				}
			}
		})
	}
	racing.Wait()
	for id, match := range assigned {
		require.Equal(t, match, q.Get(t, id).MatchID)
	}
}
