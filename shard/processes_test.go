package shard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
	"github.com/tidemark-dev/tidemark/test/process"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// workerEnv makes a process of this test binary a node: its value is a worker in JSON.
const workerEnv = "TIDEMARK_TEST_SHARD_WORKER"

const (
	workerPing = 200 * time.Millisecond // also the margin
	patience   = time.Minute            // ends a test that would hang
)

// worker is a node, which is a process of its own.
type worker struct {
	URL, Master, Prefix, DC, Host string
	TTL                           time.Duration

	process *process.Process
	read    int // bytes of its log
	events  []event
}

// runWorker is the process of a worker.
func runWorker(description string) {
	var w worker
	if err := json.Unmarshal([]byte(description), &w); err != nil {
		panic(err)
	}
	w.work()
}

// connect connects to Redis as soon as it is reachable.
func (w *worker) connect(ctx context.Context) *redis.Conn {
	for {
		conn, err := redis.Connect(ctx, redis.Options{
			URL: w.URL, Sentinel: redis.Sentinel{Master: w.Master}, KeyPrefix: w.Prefix, Timeout: w.TTL / 2,
			Logger: slog.New(slog.DiscardHandler),
		})
		if err == nil {
			return conn
		}
		fmt.Println("connect:", err)
	}
}

// work is the program of a worker: it prints its records. When its node has lost the shard, it starts another node.
func (w *worker) work() {
	ctx := context.Background()
	store := shards.New(w.connect(ctx))
	for {
		r := &recorder{
			DC: w.DC, At: onMachine,
			Write: func(e event) {
				line, err := json.Marshal(e)
				if err != nil {
					panic(err)
				}
				_, _ = os.Stdout.Write(append(line, '\n'))
			},
			Pause: func(context.Context) { <-time.After(rand.N(10 * time.Millisecond)) },
		}
		n, err := shard.NewNode(times, r, shard.NodeOptions{
			Member: shard.Member{DC: w.DC, Host: w.Host, Address: w.Host + ":1"}, Claims: store, Observer: r,
			PingPeriod: workerPing, TTL: w.TTL, Margin: workerPing,
			Logger: slog.New(slog.NewTextHandler(os.Stdout, nil)),
		})
		if err != nil {
			panic(err)
		}
		ctx, cancel := context.WithCancel(ctx)
		var asking sync.WaitGroup
		for range 2 {
			asking.Go(func() { ask(ctx, r, n) })
		}
		fmt.Println("the node has ended:", n.Run(ctx))
		cancel()
		asking.Wait()
	}
}

