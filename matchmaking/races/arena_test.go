package races_test

import (
	"context"
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

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// hang is how long tests wait for what must happen, before they fail rather than hang.
const hang = time.Minute

// arena is a Redis with servers and players on it, under a key prefix of its own.
type arena struct {
	url         string
	prefix      string
	definitions []matchmaking.Definition
	log         *slog.Logger
	ledger      *ledger
	umpire      *server // directs and relays nothing, and is never killed
	seed        uint64
	leaseTTL    time.Duration

	// allocate is what the servers' assigners do before they give a place. Nil: nothing.
	allocate func(ctx context.Context, s *server, p matchmaking.Proposal) error

	mu      sync.Mutex
	servers []*server // that are alive
	players []*player
	killed  map[*server]bool
	playing sync.WaitGroup
	reading sync.WaitGroup
	over    context.CancelFunc // ends the reading
	until   context.Context    //nolint:containedctx // of the reading, which all players share
	failed  chan error         // has one place: the first thing that a player can't go on after
}

// definition is a queue of the arena.
func definition(t *testing.T, name, text string) matchmaking.Definition {
	t.Helper()
	d, err := matchmaking.ParseDefinition(name, []byte(text))
	require.NoError(t, err)
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
	t.Logf("the seed is %d", a.seed)
	a.until, a.over = context.WithCancel(context.Background())
	t.Cleanup(func() {
		a.over()
		a.playing.Wait()
		a.reading.Wait()
	})
	a.umpire = a.open(t, "umpire")
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

// random gives a source of choices of its own for whoever has a number.
func (a *arena) random(number int) *rand.Rand { return rand.New(rand.NewPCG(a.seed, uint64(number))) }

// start starts a server.
func (a *arena) start(t *testing.T, name string, hooks ...hook) *server {
	t.Helper()
	s := a.open(t, name, hooks...)
	s.run()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.servers = append(a.servers, s)
	return s
}

// kill ends a server as a crash does: from one moment on nothing of it reaches Redis.
func (a *arena) kill(s *server) {
	a.mu.Lock()
	a.killed[s] = true
	a.servers = slices.DeleteFunc(slices.Clone(a.servers), func(other *server) bool { return other == s })
	a.mu.Unlock()
	s.die()
}

// anyServer gives one that is alive.
func (a *arena) anyServer(r *rand.Rand) *server {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.servers) == 0 {
		return a.umpire
	}
	return a.servers[r.IntN(len(a.servers))]
}

// directing waits for a server that directs a queue.
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

// eventually polls until something is so, or a player can't go on.
func (a *arena) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(hang)
	for !is() {
		select {
		case <-tick.C:
		case err := <-a.failed:
			require.NoError(t, err, "while waiting for "+what)
		case <-limit:
			require.FailNow(t, "waited in vain for "+what, a.standing(t))
		}
	}
}

// standing tells how the queues stand.
func (a *arena) standing(t *testing.T) map[string]matchmaking.QueueState {
	t.Helper()
	all := map[string]matchmaking.QueueState{}
	for _, d := range a.definitions {
		if state, err := a.umpire.queues.Describe(context.Background(), d.Name, 0); err == nil {
			state.Recent = nil
			all[d.Name] = state
		}
	}
	return all
}

// settle waits until all players have played, and nothing more can happen: too few tickets for a match wait in each
// queue, none is held, and no assignment is on its way.
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
			state, err := a.umpire.queues.Describe(t.Context(), d.Name, 0)
			return err == nil && state.Pending == 0 && state.Outgoing == 0 && state.Searching < d.Match.Teams*d.Match.TeamSize
		})
	}
}

// finish lets everything come to its end, and stops the servers in good order.
func (a *arena) finish(t *testing.T) {
	t.Helper()
	a.settle(t)
	a.mu.Lock()
	servers := slices.AppendSeq(a.servers, maps.Keys(a.killed)) // these may still be coming to their end
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

// during runs something beside the test until the function that it gives is called.
func during(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
}

// wait waits, and gives whether ctx is alive still.
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

// between gives a random duration.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}
