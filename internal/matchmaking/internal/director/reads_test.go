package director

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

var errDown = errors.New("down")

// made is when the tickets of a fakeStore were created.
var made = time.Unix(1, 0)

// fakeStore is a queue in memory, with the methods that read it.
type fakeStore struct {
	matchmaking.Feed // of which Waiting and Watch are not used

	mu        sync.Mutex
	waiting   []string             // tickets
	held      map[string]time.Time // those that another claim holds
	changes   []matchmaking.Changes
	fails     int           // calls that fail from now on
	ahead     time.Duration // the storage's clock
	slow      time.Duration // how long a snapshot takes
	early     int           // tickets that are counted as assigned before the term hears of it, once
	snapshots int
	fields    matchmaking.Fields            // that were asked for last
	states    map[string]time.Time          // when tickets that wait or are assigned were created
	tickets   map[string]matchmaking.Ticket // that can be read, from a replica perhaps
	expired   []string
	swept     []string
}

func (s *fakeStore) failing() error {
	if s.fails > 0 {
		s.fails--
		return errDown
	}
	return nil
}

func (s *fakeStore) Snapshot(_ context.Context, r matchmaking.WaitingRequest) (matchmaking.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failing(); err != nil {
		return matchmaking.Snapshot{}, err
	}
	s.snapshots, s.fields = s.snapshots+1, r.Fields
	time.Sleep(s.slow) //nolint:forbidigo // in a bubble it takes no time
	snapshot := matchmaking.Snapshot{Now: time.Now(), Held: map[string]time.Time{}}
	for _, id := range s.waiting {
		ticket := &matchmaking.Ticket{ID: id, CreateTime: made, Status: matchmaking.Searching}
		if until, ok := s.held[id]; ok {
			ticket.Status, snapshot.Held[id] = matchmaking.Pending, until
		}
		snapshot.Tickets = append(snapshot.Tickets, ticket)
	}
	return snapshot, nil
}

func (s *fakeStore) Follow(r matchmaking.ChangesRequest) matchmaking.Follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fields = r.Fields
	return s
}

func (s *fakeStore) Stop() {}

func (s *fakeStore) Next(ctx context.Context, wait time.Duration) (matchmaking.Changes, error) {
	pace.Sleep(ctx, wait)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failing(); err != nil {
		return matchmaking.Changes{}, err
	}
	if len(s.changes) == 0 {
		return matchmaking.Changes{}, nil
	}
	next := s.changes[0]
	s.changes = s.changes[1:]
	return next, nil
}

func (s *fakeStore) TakeOver(_ context.Context, _ string, _ uint64, ids []string) ([]string, error) {
	return ids[:1], nil
}

func (s *fakeStore) Describe(context.Context, string, int) (matchmaking.QueueState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failing(); err != nil {
		return matchmaking.QueueState{}, err
	}
	early := s.early
	s.early = 0
	return matchmaking.QueueState{Searching: len(s.waiting) - early, Now: time.Now().Add(s.ahead)}, nil
}

func (s *fakeStore) Ticket(_ context.Context, _, id string) (matchmaking.Ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failing(); err != nil {
		return matchmaking.Ticket{}, err
	}
	if t, ok := s.tickets[id]; ok {
		return t, nil
	}
	return matchmaking.Ticket{}, matchmaking.ErrNoTicket
}

func (s *fakeStore) States(_ context.Context, _ string, ids []string) (states []matchmaking.TicketState, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		states = append(states, matchmaking.TicketState{Created: s.states[id]})
	}
	return states, s.failing()
}

func (s *fakeStore) Sweep(_ context.Context, _ string, released []string, _ int) (matchmaking.Swept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept = append(s.swept, released...)
	result := matchmaking.Swept{Removed: len(released), Expired: s.expired}
	s.expired = nil
	return result, nil
}

// runFeed runs a feed in a synctest bubble until the test ends.
func runFeed(t *testing.T, s *fakeStore, takesOver bool) *feed {
	t.Helper()
	f := &feed{
		store: s, queue: "q", fields: matchmaking.FieldsMatching, takesOver: takesOver, auditEvery: time.Minute,
		clock: &clock{},
		log:   slog.New(slog.DiscardHandler), out: make(chan feedUpdate),
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return f
}

func TestFeed(t *testing.T) {
	t.Parallel()
	t.Run("all tickets, then changes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := &fakeStore{waiting: []string{"a"}}
			f := runFeed(t, s, true)
			f.pooled.Store(2)
			synctest.Wait()
			s.mu.Lock()
			require.Equal(t, matchmaking.FieldsMatching, s.fields)
			s.fields = matchmaking.FieldsNone
			s.mu.Unlock()
			require.Len(t, (<-f.out).snapshot.Tickets, 1)
			synctest.Wait()
			s.mu.Lock()
			require.Equal(t, matchmaking.FieldsMatching, s.fields)
			s.changes = []matchmaking.Changes{{Changes: []matchmaking.Change{{Cancelled: "a"}}}}
			s.mu.Unlock()
			require.Equal(t, []matchmaking.Change{{Cancelled: "a"}}, (<-f.out).changes)
		})
	})
	t.Run("all tickets again after a failure", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := &fakeStore{waiting: []string{"a"}, fails: 3}
			f := runFeed(t, s, true)
			require.NotNil(t, (<-f.out).snapshot)
			s.mu.Lock()
			s.fails = 1
			s.mu.Unlock()
			require.NotNil(t, (<-f.out).snapshot)
		})
	})
	t.Run("all tickets again if the pool has another number", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := &fakeStore{waiting: []string{"a", "b"}}
			f := runFeed(t, s, true)
			<-f.out
			f.pooled.Store(2)
			time.Sleep(10 * time.Minute) //nolint:forbidigo // in a bubble it takes no time
			require.Equal(t, 1, s.snapshots, "the pool is right")
			s.mu.Lock()
			s.early = 1
			s.mu.Unlock()
			time.Sleep(10 * time.Minute) //nolint:forbidigo // in a bubble it takes no time
			require.Equal(t, 1, s.snapshots, "the pool was late")
			f.pooled.Store(1)
			require.NotNil(t, (<-f.out).snapshot)
		})
	})
}

