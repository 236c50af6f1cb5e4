package director

import (
	"context"
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

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/lease"
)

// world is the environment of a maker. It records the maker's calls in order. A call of any other method panics.
type world struct {
	Store
	Outbox
	Metrics

	mu       sync.Mutex
	log      []string
	outcomes []outcome
	entries  []matchmaking.OutboxEntry

	claims     []error                                       // of the next calls of Claim; then they succeed
	held       map[string]time.Duration                      // tickets that other claims hold
	notWaiting []string                                      // tickets that no longer wait
	assign     func(match string) matchmaking.AssignOutcome  // nil: assigned
	allocate   func(ctx context.Context, match string) error // nil: a place
	waits      bool                                          // the assigner isn't immediate
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
		case slices.Contains(w.notWaiting, id):
			c.NotWaiting = append(c.NotWaiting, id)
		default:
			c.IDs = append(c.IDs, id)
		}
	}
	return c, nil
}

func (w *world) Assign(_ context.Context, r matchmaking.AssignRequest) []matchmaking.AssignOutcome {
	var all []matchmaking.AssignOutcome
	var ids []string
	for _, m := range r.Matches {
		ids = append(ids, m.ID)
	}
	w.note("assign", r.Token, strings.Join(ids, ","),
		map[bool]string{true: "claimed", false: "unclaimed"}[r.Fence == 0])
	for _, m := range r.Matches {
		o := matchmaking.AssignOutcome{Waits: make([]time.Duration, len(m.Assignments))}
		for _, t := range m.Assignments {
			// no client asks for the channel of a
			o.Entries = append(o.Entries, map[bool]string{false: "entry-" + t.ID}[t.ID == "a"])
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

const makerHold = 10 * time.Second

// run starts matches and waits for all tasks. It returns what start returned.
func (w *world) run(ctx context.Context, matches ...matchmaking.Proposal) (unavailable, error) {
	log := slog.New(slog.DiscardHandler)
	tasks := newTasks(ctx)
	m := maker{
		store: w, assigner: assigner{w}, outbox: w, definition: &matchmaking.Definition{Name: "q",
			PendingTimeout: matchmaking.Duration(makerHold)},
		clock: &clock{}, tasks: tasks, health: newHealth(log), metrics: w, log: log, fence: 7,
		report: func(o outcome) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.outcomes = append(w.outcomes, o)
			w.log = append(w.log, "report")
		},
	}
	missed, err := m.start(ctx, matches)
	tasks.Finish(time.Hour)
	return missed, err
}

// match returns a match of one team.
func match(id string, tickets ...string) matchmaking.Proposal {
	m := matchmaking.Proposal{ID: id, Teams: [][]*matchmaking.Ticket{named(tickets...)}}
	return m
}

// named returns tickets with IDs.
func named(ids ...string) (tickets []*matchmaking.Ticket) {
	for _, id := range ids {
		tickets = append(tickets, &matchmaking.Ticket{ID: id})
	}
	return tickets
}

func TestMatchesAreAssigned(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		waits bool
		log   []string
	}{
		"after a claim": {true, []string{"claim 7.1 a,b", "allocate m1", "assign 7.1 m1 claimed", "matched",
			"report"}},
		"without a claim": {false, []string{"allocate m1", "allocate m2", "assign 7.1 m1,m2 unclaimed", "matched",
			"matched", "report"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{waits: test.waits}
			matches, tickets := []matchmaking.Proposal{match("m1", "a", "b")}, []string{"a", "b"}
			if !test.waits {
				matches, tickets = append(matches, match("m2", "c")), append(tickets, "c")
			}
			missed, err := w.run(t.Context(), matches...)
			require.NoError(t, err)
			require.Empty(t, missed.NotWaiting)
			require.Empty(t, missed.Held)
			require.Equal(t, test.log, w.log)
			require.Equal(t, []outcome{{Assigned: named(tickets...)}}, w.outcomes)
			require.Len(t, w.entries, len(tickets)-1, "all but that of a")
			require.Equal(t, "entry-b", w.entries[0].Entry)
			require.Equal(t, "m1", w.entries[0].MatchID)
			require.JSONEq(t, `{"ticketId":"b","matchId":"m1","queue":"q","connection":"at-m1","team":0}`,
				string(w.entries[0].Content))
		})
	}
}

func TestMatchesThatCannotBeClaimedWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{waits: true, held: map[string]time.Duration{"b": time.Second}, notWaiting: []string{"e"}}
		began := time.Now()
		missed, err := w.run(t.Context(), match("m1", "a", "b"), match("m2", "c"), match("m3", "d", "e"))
		require.NoError(t, err)
		require.Equal(t, named("e"), missed.NotWaiting)
		require.Len(t, missed.Held, 1)
		require.Equal(t, "b", missed.Held[0].Ticket.ID)
		require.True(t, missed.Held[0].Until.After(began.Add(time.Second)), "just after the other claim's deadline")
		require.Contains(t, w.log, "assign 7.1 m2 claimed")
		require.NotContains(t, w.log, "allocate m1")
		require.Contains(t, w.log, "release 7.1 a,d")
		require.Contains(t, w.outcomes, outcome{PutBack: named("a", "d")})
	})
}

func TestClaimThatFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		claims []error
		err    error
		log    []string
	}{
		"is tried again with its token": {[]error{errDown, errDown, nil}, nil,
			[]string{"claim 7.1 a", "claim 7.1 a", "claim 7.1 a", "allocate m", "assign 7.1 m claimed", "matched",
				"report"}},
		"for good": {[]error{lease.ErrLost}, lease.ErrLost, []string{"claim 7.1 a"}},
		"after one that may have held": {[]error{errDown, lease.ErrLost}, lease.ErrLost,
			[]string{"claim 7.1 a", "claim 7.1 a", "release 7.1 a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &world{waits: true, claims: test.claims}
				_, err := w.run(t.Context(), match("m", "a"))
				require.ErrorIs(t, err, test.err)
				require.Equal(t, test.log, w.log)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{waits: true, claims: slices.Repeat([]error{errDown}, 1000)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.run(ctx, match("m", "a"))
		require.Error(t, err, "the term ends meanwhile")
		require.Equal(t, "release 7.1 a", w.log[len(w.log)-1])
	})
}

// conflict is the outcome of a match that one ticket prevents.
func conflict(id string, reason matchmaking.ConflictReason, until time.Duration) matchmaking.AssignOutcome {
	c := matchmaking.Conflict{ID: id, Reason: reason}
	if until > 0 {
		c.Until = time.Now().Add(until)
	}
	return matchmaking.AssignOutcome{Conflicts: []matchmaking.Conflict{c}}
}

// TestMatchesThatFail tests that the claim and the server of a match are released before its tickets are available
// again.
func TestMatchesThatFail(t *testing.T) {
	t.Parallel()
	both := outcome{PutBack: named("a", "b")}
	for name, test := range map[string]struct {
		assign   func() matchmaking.AssignOutcome
		allocate error
		log      []string // besides claim, allocate, assign and report
		outcome  outcome
		released string // of the claim, if there is one
		later    bool   // the tickets are available later
	}{
		"no place": {
			allocate: errDown, later: true, log: []string{"allocation failed", "give back m "}, outcome: both,
			released: "a,b",
		},
		"a ticket is gone": {
			assign: func() matchmaking.AssignOutcome { return conflict("a", matchmaking.ConflictNotWaiting, 0) },
			log:    []string{"conflict gone", "give back m at-m"}, released: "b",
			outcome: outcome{unavailable: unavailable{NotWaiting: named("a")}, PutBack: named("b")},
		},
		"a ticket isn't held": {
			assign: func() matchmaking.AssignOutcome { return conflict("a", matchmaking.ConflictClaim, 0) },
			log:    []string{"conflict claim", "give back m at-m"}, released: "a,b",
			outcome: outcome{PutBack: named("a", "b")},
		},
		"another claim holds a ticket": {
			assign: func() matchmaking.AssignOutcome { return conflict("a", matchmaking.ConflictClaim, time.Second) },
			log:    []string{"conflict claim", "give back m at-m"}, released: "a,b",
			outcome: outcome{unavailable: unavailable{Held: []heldTicket{{Ticket: named("a")[0]}}}, PutBack: named("b")},
		},
		"refused for good": {
			assign: func() matchmaking.AssignOutcome { return matchmaking.AssignOutcome{Err: matchmaking.ErrNotAssigned} },
			later:  true, log: []string{"refused", "give back m at-m"}, outcome: both, released: "a,b",
		},
		"the lease is lost": {
			assign: func() matchmaking.AssignOutcome { return matchmaking.AssignOutcome{Err: lease.ErrLost} },
			log:    []string{"give back m at-m"}, released: "a,b",
			outcome: outcome{PutBack: named("a", "b"), LeaseErr: lease.ErrLost},
		},
	} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", claimed: ", waits), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := &world{waits: waits, assign: func(string) matchmaking.AssignOutcome { return test.assign() }}
					w.allocate = func(context.Context, string) error { return test.allocate }
					want := append([]string{"allocate m", "report"}, test.log...)
					if test.allocate == nil {
						want = append(want, "assign 7.1 m "+map[bool]string{true: "claimed", false: "unclaimed"}[waits])
					}
					if waits {
						want = append(want, "claim 7.1 a,b", "release 7.1 "+test.released)
					}
					began := time.Now()
					_, err := w.run(t.Context(), match("m", "a", "b"))
					require.NoError(t, err)
					require.ElementsMatch(t, want, w.log)
					released := slices.IndexFunc(w.log, func(l string) bool { return strings.HasPrefix(l, "release") })
					require.Less(t, released, slices.Index(w.log, "report"))
					require.Len(t, w.outcomes, 1)
					o := &w.outcomes[0]
					require.Equal(t, test.later, o.AvailableAt.After(began))
					o.AvailableAt = time.Time{}
					for i, h := range o.Held {
						require.True(t, h.Until.After(began.Add(time.Second)), "just after the other claim's deadline")
						o.Held[i].Until = time.Time{}
					}
					require.Equal(t, test.outcome, *o)
					require.Empty(t, w.entries)
				})
			})
		}
	}
}

