package maker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/director/maker"
	"github.com/tidemark-dev/tidemark/matchmaking/director/round"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/storetime"
)

// world is everything around a maker. It records what the maker does, in order.
type world struct {
	mu       sync.Mutex
	log      []string
	outcomes []maker.Outcome
	entries  []matchmaking.OutboxEntry

	claims   []error                                       // of the next calls of Claim; then they succeed
	held     map[string]time.Duration                      // tickets that other claims hold
	gone     []string                                      // tickets that no longer wait
	assign   func(match string) matchmaking.AssignOutcome  // nil: assigned
	allocate func(ctx context.Context, match string) error // nil: a place
	waits    bool                                          // the assigner isn't immediate
}

func (w *world) note(words ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, strings.Join(words, " "))
}

func (w *world) Claim(_ context.Context, r matchmaking.ClaimRequest) (matchmaking.Claimed, error) {
	if token, _, _ := strings.Cut(r.Token, "."); token != strconv.FormatUint(r.Fence, 10) {
		return matchmaking.Claimed{}, fmt.Errorf("%w: the token %s for the fence %d", lease.ErrLost, r.Token, r.Fence)
	}
	w.note("claim", r.Token, strings.Join(r.IDs, ","))
	if len(w.claims) > 0 {
		err := w.claims[0]
		w.claims = w.claims[1:]
		if err != nil {
			return matchmaking.Claimed{}, err
		}
	}
	c := matchmaking.Claimed{Now: time.Now(), Deadline: time.Now().Add(r.Hold), Held: map[string]time.Time{}}
	for _, id := range r.IDs {
		switch until, held := w.held[id]; {
		case held:
			c.Held[id] = time.Now().Add(until)
		case slices.Contains(w.gone, id):
			c.Gone = append(c.Gone, id)
		default:
			c.IDs = append(c.IDs, id)
		}
	}
	return c, nil
}

func (w *world) Assign(_ context.Context, r matchmaking.AssignRequest) []matchmaking.AssignOutcome {
	var all []matchmaking.AssignOutcome
	for _, m := range r.Matches {
		w.note("assign", r.Token, m.ID)
		o := matchmaking.AssignOutcome{Waits: make([]time.Duration, len(m.Assignments))}
		for _, t := range m.Assignments {
			o.Entries = append(o.Entries, "entry-"+t.ID)
		}
		if w.assign != nil {
			o = w.assign(m.ID)
		}
		all = append(all, o)
	}
	return all
}

func (w *world) Release(_ context.Context, _, token string, ids []string) error {
	slices.Sort(ids)
	w.note("release", token, strings.Join(ids, ","))
	return nil
}

func (w *world) Offer(entries []matchmaking.OutboxEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries = append(w.entries, entries...)
}

func (w *world) Matched([]time.Duration)               { w.note("matched") }
func (w *world) Conflict(r matchmaking.ConflictReason) { w.note("conflict", string(r)) }
func (w *world) ProposalRefused()                      { w.note("refused") }
func (w *world) AllocationFailed()                     { w.note("allocation failed") }

// assigner is the world as an assigner.
type assigner struct{ *world }

func (a assigner) Allocate(ctx context.Context, p matchmaking.Proposal) (matchmaking.Allocation, error) {
	a.note("allocate", p.ID)
	if a.allocate != nil {
		if err := a.allocate(ctx, p.ID); err != nil {
			return matchmaking.Allocation{}, err
		}
	}
	return matchmaking.Allocation{Connection: "at-" + p.ID}, nil
}

func (a assigner) Release(_ context.Context, matchID string, p matchmaking.Allocation) error {
	a.note("give back", matchID, p.Connection)
	return nil
}

func (a assigner) Immediate() bool { return !a.waits }

const hold = 10 * time.Second

