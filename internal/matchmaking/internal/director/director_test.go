package director

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/lease"
)

// fakeLeases returns the given outcomes of requests for a lease one after the other, and then always that of an idle
// queue.
type fakeLeases struct {
	outcomes []error // of Acquire; nil: the lease is granted
	lost     bool    // at the next renewal
	asked    int
	released int
}

func (l *fakeLeases) Acquire(context.Context, lease.Request) (uint64, error) {
	l.asked++
	if len(l.outcomes) == 0 {
		return 0, matchmaking.ErrQueueIdle
	}
	err := l.outcomes[0]
	l.outcomes = l.outcomes[1:]
	return uint64(l.asked), err
}

func (l *fakeLeases) Renew(_ context.Context, rs []lease.Request) []error {
	if l.lost {
		return []error{lease.ErrLost}
	}
	return make([]error, len(rs))
}

func (l *fakeLeases) Release(context.Context, string, string) error {
	l.released++
	return nil
}

func (l *fakeLeases) Watch(_ string, freed func()) (stop func()) {
	freed()
	return func() {}
}

const leaseTTL = 3 * time.Second

// quiet is a store, a matcher, an outbox and metrics that do nothing.
type quiet struct {
	matchmaking.Claims
	*fakeStore
}

func (quiet) ExpireBackfills(context.Context, string, int) (int, error) { return 0, nil }

func (q quiet) TakeOver(ctx context.Context, queue string, fence uint64, ids []string) ([]string, error) {
	return q.fakeStore.TakeOver(ctx, queue, fence, ids)
}

func (q quiet) Sweep(ctx context.Context, queue string, notified []string, limit int) (matchmaking.Swept, error) {
	return q.fakeStore.Sweep(ctx, queue, notified, limit)
}

type noMatches struct{}

func (noMatches) Add(*matchmaking.Ticket) {}
func (noMatches) Remove(string)           {}
func (noMatches) Next() time.Time         { return time.Time{} }
func (noMatches) Match(context.Context, time.Time) ([]matchmaking.Proposal, error) {
	return nil, nil
}

type countedTerms struct {
	Metrics
	directing atomic.Int32 // how often it began
}

func (m *countedTerms) Directing(yes bool) {
	if yes {
		m.directing.Add(1)
	}
}
func (*countedTerms) Tickets(int, int) {}
func (*countedTerms) Expired(int)      {}

// trial is a director with fakes.
type trial struct {
	*director
	leases  *fakeLeases
	store   *fakeStore
	players *fakePlayers
	counts  *countedTerms
	started int
	builds  []error // outcomes of Build
}

func newTrial(t *testing.T, leases *fakeLeases) *trial {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	manager, err := lease.NewManager(leases, lease.Options{TTL: leaseTTL})
	require.NoError(t, err)
	r := &trial{leases: leases, store: &fakeStore{}, players: &fakePlayers{}, counts: &countedTerms{}}
	def, err := matchmaking.ParseDefinition("duel", []byte(`{}`))
	require.NoError(t, err)
	r.director = newDirector(t.Context(), &Options{
		Definition: def, Store: quiet{fakeStore: r.store}, Leases: manager, LeaseTTL: leaseTTL,
		Subscriptions: r.players,
		Idle:          outage.New(log, "idle"), Logger: log, IdleAfter: 10 * time.Second, Drain: time.Second,
		Build: func(matchmaking.Definition) (parts matchmaking.Parts, err error) {
			if len(r.builds) > 0 {
				err, r.builds = r.builds[0], r.builds[1:]
			}
			return matchmaking.Parts{Matcher: noMatches{}}, err
		},
	}, newEvents())
	return r
}

// run runs the director until it returns.
func (r *trial) run(ctx context.Context) error {
	r.metrics = r.counts
	return r.director.run(ctx, func() { r.started++ })
}

func TestDirectorOfAnIdleQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t, &fakeLeases{})
		require.NoError(t, r.run(t.Context()))
		require.Equal(t, 1, r.leases.asked)
		require.Zero(t, r.leases.released)
		require.Zero(t, r.started, "nothing is prepared for an idle queue")
	})
}

func TestDirectorWaitsForTheLease(t *testing.T) {
	t.Parallel()
	held := &lease.HeldError{For: leaseTTL}
	for name, test := range map[string]struct {
		outcomes []error
		started  bool
		terms    int32
		err      error
	}{
		"the store fails at first":          {[]error{errDown}, false, 0, errDown},
		"another directs, then it is idle":  {[]error{held, held, matchmaking.ErrQueueIdle}, true, 0, nil},
		"another directs, then it is free":  {[]error{held, held, held, nil}, true, 1, nil},
		"the store fails while it waits":    {[]error{held, held, errDown, errDown, nil}, true, 1, nil},
		"it is free, and there is a ticket": {[]error{nil, nil}, true, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newTrial(t, &fakeLeases{outcomes: test.outcomes})
				require.ErrorIs(t, r.run(t.Context()), test.err)
				require.Equal(t, test.started, r.started > 0)
				require.Equal(t, test.terms, r.counts.directing.Load())
				require.Empty(t, r.leases.outcomes)
			})
		})
	}
}

func TestDirectorOfAQueueThatCannotBeBuilt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t, &fakeLeases{outcomes: []error{nil, nil}})
		r.builds = []error{errors.New("no such assigner")}
		began := time.Now()
		require.NoError(t, r.run(t.Context()))
		require.EqualValues(t, 1, r.counts.directing.Load(), "the second time")
		require.Equal(t, 2, r.leases.released, "others may try meanwhile")
		require.Greater(t, time.Since(began), 10*time.Second+leaseTTL/2, "after a while")
	})
}

// A director that has lost its lease ends its term, and looks for tickets that the storage has lost with it.
func TestDirectorLosesItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t, &fakeLeases{outcomes: []error{nil}, lost: true})
		r.store.waiting, r.store.states = []string{"kept", "lost"}, map[string]time.Time{"kept": made}
		began := time.Now()
		require.NoError(t, r.run(t.Context()))
		require.Less(t, time.Since(began), leaseTTL, "the next renewal is refused")
		require.Equal(t, []string{"lost"}, r.players.released)
	})
}

// A director whose context ends keeps its lease until its tasks have ended.
func TestDirectorStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t, &fakeLeases{outcomes: []error{nil}})
		r.store.waiting = []string{"a"}
		ctx, cancel := context.WithCancel(t.Context())
		task := make(chan struct{})
		time.AfterFunc(20*time.Second, func() {
			r.tasks.Start(func(context.Context) {
				<-time.After(r.Drain / 2)
				require.Zero(t, r.leases.released)
				close(task)
			})
			cancel()
		})
		require.NoError(t, r.run(ctx))
		<-task
		require.Equal(t, 1, r.leases.released)
	})
}

var _ Metrics = (*countedTerms)(nil)