// TestAssignIsRepeated tests that only matches with an unknown outcome are assigned again.
func TestAssignIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		w := &world{assign: func(match string) matchmaking.AssignOutcome {
			if asked[match]++; match == "m2" && asked[match] < 3 {
				return matchmaking.AssignOutcome{Err: errDown} // the reply is lost
			}
			return matchmaking.AssignOutcome{} // m2 exists
		}}
		_, err := w.run(t.Context(), match("m1", "a"), match("m2", "b"))
		require.NoError(t, err)
		require.Equal(t, map[string]int{"m1": 1, "m2": 3}, asked)
		require.Equal(t, []outcome{{Assigned: named("a", "b")}}, w.outcomes)
	})
}

func TestOutcomeThatIsNeverKnown(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"after a claim": true, "without a claim": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &world{waits: waits,
					assign: func(
						string) matchmaking.AssignOutcome {
						return matchmaking.AssignOutcome{Err: errDown}
					}}
				want := outcome{PutBack: named("a"), Uncertain: true}
				if waits {
					want.AvailableAt = time.Now().Add(makerHold)
				}
				_, err := w.run(t.Context(), match("m", "a"))
				require.NoError(t, err)
				require.Equal(t, []outcome{want}, w.outcomes)
				require.NotContains(t, w.log, "give back m at-m", "players may know the place")
				require.Greater(t, len(w.log), 20, "it was asked again for a while")
			})
		})
	}
}

func TestAllocationsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, highest := 0, 0
		w := &world{waits: true}
		w.allocate = func(ctx context.Context, _ string) error {
			mu.Lock()
			now++
			highest = max(highest, now)
			mu.Unlock()
			time.Sleep(800 * time.Millisecond) //nolint:forbidigo // in a bubble it takes no time
			mu.Lock()
			now--
			mu.Unlock()
			return ctx.Err()
		}
		var matches []matchmaking.Proposal
		for i := range 1000 {
			id := string(rune('a'+i%26)) + strings.Repeat("x", i/26)
			matches = append(matches, match("m"+id, id))
		}
		_, err := w.run(t.Context(), matches...)
		require.NoError(t, err)
		require.Equal(t, 64, highest)
		finished, later := 0, 0
		for _, o := range w.outcomes {
			finished, later = finished+len(o.Assigned), later+len(o.PutBack)
		}
		require.Equal(t, 1000, finished+later)
		require.Equal(t, 11*64, finished, "those that got a place before the claim's deadline")
	})
}

func TestNext(t *testing.T) {
	t.Parallel()
	hundred := match("m", make([]string, 100)...)
	m := maker{assigner: assigner{&world{waits: true}}}
	require.Equal(t, 1, m.next([]matchmaking.Proposal{match("m", make([]string, 501)...), hundred}))
	require.Equal(t, 5, m.next(slices.Repeat([]matchmaking.Proposal{hundred}, 7)))
	require.Equal(t, 2, m.next(slices.Repeat([]matchmaking.Proposal{hundred}, 2)))
	m.assigner = assigner{&world{}}
	require.Equal(t, 700, m.next(slices.Repeat([]matchmaking.Proposal{hundred}, 700)), "nothing is claimed")
}
