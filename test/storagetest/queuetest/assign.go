package queuetest

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func assign(t *testing.T, q *Queue) {
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
	q.Add(t, "a", "b")
	q.Hold(t, "token", "a", "b")
	m, plain := q.Match("m1", "a"), q.Match("m2", "b")
	plain.Record = nil
	require.ErrorIs(t, storagetest.ErrorOf2(q.Store.Match(t.Context(), q.Name, "m1")), matchmaking.ErrNoMatch)
	for _, later := range []string{"c", "d"} {
		for _, o := range q.AssignMatches(t.Context(), "token", m, plain) {
			require.NoError(t, o.Err)
			require.Empty(t, o.Conflicts)
		}
		q.Add(t, later)
		record, at, err := q.Store.Match(t.Context(), q.Name, "m1")
		require.NoError(t, err)
		require.Equal(t, `{"matchId": "m1"}`, string(record), "byte for byte")
		require.WithinRange(t, at, q.Get(t, "b").CreateTime, q.Get(t, "c").CreateTime)
		require.ErrorIs(t, storagetest.ErrorOf2(q.Store.Match(t.Context(), q.Name, "m2")), matchmaking.ErrNoMatch,
			"it has none")
	}
	require.Empty(t, q.AssignMatches(t.Context(), "token", q.Match("m1", "a"))[0].Conflicts,
		"what makes a match is its tickets")
}

// If one ticket of a match can't be assigned, for any reason, all tickets of the match are unchanged.
func assignConflicts(t *testing.T, q *Queue) {
	q.Add(t, "good", "cancelled", "other", "free", "matched", "late")
	q.AddShort(t, "expired")
	q.Hold(t, "token", "good", "cancelled", "matched", "expired")
	held := map[string]time.Time{"other": q.ClaimIDs(t, "another", "other").Deadline}
	_, err := q.Claim(t.Context(), matchmaking.ClaimRequest{Queue: q.Name, Token: "token", Hold: Shortest,
		IDs: []string{"late"}})
	require.NoError(t, err)
	require.NoError(t, q.CancelID(t.Context(), "cancelled"))
	q.AssignOne(t, "token", "m1", "matched")
	require.Eventually(t, func() bool {
		return q.Status(t, "expired") == matchmaking.Expired && q.Status(t, "late") == matchmaking.Searching
	}, storagetest.Patience, Shortest/10)

	all := []string{"good", "cancelled", "other", "free", "matched", "late", "expired"}
	before := q.Picture(t, all...)
	conflicts := 0
	for id, reason := range map[string]matchmaking.ConflictReason{
		"cancelled": "gone", "matched": "gone", "expired": "gone", "nobody": "gone",
		"other": "claim", "free": "claim", "late": "claim",
	} {
		outcomes := q.AssignMatches(t.Context(), "token", q.Match("m-"+id, "good", id))
		require.NoError(t, outcomes[0].Err)
		require.Equal(t, []matchmaking.Conflict{{ID: id, Reason: reason, Until: held[id]}}, outcomes[0].Conflicts, id)
		require.Empty(t, outcomes[0].Entries)
		conflicts++
	}
	require.Equal(t, before, q.Picture(t, all...))
	require.EqualValues(t, conflicts, q.counts(t).Conflicts)
	outcomes := q.AssignMatches(t.Context(), "token", q.Match("m1", "good"))
	require.NotEmpty(t, outcomes[0].Entries, "another match under the same ID isn't the one that was made")
}

// The matches of a call are processed one after the other, as by separate calls: a failed match doesn't affect the
// others.
func assignOfManyMatches(t *testing.T, q *Queue) {
	ids := storagetest.Numbered("t", 1200) // more than the limit of one script
	q.Add(t, ids...)
	q.Hold(t, "token", ids...)
	require.NoError(t, q.CancelID(t.Context(), ids[20]))
	var matches []matchmaking.AssignMatch
	for i := 0; i < len(ids); i += 2 {
		matches = append(matches, q.Match("m"+strconv.Itoa(i/2), ids[i], ids[i+1]))
	}
	matches[30] = q.Match("m30", ids[60], ids[20])
	matches[31] = q.Match("m31", ids[62], ids[63], ids[62], ids[0])
	matches[32] = matches[29]
	matches[33] = q.Match("m33", ids[60], ids[61])
	conflicts := map[int]string{10: ids[20], 30: ids[20], 31: ids[62] + ids[0]}
	for i, o := range q.AssignMatches(t.Context(), "token", matches...) {
		require.NoError(t, o.Err)
		found := ""
		for _, c := range o.Conflicts {
			require.Equal(t, matchmaking.ConflictNotWaiting, c.Reason)
			found += c.ID
		}
		require.Equal(t, conflicts[i], found, i)
	}
	for i, o := range q.AssignMatches(t.Context(), "token", matches...) {
		require.Equal(t, conflicts[i] != "", len(o.Conflicts) > 0, "%d: a repeat finds what was assigned", i)
	}
	require.Equal(t, 1200-4*2, q.counts(t).Outgoing, "each once, but for those of m10, m30, m31 and m32")
	for _, rest := range []int{21, 62, 63, 64, 65, 66} {
		require.Equal(t, matchmaking.Pending, q.Status(t, ids[rest]))
	}
	require.Empty(t, q.AssignMatches(t.Context(), "token"))

	// The response to the first call was lost, and meanwhile there is a further match.
	again := q.AssignMatches(t.Context(), "token", matches[0], q.Match("later", ids[64], ids[65]))
	require.Empty(t, again[0].Entries)
	require.Len(t, again[1].Entries, 2)
}

