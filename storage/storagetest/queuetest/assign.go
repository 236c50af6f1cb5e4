package queuetest

import (
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

func assign(t *testing.T, q *Queue) {
	t.Helper()
	q.Add(t, "a", "b", "c")
	q.Hold(t, "token", "b", "a")
	made := q.AssignOne(t, "token", "m1", "b", "a")
	require.Len(t, made.Entries, 2)
	require.Len(t, made.Waits, 2)
	require.Positive(t, made.Waits[0])
	require.Greater(t, made.Waits[1], made.Waits[0], "a came first")
	for team, id := range []string{"b", "a"} {
		found := q.Get(t, id)
		require.Equal(t, matchmaking.MatchFound, found.Status)
		require.Equal(t, "m1", found.MatchID)
		require.Equal(t, team, found.Assignment.Team)
	}
	require.Equal(t, matchmaking.QueueState{Searching: 1, Outgoing: 2, Matched: 2}, q.counts(t))

	before := q.Picture(t, "a", "b", "c")
	again := q.AssignOne(t, "token", "m1", "b", "a")
	require.Empty(t, again.Entries)
	require.Empty(t, again.Waits)
	require.Equal(t, before, q.Picture(t, "a", "b", "c"), "a repeat changes nothing")
}

func matchRecord(t *testing.T, q *Queue) {
	t.Helper()
	read := func(id string) (string, error) {
		record, err := q.Store.Match(t.Context(), q.Name, id)
		return string(record), err
	}
	q.Add(t, "a", "b")
	q.Hold(t, "token", "a", "b")
	m, plain := q.Match("m1", "a"), q.Match("m2", "b")
	plain.Record = nil
	require.ErrorIs(t, errorOf(read("m1")), matchmaking.ErrNoMatch)
	for range 2 {
		for _, o := range q.AssignMatches(t.Context(), "token", m, plain) {
			require.NoError(t, o.Err)
			require.Empty(t, o.Conflicts)
		}
		record, err := read("m1")
		require.NoError(t, err)
		require.Equal(t, `{"matchId": "m1"}`, record, "byte for byte")
		require.ErrorIs(t, errorOf(read("m2")), matchmaking.ErrNoMatch, "it has none")
	}
	require.Empty(t, q.AssignMatches(t.Context(), "token", q.Match("m1", "a"))[0].Conflicts, "what makes a match is its tickets")
}

// A match of which one ticket can't be assigned leaves all of them as they are, whatever is wrong with the one.
func assignConflicts(t *testing.T, q *Queue) {
	t.Helper()
	q.Add(t, "good", "cancelled", "other", "free", "matched", "late")
	r := q.Request("expired")
	r.TTL = Shortest
	_, _, err := q.Create(t.Context(), r)
	require.NoError(t, err)
	q.Hold(t, "token", "good", "cancelled", "matched", "expired")
	q.Hold(t, "another", "other")
	_, err = q.Claim(t.Context(), matchmaking.ClaimRequest{Queue: q.Name, Token: "token", Hold: Shortest, IDs: []string{"late"}})
	require.NoError(t, err)
	require.NoError(t, q.CancelID(t.Context(), "cancelled"))
	q.AssignOne(t, "token", "m1", "matched")
	require.Eventually(t, func() bool {
		return q.Status(t, "expired") == matchmaking.Expired && q.Status(t, "late") == matchmaking.Searching
	}, patience, Shortest/10)

	all := []string{"good", "cancelled", "other", "free", "matched", "late", "expired"}
	before := q.Picture(t, all...)
	conflicts := 0
	for id, reason := range map[string]matchmaking.ConflictReason{
		"cancelled": "gone", "matched": "gone", "expired": "gone", "nobody": "gone",
		"other": "claim", "free": "claim", "late": "claim",
	} {
		outcomes := q.AssignMatches(t.Context(), "token", q.Match("m-"+id, "good", id))
		require.NoError(t, outcomes[0].Err)
		require.Equal(t, []matchmaking.Conflict{{ID: id, Reason: reason}}, outcomes[0].Conflicts, id)
		require.Empty(t, outcomes[0].Entries)
		conflicts++
	}
	require.Equal(t, before, q.Picture(t, all...))
	require.EqualValues(t, conflicts, q.counts(t).Conflicts)
	outcomes := q.AssignMatches(t.Context(), "token", q.Match("m1", "good"))
	require.NotEmpty(t, outcomes[0].Entries, "another match under the same ID isn't the one that was made")
}

func assignOfManyMatches(t *testing.T, q *Queue) {
	t.Helper()
	ids := Numbered("t", 100)
	q.Add(t, ids...)
	q.Hold(t, "token", ids...)
	require.NoError(t, q.CancelID(t.Context(), ids[20]))
	var matches []matchmaking.AssignMatch
	for i := 0; i < len(ids); i += 2 {
		matches = append(matches, q.Match("m"+strconv.Itoa(i/2), ids[i], ids[i+1]))
	}
	for i, o := range q.AssignMatches(t.Context(), "token", matches...) {
		require.NoError(t, o.Err)
		if i == 10 {
			require.Equal(t, []matchmaking.Conflict{{ID: ids[20], Reason: "gone"}}, o.Conflicts)
			continue
		}
		require.Len(t, o.Entries, 2)
	}
	require.Empty(t, q.AssignMatches(t.Context(), "token"))
	require.Equal(t, matchmaking.Pending, q.Status(t, ids[21]))
}

// Players who leave while their match is assigned either are in it or have left, never both.
func cancelAgainstAssign(t *testing.T, q *Queue) {
	t.Helper()
	const rounds = 50
	var mu sync.Mutex
	wins := map[string]int{}
	for round := range rounds {
		a, b := "a"+strconv.Itoa(round), "b"+strconv.Itoa(round)
		q.Add(t, a, b)
		q.Hold(t, "token", a, b)
		cancelled := map[string]bool{}
		var outcomes [2]matchmaking.AssignOutcome
		var g errgroup.Group
		for i := range outcomes {
			g.Go(func() error {
				outcomes[i] = q.AssignMatches(t.Context(), "token", q.Match("m"+strconv.Itoa(round), a, b))[0]
				return outcomes[i].Err
			})
		}
		for _, id := range []string{a, b, a} {
			g.Go(func() error {
				err := q.CancelID(t.Context(), id)
				if err == nil {
					mu.Lock()
					cancelled[id] = true
					mu.Unlock()
				}
				return Ignoring(err, matchmaking.ErrTicketMatched)
			})
		}
		require.NoError(t, g.Wait())
		assigned := len(outcomes[0].Conflicts) == 0
		require.Equal(t, assigned, len(outcomes[1].Conflicts) == 0, "both tries tell the same")
		require.Equal(t, !assigned, len(cancelled) > 0, "either the match or the players")
		for _, id := range []string{a, b} {
			switch status := q.Status(t, id); {
			case assigned:
				require.Equal(t, matchmaking.MatchFound, status)
			case cancelled[id]:
				require.Equal(t, matchmaking.Cancelled, status)
			default:
				require.Equal(t, matchmaking.Pending, status)
			}
		}
		wins[map[bool]string{true: "assign", false: "cancel"}[assigned]]++
	}
	t.Logf("%v", wins)
}

// Ignoring returns err, unless it is one that may be.
func Ignoring(err, may error) error {
	if errors.Is(err, may) {
		return nil
	}
	return err
}