// run starts matches and waits for all tasks. It returns what Start returned.
func (w *world) run(ctx context.Context, matches ...round.Match) (maker.Missed, error) {
	log := slog.New(slog.DiscardHandler)
	tasks := maker.NewTasks(ctx)
	m := maker.Maker{
		Store: w, Assigner: assigner{w}, Outbox: w, Definition: &matchmaking.Definition{Name: "q", PendingTimeout: matchmaking.Duration(hold)},
		Clock: &storetime.Clock{}, Tasks: tasks, Health: maker.NewHealth(log), Metrics: w, Log: log, Fence: 7,
		Report: func(o maker.Outcome) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.outcomes = append(w.outcomes, o)
			w.log = append(w.log, "report")
		},
	}
	missed, err := m.Start(ctx, matches)
	tasks.Finish(time.Hour)
	return missed, err
}

// match returns a match of one team.
func match(id string, tickets ...string) round.Match {
	m := round.Match{Proposal: matchmaking.Proposal{ID: id, Teams: [][]*matchmaking.Ticket{{}}}, IDs: tickets}
	for _, t := range tickets {
		m.Teams[0] = append(m.Teams[0], &matchmaking.Ticket{ID: t})
	}
	return m
}

func TestMatchesAreAssigned(t *testing.T) {
	t.Parallel()
	w := &world{}
	missed, err := w.run(t.Context(), match("m1", "a", "b"), match("m2", "c"))
	require.NoError(t, err)
	require.Empty(t, missed.Gone)
	require.Empty(t, missed.Held)
	require.Equal(t, []string{"claim 7.1 a,b,c", "allocate m1", "allocate m2", "assign 7.1 m1", "assign 7.1 m2", "matched", "matched", "report"}, w.log)
	require.Equal(t, []maker.Outcome{{Finished: []string{"a", "b", "c"}}}, w.outcomes)
	require.Len(t, w.entries, 3)
	require.Equal(t, "entry-b", w.entries[1].Entry)
	require.Equal(t, "m1", w.entries[1].MatchID)
	require.JSONEq(t, `{"ticketId":"b","matchId":"m1","queue":"q","connection":"at-m1","team":0}`, string(w.entries[1].Content))
}

func TestMatchesThatCannotBeClaimedWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{held: map[string]time.Duration{"b": time.Second}, gone: []string{"e"}}
		began := time.Now()
		missed, err := w.run(t.Context(), match("m1", "a", "b"), match("m2", "c"), match("m3", "d", "e"))
		require.NoError(t, err)
		require.Equal(t, []string{"e"}, missed.Gone)
		require.True(t, missed.Held["b"].After(began.Add(time.Second)), "just after the other claim's deadline")
		require.Contains(t, w.log, "assign 7.1 m2")
		require.NotContains(t, w.log, "allocate m1")
		require.Contains(t, w.log, "release 7.1 a,d")
		require.Contains(t, w.outcomes, maker.Outcome{PutBack: []string{"a", "d"}})
	})
}

