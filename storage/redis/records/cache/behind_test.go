package cache_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/process"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/leases"
	rediscache "github.com/tidemark-dev/tidemark/storage/redis/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

// writerEnv makes a process of this test binary a writer: "<URL of Redis> <key prefix> <writes until it kills itself>".
const writerEnv = "TIDEMARK_TEST_CACHE_WRITER"

// behind returns a write-behind cache of numbers. write may be nil for one that only accepts values.
func behind(
	conn *redis.Conn, c *cache.Cache[int], write func(context.Context, cache.Write[int]) error,
) (*cache.WriteBehind[int], error) {
	m, err := lease.NewManager(leases.New(conn), lease.Options{TTL: time.Second})
	return cache.NewWriteBehind(c, rediscache.NewQueue(conn), m, write), err
}

// source is a source of truth in Redis: a list of "<id> <value> <fence>" in the order of the writes.
func source(prefix string) string { return prefix + "source" }

func write(ctx context.Context, client rueidis.Client, prefix string, w cache.Write[int]) error {
	line := fmt.Sprint(w.ID, " ", w.Value, " ", w.Fence)
	return client.Do(ctx, client.B().Rpush().Key(source(prefix)).Element(line).Build()).Error()
}

// runWriter is the program of a writer. It dies between a write and the record of it.
func runWriter() {
	ctx := context.Background()
	arguments := strings.Fields(os.Getenv(writerEnv))
	conn, err := redis.Connect(ctx, redis.Options{URL: arguments[0], KeyPrefix: arguments[1],
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	reads, err := tracked.Open(ctx, conn, tracked.Options{})
	if err != nil {
		panic(err)
	}
	left, err := strconv.Atoi(arguments[2])
	if err != nil {
		panic(err)
	}
	c := cache.New(rediscache.New(conn, conn, reads), cache.Options[int]{Kind: records.Author})
	w, err := behind(conn, c, func(ctx context.Context, w cache.Write[int]) error {
		if err := write(ctx, conn.Client(), arguments[1], w); err != nil {
			return err
		}
		if left--; left == 0 {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	w.Run(ctx)
}

// TestKilledWriter: writers are killed repeatedly during a flush. Every accepted value is written, those of each ID in
// order: after a kill, values are written again from an earlier one on, with a higher fence.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	conn, node := storetest.Standalone(t)
	c := open(t, processOf(t, conn), cache.Options[int]{Kind: records.Author})
	w, err := behind(conn, c, nil)
	require.NoError(t, err)
	const values, ids = 200, 7
	for i := range values {
		require.NoError(t, w.Write(t.Context(), fmt.Sprint(i%ids), i))
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, until := range []string{"1", "50", "45", "1000000"} {
		p := &process.Process{
			Program: self, Dir: t.TempDir(), LogName: "writer.log",
			Env: append(os.Environ(), writerEnv+"="+node.URL()+" "+conn.Prefix()+" "+until),
		}
		require.NoError(t, p.Start(t.Context()))
		t.Cleanup(func() { _ = p.End(syscall.SIGKILL) })
		if until != "1000000" {
			<-p.Exited()
		}
	}
	require.NoError(t, w.Flush(t.Context()))
	lines, err := conn.Client().Do(t.Context(), conn.Client().B().Lrange().Key(source(conn.Prefix())).Start(0).Stop(
		-1).Build()).AsStrSlice()
	require.NoError(t, err)
	requireWritten(t, lines, values, ids)
	require.Greater(t, len(lines), values, "what wasn't recorded is written again")
	require.Equal(t, "0",
		fmt.Sprint(exists(t, conn, records.CacheWrites.Key("author"), records.CachePending.Key("author"))))
}

// requireWritten checks the contents of the source of truth.
func requireWritten(t *testing.T, lines []string, values, ids int) {
	t.Helper()
	last, fences, seen := map[int]int{}, map[int]int{}, map[int]bool{}
	for _, line := range lines {
		var id, value, fence int
		_, err := fmt.Sscan(line, &id, &value, &fence)
		require.NoError(t, err)
		require.Equal(t, value%ids, id)
		require.GreaterOrEqual(t, fence, fences[0], "fences rise")
		if was, ok := last[id]; ok && fence == fences[id+1] {
			require.Equal(t, was+ids, value, "the next one of the ID, by the same writer: %s", line)
		} else if ok {
			require.LessOrEqual(t, value, was+ids, "nothing is left out: %s", line)
		} else {
			require.Equal(t, id, value)
		}
		last[id], fences[0], fences[id+1], seen[value] = value, fence, fence, true
	}
	require.Len(t, seen, values)
	for id, value := range last {
		require.GreaterOrEqual(t, value, values-ids, "the last value of %d", id)
	}
}

func exists(t *testing.T, conn *redis.Conn, keys ...string) (n int64) {
	t.Helper()
	for _, key := range keys {
		found, err := conn.Client().Do(t.Context(), conn.Client().B().Exists().Key(conn.Prefix()+key).Build()).AsInt64()
		require.NoError(t, err)
		n += found
	}
	return n
}

// table is a source of truth in memory.
type table struct {
	mu      sync.Mutex
	rows    map[string]int
	refuse  map[string]bool
	refused chan string
	panics  bool
}

func (s *table) write(_ context.Context, w cache.Write[int]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse[w.ID] && w.Value == 0 { // its first value; the later ones must wait for it
		select {
		case s.refused <- w.ID:
		default:
		}
		if s.panics {
			panic("a defect")
		}
		return errors.New("refused")
	}
	s.rows[w.ID] = w.Value
	return nil
}

func (s *table) row(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[id]
}

// TestPoison: a value that can't be written doesn't stop the others, is not lost, and its successors wait for it.
func TestPoison(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		t.Run(fmt.Sprint(panics), func(t *testing.T) {
			t.Parallel()
			conn, _ := storetest.Standalone(t)
			counts := &counter{}
			c := open(t, processOf(t, conn), cache.Options[int]{Kind: records.Author, Metrics: counts})
			s := &table{rows: map[string]int{}, refuse: map[string]bool{"bad": true}, refused: make(chan string, 1),
				panics: panics}
			w, err := behind(conn, c, s.write)
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { w.Run(ctx) })
			defer running.Wait()
			defer stop()
			for i := range 100 {
				require.NoError(t, w.Write(t.Context(), "bad", i))
				require.NoError(t, w.Write(t.Context(), fmt.Sprint("good", i%3), i))
			}
			storetest.WaitFor(t, "the others to be written",
				func() bool { return s.row("good0") == 99 && s.row("good1") == 97 && s.row("good2") == 98 })
			<-s.refused
			<-s.refused
			require.NotZero(t, counts.of(cache.WriteFailed))
			require.NotContains(t, s.rows, "bad")
			value, err := w.Load(t.Context(), "bad", nil)
			require.NoError(t, err)
			require.Equal(t, 99, value)
			require.NoError(t, c.Invalidate(t.Context(), "bad"))
			value, err = w.Load(t.Context(), "bad", func(context.Context) (int, error) { return -1, nil })
			require.NoError(t, err)
			require.Equal(t, 99, value, "what isn't written yet is not loaded from the source")

			s.mu.Lock()
			clear(s.refuse)
			s.mu.Unlock()
			require.NoError(t, w.Flush(t.Context()))
			require.Equal(t, 99, s.row("bad"))
			require.EqualValues(t, 200, counts.of(cache.Written))
		})
	}
}

// counter counts events.
type counter struct {
	mu     sync.Mutex
	counts map[cache.Event]int
}

func (c *counter) Count(_ *records.Kind, e cache.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[cache.Event]int{}
	}
	c.counts[e]++
}

func (c *counter) of(e cache.Event) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[e]
}

// TestWritersTakeTurns: of several processes one writes. When it ends another goes on. Flush waits for them.
func TestWritersTakeTurns(t *testing.T) {
	t.Parallel()
	conn, _ := storetest.Standalone(t)
	c := open(t, processOf(t, conn), cache.Options[int]{Kind: records.Author})
	s := &table{rows: map[string]int{}}
	var running sync.WaitGroup
	defer running.Wait()
	var stops []context.CancelFunc
	var last *cache.WriteBehind[int]
	for range 3 {
		w, err := behind(conn, c, s.write)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		running.Go(func() { w.Run(ctx) })
		stops, last = append(stops, stop), w
	}
	for i, stop := range stops {
		require.NoError(t, last.Write(t.Context(), "a", i+1))
		require.NoError(t, last.Flush(t.Context()))
		require.Equal(t, i+1, s.row("a"))
		if i < 2 {
			stop()
		}
	}
	stops[2]()
	running.Wait()
	require.NoError(t, last.Write(t.Context(), "a", 9))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, last.Flush(ctx), context.Canceled, "nobody writes")
}