// A long read of many tickets doesn't distort the storage's time.
func TestFeedComparesTheClocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{waiting: []string{"a"}, ahead: time.Hour, slow: time.Minute}
		f := runFeed(t, s, true)
		f.pooled.Store(1)
		<-f.out
		require.WithinDuration(t, time.Now().Add(time.Hour), f.clock.Now(), 0)
		s.mu.Lock()
		s.ahead = 2 * time.Hour
		s.mu.Unlock()
		time.Sleep(10 * time.Minute) //nolint:forbidigo // in a bubble it takes no time
		require.WithinDuration(t, time.Now().Add(2*time.Hour), f.clock.Now(), 0)
		require.Equal(t, 1, s.snapshots)
	})
}

func TestFeedTakesClaimsOver(t *testing.T) {
	t.Parallel()
	for name, takesOver := range map[string]bool{"immediate assigner": true, "allocations may be in progress": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := runFeed(t,
					&fakeStore{waiting: []string{"a"}, held: map[string]time.Time{"a": time.Now().Add(time.Hour)}},
					takesOver)
				got := (<-f.out).snapshot
				require.Equal(t, takesOver, len(got.Held) == 0)
				require.Equal(t, takesOver, got.Tickets[0].Status == matchmaking.Searching)
			})
		})
	}
}

// fakePlayers records the players whose waits were ended.
type fakePlayers struct {
	mu       sync.Mutex
	fails    map[string]int // calls that fail
	released []string
	epochs   map[string]ulid.ULID
}

func (p *fakePlayers) Unsubscribe(_ context.Context, ticketID string, epoch ulid.ULID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epochs != nil {
		p.epochs[ticketID] = epoch
	}
	if p.fails[ticketID] > 0 {
		p.fails[ticketID]--
		return errDown
	}
	p.released = append(p.released, ticketID)
	return nil
}

// TestLosses tests that only players of tickets that are certainly lost are released, also if a replica still has a
// ticket.
func TestLosses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		leaseEnded time.Duration // before the check
		fails      int
		released   []string
	}{
		"while the lease is valid":                    {-time.Second, 0, []string{"lost", "lagging"}},
		"while ends of tickets can still be read":     {59 * time.Second, 0, []string{"lost", "lagging"}},
		"when an assignment may have expired":         {time.Minute, 0, nil},
		"while the storage fails":                     {0, 5, []string{"lost", "lagging"}},
		"when the storage has failed for as long too": {0, 1000, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, epoch := &fakePlayers{epochs: map[string]ulid.ULID{}}, ulid.Make()
				log := slog.New(slog.DiscardHandler)
				tasks := newTasks(t.Context())
				end := time.Now().Add(-test.leaseEnded)
				store := &fakeStore{fails: test.fails, states: map[string]time.Time{"there": end},
					tickets: map[string]matchmaking.Ticket{
						"lagging":   {CreateTime: end, Status: matchmaking.Searching},
						"cancelled": {CreateTime: end, Status: matchmaking.Cancelled},
						"expired":   {CreateTime: end, Status: matchmaking.Expired},
						"later":     {CreateTime: end.Add(1), Status: matchmaking.Searching},
					}}
				l := &losses{
					store: store, players: &players{subscriptions: p, log: log},
					queue: "q", keep: time.Minute, leaseEnd: func() time.Time { return end }, tasks: tasks, log: log,
				}
				var all []*matchmaking.Ticket
				for _, id := range []string{"there", "lost", "cancelled", "expired", "later", "lagging"} {
					all = append(all, &matchmaking.Ticket{ID: id, Epoch: epoch, CreateTime: end})
				}
				l.check(all)
				tasks.Finish(time.Hour)
				require.Equal(t, test.released, p.released)
				if len(test.released) > 0 {
					require.Equal(t, epoch, p.epochs["lost"], "a later ticket's player isn't released")
				}
			})
		})
	}
}

func TestSweeper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &fakePlayers{fails: map[string]int{"twice": 2, "never": 100}}
		s := &fakeStore{expired: []string{"once", "twice", "never"}}
		log := slog.New(slog.DiscardHandler)
		w := &sweeper{
			store: s, players: &players{subscriptions: p, log: log}, queue: "q", every: time.Second,
			metrics: noMetrics{}, log: log, out: make(chan []string),
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.run(ctx) })
		require.Equal(t, []string{"once", "twice", "never"}, <-w.out, "the pool drops them first")
		time.Sleep(time.Minute) //nolint:forbidigo // in a bubble it takes no time
		cancel()
		running.Wait()
		require.ElementsMatch(t, []string{"once", "twice"}, p.released)
		require.Equal(t, []string{"once", "twice"}, s.swept, "a ticket stays in the queue until its player is released")
	})
}

type noMetrics struct{ Metrics }

func (noMetrics) Expired(int) {}