func TestClaimThatFails(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for name, test := range map[string]struct {
		claims []error
		err    error
		log    []string
	}{
		"is tried again with its token": {[]error{down, down, nil}, nil, []string{"claim 7.1 a", "claim 7.1 a", "claim 7.1 a", "allocate m", "assign 7.1 m", "matched", "report"}},
		"for good":                      {[]error{lease.ErrLost}, lease.ErrLost, []string{"claim 7.1 a"}},
		"after one that may have held":  {[]error{down, lease.ErrLost}, lease.ErrLost, []string{"claim 7.1 a", "claim 7.1 a", "release 7.1 a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &world{claims: test.claims}
				_, err := w.run(t.Context(), match("m", "a"))
				require.ErrorIs(t, err, test.err)
				require.Equal(t, test.log, w.log)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{claims: slices.Repeat([]error{down}, 1000)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.run(ctx, match("m", "a"))
		require.Error(t, err, "the term ends meanwhile")
		require.Equal(t, "release 7.1 a", w.log[len(w.log)-1])
	})
}

// TestMatchesThatFail tests that what was taken for a match is given back before its tickets are available again.
func TestMatchesThatFail(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		assign   matchmaking.AssignOutcome
		allocate error
		log      []string
		outcomes []maker.Outcome
		later    bool // the tickets are available later
	}{
		"no place": {
			allocate: broken, later: true,
			log:      []string{"claim 7.1 a,b", "allocate m", "allocation failed", "give back m ", "release 7.1 a,b", "report"},
			outcomes: []maker.Outcome{{PutBack: []string{"a", "b"}}},
		},
		"a ticket is gone": {
			assign:   matchmaking.AssignOutcome{Conflicts: []matchmaking.Conflict{{ID: "a", Reason: matchmaking.ConflictGone}}},
			log:      []string{"claim 7.1 a,b", "allocate m", "assign 7.1 m", "conflict gone", "give back m at-m", "release 7.1 b", "report"},
			outcomes: []maker.Outcome{{Finished: []string{"a"}, PutBack: []string{"b"}}},
		},
		"the claim is over": {
			assign:   matchmaking.AssignOutcome{Conflicts: []matchmaking.Conflict{{ID: "a", Reason: matchmaking.ConflictClaim}}},
			log:      []string{"claim 7.1 a,b", "allocate m", "assign 7.1 m", "conflict claim", "give back m at-m", "release 7.1 a,b", "report"},
			outcomes: []maker.Outcome{{PutBack: []string{"a", "b"}}},
		},
		"refused for good": {
			assign: matchmaking.AssignOutcome{Err: matchmaking.ErrNotAssigned}, later: true,
			log:      []string{"claim 7.1 a,b", "allocate m", "assign 7.1 m", "refused", "give back m at-m", "release 7.1 a,b", "report"},
			outcomes: []maker.Outcome{{PutBack: []string{"a", "b"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &world{assign: func(string) matchmaking.AssignOutcome { return test.assign }}
				w.allocate = func(context.Context, string) error { return test.allocate }
				began := time.Now()
				_, err := w.run(t.Context(), match("m", "a", "b"))
				require.NoError(t, err)
				require.ElementsMatch(t, test.log, w.log)
				released := slices.IndexFunc(w.log, func(l string) bool { return strings.HasPrefix(l, "release") })
				require.Less(t, released, slices.Index(w.log, "report"))
				for i := range w.outcomes {
					require.Equal(t, test.later, w.outcomes[i].From.After(began))
					w.outcomes[i].From = time.Time{}
				}
				require.Equal(t, test.outcomes, w.outcomes)
				require.Empty(t, w.entries)
			})
		})
	}
}

func TestOutcomeThatIsNeverKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{assign: func(string) matchmaking.AssignOutcome { return matchmaking.AssignOutcome{Err: errors.New("down")} }}
		began := time.Now()
		_, err := w.run(t.Context(), match("m", "a"))
		require.NoError(t, err)
		require.Equal(t, []maker.Outcome{{PutBack: []string{"a"}, From: began.Add(hold), Uncertain: true}}, w.outcomes)
		require.NotContains(t, w.log, "give back m at-m", "players may know the place")
		require.Greater(t, len(w.log), 20, "it was asked again for a while")
	})
}

func TestAllocationsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		w := &world{waits: true}
		w.allocate = func(ctx context.Context, _ string) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(800 * time.Millisecond) //nolint:forbidigo // in a bubble it takes no time
			mu.Lock()
			now--
			mu.Unlock()
			return ctx.Err()
		}
		var matches []round.Match
		for i := range 1000 {
			id := string(rune('a'+i%26)) + strings.Repeat("x", i/26)
			matches = append(matches, match("m"+id, id))
		}
		_, err := w.run(t.Context(), matches...)
		require.NoError(t, err)
		require.Equal(t, 64, most)
		finished, later := 0, 0
		for _, o := range w.outcomes {
			finished, later = finished+len(o.Finished), later+len(o.PutBack)
		}
		require.Equal(t, 1000, finished+later)
		require.Equal(t, 11*64, finished, "those that got a place before the claim's deadline")
	})
}

func TestNextClaim(t *testing.T) {
	t.Parallel()
	hundred := match("m", make([]string, 100)...)
	require.Equal(t, 1, maker.NextClaim([]round.Match{match("m", make([]string, 501)...), hundred}))
	require.Equal(t, 5, maker.NextClaim(slices.Repeat([]round.Match{hundred}, 7)))
	require.Equal(t, 2, maker.NextClaim(slices.Repeat([]round.Match{hundred}, 2)))
}
