package director

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/lease"
)

// memory is a queue in memory without claims, for the interface of the store.
type memory struct {
	matchmaking.Claims // of which what claims is not used

	mu      sync.Mutex
	waiting map[string]*matchmaking.Ticket
	order   []*matchmaking.Ticket
	read    int                  // changes that were read: the first of order
	held    map[string]time.Time // by another token
	ended   map[string]bool      // tickets that don't wait but can be read
	matches map[string][]string  // tickets of each match
	calls   int                  // of Assign
	fails   func(call int) error // of Assign, after it did its work
	lost    bool                 // the lease
	notify  func(bool)
	changed chan struct{} // buffered (capacity 1): tickets were added
}

func newMemory() *memory {
	return &memory{
		waiting: map[string]*matchmaking.Ticket{}, held: map[string]time.Time{}, ended: map[string]bool{},
		matches: map[string][]string{}, fails: func(int) error { return nil }, notify: func(bool) {},
		changed: make(chan struct{}, 1),
	}
}

func (m *memory) add(tickets ...*matchmaking.Ticket) {
	m.mu.Lock()
	for _, t := range tickets {
		m.waiting[t.ID] = t
	}
	m.order = append(m.order, tickets...)
	m.mu.Unlock()
	m.notify(false)
	pace.Signal(m.changed)
}

func (m *memory) Watch(ctx context.Context, _ string, notify func(bool)) {
	notify(true)
	<-ctx.Done()
}

func (m *memory) Snapshot(context.Context, matchmaking.WaitingRequest) (matchmaking.Snapshot, error) {
	return matchmaking.Snapshot{Now: time.Now()}, nil // all are changes
}

func (m *memory) Waiting(context.Context, matchmaking.WaitingRequest, func([]*matchmaking.Ticket) error) error {
	return nil
}

func (m *memory) Follow(matchmaking.ChangesRequest) matchmaking.Follower { return m }

func (m *memory) Stop() {}

func (m *memory) Next(ctx context.Context, wait time.Duration) (c matchmaking.Changes, err error) {
	pace.SleepUntil(ctx, wait, m.changed)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.order[m.read:] {
		c.Changes = append(c.Changes, matchmaking.Change{Added: t})
	}
	m.read = len(m.order)
	return c, ctx.Err()
}

func (m *memory) Assign(_ context.Context, r matchmaking.AssignRequest) []matchmaking.AssignOutcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	failed := m.fails(m.calls)
	outcomes := make([]matchmaking.AssignOutcome, len(r.Matches))
	for i, match := range r.Matches {
		if outcomes[i] = m.assign(match); failed != nil {
			outcomes[i] = matchmaking.AssignOutcome{Err: failed}
		}
	}
	return outcomes
}

func (m *memory) assign(match matchmaking.AssignMatch) (o matchmaking.AssignOutcome) {
	if m.matches[match.ID] != nil {
		return o
	}
	if m.lost {
		return matchmaking.AssignOutcome{Err: lease.ErrLost}
	}
	for _, t := range match.Assignments {
		if m.waiting[t.ID] == nil {
			o.Conflicts = append(o.Conflicts, matchmaking.Conflict{ID: t.ID, Reason: matchmaking.ConflictNotWaiting})
		} else if until := m.held[t.ID]; time.Now().Before(until) {
			o.Conflicts = append(o.Conflicts, matchmaking.Conflict{ID: t.ID, Reason: matchmaking.ConflictClaim,
				Until: until})
		}
	}
	if len(o.Conflicts) > 0 {
		return o
	}
	for _, t := range match.Assignments {
		o.Entries, o.Waits = append(o.Entries, "entry"), append(o.Waits, time.Since(t.Created))
		m.matches[match.ID] = append(m.matches[match.ID], t.ID)
		delete(m.waiting, t.ID)
		m.ended[t.ID] = true
	}
	return o
}

func (m *memory) Sweep(context.Context, string, []string, int) (matchmaking.Swept, error) {
	return matchmaking.Swept{}, nil
}

func (*memory) ExpireBackfills(context.Context, string, int) (int, error) { return 0, nil }

func (*memory) DropChanges(context.Context, string) error { return nil }

func (m *memory) Describe(context.Context, string, int) (matchmaking.QueueState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return matchmaking.QueueState{Searching: len(m.waiting), Now: time.Now()}, nil
}

func (m *memory) Ticket(_ context.Context, _, id string) (matchmaking.Ticket, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[id] == nil && !m.ended[id] {
		return matchmaking.Ticket{}, matchmaking.ErrNoTicket
	}
	return matchmaking.Ticket{ID: id, Status: matchmaking.Cancelled}, nil
}

func (m *memory) States(_ context.Context, _ string, ids []string) (states []matchmaking.TicketState, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		var state matchmaking.TicketState
		if t := m.waiting[id]; t != nil {
			state.Created = t.CreateTime
		}
		states = append(states, state)
	}
	return states, nil
}

// atOnce is an assigner that doesn't wait, and the other dependencies of a director besides a store.
type atOnce struct{ countedTerms }