// ask queries a node until ctx ends.
func ask(ctx context.Context, r *recorder, n *timesNode) {
	for ctx.Err() == nil {
		if _, err := r.Ask(ctx, n); err != nil {
			panic(err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// onMachine converts to the monotonic clock that the processes of a machine share.
func onMachine(at time.Time) time.Duration {
	for {
		before := monotonic()
		until := time.Until(at)
		if after := monotonic(); after-before < 100*time.Microsecond {
			return before + until
		}
	}
}

func monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}

// fleet is the nodes of a cache.
type fleet struct {
	conn   redis.Options
	ttl    time.Duration
	starts []uint64
	alive  []*worker
	former []*worker // that were killed
}

// newFleet returns data centres of n shards each, without nodes.
func newFleet(t *testing.T, f fleet, dcs []string, n int) *fleet {
	t.Helper()
	f.starts = shard.Even(n)
	f.conn.KeyPrefix, f.conn.Logger = redistest.Prefix(t), slog.New(slog.DiscardHandler)
	c, err := redis.Connect(t.Context(), f.conn)
	require.NoError(t, err)
	defer c.Close()
	for _, dc := range dcs {
		_, err := shards.New(c).SetLayout(t.Context(), times.Cache, dc, 0, f.starts)
		require.NoError(t, err)
	}
	return &f
}

// add starts a node.
func (f *fleet) add(t *testing.T, dc, host string) *worker {
	t.Helper()
	w := &worker{URL: f.conn.URL, Master: f.conn.Sentinel.Master, Prefix: f.conn.KeyPrefix, DC: dc, Host: host,
		TTL: f.ttl}
	w.start(t)
	f.alive = append(f.alive, w)
	return w
}

func (w *worker) start(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(w)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	w.process = &process.Process{
		Program: self, Env: append(os.Environ(), workerEnv+"="+string(text)), Dir: t.TempDir(), LogName: "worker.log",
	}
	require.NoError(t, w.process.Start(t.Context()))
	t.Cleanup(func() {
		if err := w.process.End(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
}

// follow reads the records that a worker prints.
func (w *worker) follow(t *testing.T) {
	t.Helper()
	printed, err := os.ReadFile(filepath.Join(w.process.Dir, w.process.LogName))
	require.NoError(t, err)
	for {
		line, _, whole := bytes.Cut(printed[w.read:], []byte("\n"))
		if !whole {
			return
		}
		w.read += len(line) + 1
		require.NotContains(t, string(line), "DATA RACE")
		if e := (event{}); bytes.HasPrefix(line, []byte("{")) {
			require.NoError(t, json.Unmarshal(line, &e))
			w.events = append(w.events, e)
		}
	}
}

// reads returns how often a worker has read the values of a shard since a time.
func (w *worker) reads(c recordedClaim, since time.Duration) (n int) {
	for _, e := range w.events {
		if e.Kind == eventReads && e.Claim.DC == c.DC && e.Claim.Shard == c.Shard && e.At > since {
			n++
		}
	}
	return n
}

// await waits until workers other than one have read the values of a shard n times. It returns one that has.
func (f *fleet) await(t *testing.T, c recordedClaim, not *worker, n int) (found *worker) {
	t.Helper()
	since := monotonic()
	require.Eventually(t, func() bool {
		for _, w := range f.alive {
			w.follow(t)
			if w != not && w.reads(c, since) >= n {
				found = w
				return true
			}
		}
		return false
	}, patience, 10*time.Millisecond, "no node answers for %v", c)
	return found
}

// awaitWhole waits until all shards are answered for.
func (f *fleet) awaitWhole(t *testing.T, dcs []string) {
	t.Helper()
	for _, dc := range dcs {
		for i := range f.starts {
			f.await(t, f.shard(dc, i), nil, 1)
		}
	}
}

func (f *fleet) shard(dc string, i int) recordedClaim {
	return recordedClaim{DC: dc, Shard: shard.Layout{Starts: f.starts}.Interval(i)}
}

// restart kills a worker and starts it again.
func (f *fleet) restart(t *testing.T, w *worker) {
	t.Helper()
	require.NoError(t, w.process.End(syscall.SIGKILL))
	f.former = append(f.former, w)
	f.alive = slices.DeleteFunc(f.alive, func(of *worker) bool { return of == w })
	f.add(t, w.DC, w.Host)
}

// records stops all workers and returns what they have recorded.
func (f *fleet) records(t *testing.T) map[string][]event {
	t.Helper()
	records := map[string][]event{}
	for i, w := range append(f.former, f.alive...) {
		require.NoError(t, w.process.End(syscall.SIGKILL))
		w.follow(t)
		records[fmt.Sprintf("%s of %s (%d)", w.Host, w.DC, i)] = w.events
	}
	return records
}

// TestNodesAsProcesses stops and kills nodes at any time, and their Redis in between.
func TestNodesAsProcesses(t *testing.T) {
	t.Parallel()
	const rounds, size = 12, 3
	dcs := []string{"a", "b"}
	sentinels := redistest.StartSentinel(t, redistest.Options{})
	f := newFleet(t, fleet{ttl: time.Second, conn: redis.Options{
		URL: strings.Join(sentinels.Addrs(), ","), Sentinel: redis.Sentinel{Master: redistest.MasterName},
	}}, dcs, size)
	for _, dc := range dcs {
		for host := range size + 1 {
			f.add(t, dc, fmt.Sprint("h", host))
		}
	}
	f.awaitWhole(t, dcs)
	random := rand.New(rand.NewPCG(1, 2))
	for round := range rounds {
		c := f.shard(dcs[random.IntN(len(dcs))], random.IntN(size))
		other := f.shard(dcs[random.IntN(len(dcs))], random.IntN(size))
		w := f.await(t, c, nil, 1)
		switch {
		case round == rounds/2:
			require.NoError(t, w.process.Signal(syscall.SIGSTOP))
			sentinels.Failover(t)
			require.NoError(t, w.process.Signal(syscall.SIGCONT))
		case random.IntN(3) == 0:
			f.restart(t, w)
		default:
			require.NoError(t, w.process.Signal(syscall.SIGSTOP))
			if round%2 == 0 {
				f.await(t, c, w, 1) // longer than the claim lasts
			} else {
				f.await(t, other, w, random.IntN(20)) // a moment
			}
			require.NoError(t, w.process.Signal(syscall.SIGCONT))
		}
	}
	f.awaitWhole(t, dcs)
	require.Empty(t, strings.Join(checkRecords(f.records(t)), "\n"))
}

// TestAFailoverThatLosesAClaim: the new primary doesn't know the claim of the first node, but gives its shard to
// another node only when the claim has ended.
func TestAFailoverThatLosesAClaim(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Options{})
	conn := redis.Options{URL: strings.Join(cluster.Addrs(), ",")}
	f := newFleet(t, fleet{ttl: 10 * time.Second, conn: conn}, []string{"a"}, 1)
	c := f.shard("a", 0)
	var first *worker
	cluster.FailoverThatLoses(t, cluster.Slot("{"+times.Cache+"}"), func() {
		first = f.add(t, "a", "h1")
		f.await(t, c, nil, 1)
		// so that another is the first to reach the new primary
		require.NoError(t, first.process.Signal(syscall.SIGSTOP))
		f.add(t, "a", "h2")
	})
	f.await(t, c, first, 1)
	require.NoError(t, first.process.Signal(syscall.SIGCONT))
	f.await(t, c, first, 10)
	require.Empty(t, strings.Join(checkRecords(f.records(t)), "\n"))
}