// The lease holder can assign unclaimed tickets, and no other caller can.
func assignUnderTheLease(t *testing.T, q *Queue) {
	q.Add(t, "a", "b", "c", "d", "e", "f")
	until := q.ClaimIDs(t, "another", "c").Deadline
	q.Hold(t, "mine", "d")
	require.NoError(t, q.Lead(t.Context(), "first", LongTTL))
	under := func(fence uint64, token string, matches ...matchmaking.AssignMatch) []matchmaking.AssignOutcome {
		return q.Assign(t.Context(), matchmaking.AssignRequest{
			Queue: q.Name, Token: token, Fence: fence, Keep: LongKeep, Matches: matches,
		})
	}
	first := q.Fence
	made := under(first, "mine", q.Match("m1", "a", "d"), q.Match("m2", "b", "c"), q.Match("m3", "e"))
	require.Equal(t, []matchmaking.Conflict{{ID: "c", Reason: matchmaking.ConflictClaim, Until: until}},
		made[1].Conflicts)
	for i, entries := range []int{2, 0, 1} {
		require.NoError(t, made[i].Err)
		require.Len(t, made[i].Entries, entries)
	}
	require.Equal(t, "claim", string(q.AssignMatches(t.Context(), "mine", q.Match("m4", "b"))[0].Conflicts[0].Reason),
		"without the fence it must be held")

	require.NoError(t, q.Resign(t.Context(), "first"))
	require.NoError(t, q.Lead(t.Context(), "second", LongTTL))
	before := q.Picture(t, "a", "b", "c", "d", "e", "f")
	late := under(first, "mine", q.Match("m1", "a", "d"), q.Match("m2", "b"), q.Match("m5", "b", "a"))
	require.NoError(t, late[0].Err, "it was assigned before")
	require.Empty(t, late[0].Conflicts)
	require.Empty(t, late[0].Entries)
	require.ErrorIs(t, late[1].Err, lease.ErrLost)
	require.ErrorIs(t, late[2].Err, lease.ErrLost)
	require.Equal(t, before, q.Picture(t, "a", "b", "c", "d", "e", "f"))
	require.Len(t, under(q.Fence, "theirs", q.Match("m6", "b"))[0].Entries, 1)
}

// Two directors that each consider the other failed assign each ticket once.
func assignOfTwoDirectors(t *testing.T, q *Queue) {
	ids := storagetest.Numbered("t", 200)
	q.Add(t, ids...)
	require.NoError(t, q.Lead(t.Context(), "lease", LongTTL))
	fence := q.Fence
	var g errgroup.Group
	made := make([]int, 2)
	for d := range made {
		g.Go(func() error {
			for i := 0; i < len(ids); i += 10 {
				var matches []matchmaking.AssignMatch
				for at := i; at < i+10; at += 2 {
					matches = append(matches, q.Match(fmt.Sprintf("d%d-%d", d, at), ids[(at+d)%len(ids)],
						ids[(at+d+1)%len(ids)]))
				}
				for _, o := range q.Assign(t.Context(), matchmaking.AssignRequest{
					Queue: q.Name, Token: fmt.Sprintf("d%d.%d", d, i), Fence: fence, Keep: LongKeep, Matches: matches,
				}) {
					if o.Err != nil {
						return o.Err
					}
					made[d] += len(o.Entries)
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	counts := q.counts(t)
	require.EqualValues(t, made[0]+made[1], counts.Matched)
	require.Equal(t, made[0]+made[1], counts.Outgoing)
	require.Equal(t, len(ids)-counts.Outgoing, counts.Searching)
	seen := map[string]bool{}
	for _, e := range q.outgoing(t, 0, 1000) {
		require.False(t, seen[e.TicketID], e.TicketID)
		seen[e.TicketID] = true
	}
}

// Players that leave during the assignment of their match either are in it or have left, never both.
func cancelAgainstAssign(t *testing.T, q *Queue) {
	const rounds = 50
	var mu sync.Mutex
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
				return storagetest.Ignoring(err, matchmaking.ErrTicketMatched)
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
	}
}