func (*atOnce) Immediate() bool                                               { return true }
func (*atOnce) Release(context.Context, string, matchmaking.Allocation) error { return nil }
func (*atOnce) Run(ctx context.Context, _ func() bool)                        { <-ctx.Done() }
func (*atOnce) Offer([]matchmaking.OutboxEntry)                               {}
func (*atOnce) Matched([]time.Duration)                                       {}
func (*atOnce) Conflict(matchmaking.ConflictReason)                           {}
func (*atOnce) RoundFailed()                                                  {}
func (*atOnce) Allocate(context.Context, matchmaking.Proposal) (a matchmaking.Allocation, err error) {
	return a, nil
}

// direct runs a director of a queue with one team size until ctx ends.
func (m *memory) direct(ctx context.Context, tb testing.TB, players *fakePlayers, leases lease.Store) *director {
	tb.Helper()
	manager, err := lease.NewManager(leases, lease.Options{TTL: leaseTTL})
	require.NoError(tb, err)
	def, err := matchmaking.ParseDefinition("duel", []byte(`{}`))
	require.NoError(tb, err)
	all, log := &atOnce{}, slog.New(slog.DiscardHandler)
	d := newDirector(ctx, &Options{
		Definition: def, Store: m, Leases: manager, LeaseTTL: leaseTTL, Subscriptions: players,
		Idle: outage.New(log, "idle"), Logger: log, IdleAfter: 10 * time.Second, Drain: time.Second,
		Build: func(matchmaking.Definition) (matchmaking.Parts, error) {
			return matchmaking.Parts{Matcher: function.FirstCome(2, 1), Evaluator: function.Decollide{}, Assigner: all},
				nil
		},
	}, newEvents())
	d.metrics, d.outbox, m.notify = all, all, d.events.notify
	return d
}

// TestAssigningWithoutClaims tests the outcome of matches that the storage refuses. Three tickets wait at first, and a
// fourth one comes later.
func TestAssigningWithoutClaims(t *testing.T) {
	t.Parallel()
	const later, held = 30 * time.Second, time.Minute
	for name, test := range map[string]struct {
		before   func(m *memory)
		matches  []string
		held     []string // the matches before the end of the claim
		released []string
	}{
		"nothing happens": {func(*memory) {}, []string{"a b", "c d"}, []string{"a b", "c d"}, nil},
		"a ticket is cancelled": {func(m *memory) { delete(m.waiting, "b"); m.ended["b"] = true }, []string{"a c"},
			[]string{"a c"}, nil},
		"a ticket is lost": {func(m *memory) { delete(m.waiting, "b") }, []string{"a c"}, []string{"a c"},
			[]string{"b"}},
		"a ticket is held": {func(m *memory) { m.held["a"] = time.Now().Add(held) }, []string{"a d", "b c"},
			[]string{"b c"}, nil},
		"a reply is lost": {func(m *memory) {
			m.fails = func(call int) error { return map[int]error{1: errDown, 2: errDown}[call] }
		}, []string{"a b", "c d"}, []string{"a b", "c d"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, players, began := newMemory(), &fakePlayers{}, time.Now()
				ticket := func(id string) *matchmaking.Ticket {
					return &matchmaking.Ticket{ID: id, CreateTime: began.Add(time.Duration(id[0]))}
				}
				m.add(ticket("a"), ticket("b"), ticket("c"))
				test.before(m)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				d := m.direct(ctx, t, players, &fakeLeases{outcomes: []error{nil}})
				time.AfterFunc(later, func() { m.add(ticket("d")) })
				time.AfterFunc(held-time.Second, func() { require.Equal(t, test.held, m.made()) })
				time.AfterFunc(held+time.Second, cancel)
				require.NoError(t, d.run(ctx, func() {}))
				require.Equal(t, test.matches, m.made())
				require.Equal(t, test.released, players.released)
				require.Less(t, m.calls, 10, "what can't be assigned isn't tried again at once")
			})
		})
	}
}

// remaining returns the number of waiting tickets.
func (m *memory) remaining() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting)
}

// made returns the tickets of the matches that were assigned.
func (m *memory) made() (matches []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, tickets := range m.matches {
		matches = append(matches, strings.Join(tickets, " "))
	}
	slices.Sort(matches)
	return matches
}

// A director that has lost its lease without a notification detects that when it assigns a match.
func TestAssigningAfterTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, players := newMemory(), &fakePlayers{}
		m.lost = true
		m.add(&matchmaking.Ticket{ID: "a"}, &matchmaking.Ticket{ID: "b"})
		d := m.direct(t.Context(), t, players, &fakeLeases{outcomes: []error{nil}})
		began := time.Now()
		require.NoError(t, d.run(t.Context(), func() {}))
		require.Less(t, time.Since(began), leaseTTL, "the term ends")
		require.Empty(t, m.matches)
		require.Equal(t, 1, m.calls)
		require.Empty(t, players.released, "the tickets still wait")
	})
}
