package races_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// hang limits waits, so that a test fails instead of hanging.
const hang = time.Minute

// arena is a Redis with servers and players, under a key prefix of its own.
type arena struct {
	url         string
	prefix      string
	definitions []matchmaking.Definition
	log         *slog.Logger
	ledger      *ledger
	observer    *server // a server that neither directs nor relays, and is never killed
	seed        uint64
	leaseTTL    time.Duration

	// allocate is called by the servers' assigners before they return. It may be nil.
	allocate func(ctx context.Context, s *server, p matchmaking.Proposal) error

	mu      sync.Mutex
	servers []*server // running
	players []*player
	killed  map[*server]bool
	playing sync.WaitGroup
	reading sync.WaitGroup
	over    context.CancelFunc // ends until
	until   context.Context    //nolint:containedctx // of all players' reading
	failed  chan error         // buffered (capacity 1): the first error of a player or server
}

// definition parses a queue's definition. Its assigned tickets can be read at the end of the longest test.
func definition(t *testing.T, name, text string) matchmaking.Definition {
	t.Helper()
	d, err := matchmaking.ParseDefinition(name, []byte(text))
	require.NoError(t, err)
	d.AssignmentTTL = matchmaking.Duration(15 * time.Minute)
	return d
}

// everywhere runs a test on a standalone Redis and on a Cluster.
func everywhere(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Standalone(t).URL())
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		test(t, urlOf(redistest.Cluster(t)))
	})
}

func urlOf(c *redistest.ClusterNodes) string { return strings.Join(c.Addrs(), ",") }

func newArena(t *testing.T, url string, definitions ...matchmaking.Definition) *arena {
	t.Helper()
	a := &arena{
		url: url, prefix: redistest.Prefix(t), definitions: definitions, log: testLog(t), ledger: newLedger(),
		seed: rand.Uint64(), failed: make(chan error, 1), killed: map[*server]bool{}, leaseTTL: leaseTTL,
	}
	t.Logf("seed: %d", a.seed)
	a.until, a.over = context.WithCancel(context.Background())
	t.Cleanup(func() {
		a.over()
		a.playing.Wait()
		a.reading.Wait()
	})
	a.observer = a.open(t, "observer")
	return a
}

func testLog(t *testing.T) *slog.Logger {
	t.Helper()
	out := io.Discard
	if testing.Verbose() {
		out = t.Output()
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// random returns a random source that depends on the seed and a number.
func (a *arena) random(number int) *rand.Rand { return rand.New(rand.NewPCG(a.seed, uint64(number))) }

// start runs a server.
func (a *arena) start(t *testing.T, name string, hooks ...hook) *server {
	t.Helper()
	s := a.open(t, name, hooks...)
	s.run()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.servers = append(a.servers, s)
	return s
}

// kill stops a server as a crash does: from then on, none of its calls reach Redis.
func (a *arena) kill(s *server) {
	a.mu.Lock()
	a.killed[s] = true
	a.servers = slices.DeleteFunc(slices.Clone(a.servers), func(other *server) bool { return other == s })
	a.mu.Unlock()
	s.die()
}

// anyServer returns a running server.
func (a *arena) anyServer(r *rand.Rand) *server {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.servers) == 0 {
		return a.observer
	}
	return a.servers[r.IntN(len(a.servers))]
}

// directing waits until a server directs a queue, and returns it.
func (a *arena) directing(t *testing.T, queue string) *server {
	t.Helper()
	var found *server
	a.eventually(t, "a director", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, s := range a.servers {
			if a.ledger.leads(s, queue) {
				found = s
			}
		}
		return found != nil
	})
	return found
}

// eventually polls until is returns true. It fails the test if a player or server fails first, or nothing changes for
// long: on a busy machine there can be much to do.
func (a *arena) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit, last := time.After(hang), a.states(t)
	for began := time.Now(); !is(); {
		select {
		case <-time.After(pace.Look(began)):
		case err := <-a.failed:
			require.NoError(t, err, "while waiting for "+what)
		case <-limit:
			states := a.states(t)
			require.NotEqual(t, last, states, "no "+what)
			limit, last = time.After(hang), states
		}
	}
}

// states returns the states of all queues.
func (a *arena) states(t *testing.T) map[string]matchmaking.QueueState {
	t.Helper()
	all := map[string]matchmaking.QueueState{}
	for _, d := range a.definitions {
		if state, err := a.observer.queues.Describe(context.Background(), d.Name, 0); err == nil {
			state.Recent, state.Now, state.OldestWait = nil, time.Time{}, 0
			all[d.Name] = state
		}
	}
	return all
}

// settle waits until all players have finished, and nothing more can happen: each queue has too few waiting tickets for
// a match, no claimed ones, and no assignment in the outbox.
func (a *arena) settle(t *testing.T) {
	t.Helper()
	played := make(chan struct{})
	go func() {
		a.playing.Wait()
		close(played)
	}()
	a.eventually(t, "the players", func() bool {
		select {
		case <-played:
			return true
		default:
			return false
		}
	})
	for _, d := range a.definitions {
		a.eventually(t, "the queue "+d.Name+" to settle", func() bool {
			state, err := a.observer.queues.Describe(t.Context(), d.Name, 0)
			return err == nil && state.Pending == 0 && state.Outgoing == 0 &&
				state.Searching < d.Match.Teams*d.Match.TeamSize
		})
	}
}

// finish waits until nothing more can happen, and stops the servers cleanly.
func (a *arena) finish(t *testing.T) {
	t.Helper()
	a.settle(t)
	a.awaitWatches(t)
	a.mu.Lock()
	servers := slices.AppendSeq(a.servers, maps.Keys(a.killed)) // these may not have ended yet
	a.servers = nil
	a.mu.Unlock()
	for _, s := range servers {
		s.stop()
	}
	a.over()
	a.reading.Wait()
	select {
	case err := <-a.failed:
		require.NoError(t, err)
	default:
	}
}

// awaitWatches waits until the watches of all tickets that don't wait have ended.
func (a *arena) awaitWatches(t *testing.T) {
	t.Helper()
	for _, p := range a.players {
		a.eventually(t, "end of the watch of "+p.id, func() bool {
			select {
			case <-p.watched:
				return true
			default:
			}
			ticket, err := a.observer.tickets.Ticket(t.Context(), p.id)
			return err == nil && ticket.Status == matchmaking.Searching || errors.Is(err, matchmaking.ErrNoTicket) &&
				p.unsure
		})
	}
}

// during runs a function in the background until stop is called.
func during(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
}

// wait waits for d, and reports whether ctx is still alive.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// between returns a random duration.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}
