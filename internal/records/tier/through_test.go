package tier_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
)

// behind is a store that has every value, for reads that bypass nodes.
type behind struct {
	records.CacheStore // other methods panic

	mu      sync.Mutex
	reads   [][]string
	fail    error         // of reads, and of writes
	takes   time.Duration // each read; then it fails if that is hung
	changed func(id string, own bool)
	during  func() // called by each write, after it has reported its change
	// overtaken makes puts store nothing
	overtaken bool
}

// hung is how long reads from a Redis that doesn't answer take.
const hung = 5 * time.Second

var errHung = errors.New("redis doesn't answer")

func (b *behind) Read(ctx context.Context, _ *records.Kind, ids []string) (entries []records.Entry, err error) {
	b.mu.Lock()
	b.reads = append(b.reads, ids)
	b.mu.Unlock()
	if b.takes > 0 && !pace.Sleep(ctx, b.takes) {
		return nil, ctx.Err()
	}
	if b.takes == hung {
		return nil, errHung
	}
	for _, id := range ids {
		entries = append(entries, records.Entry{Found: true, Bytes: []byte("redis " + id)})
	}
	return entries, b.fail
}

func (b *behind) Listen(_ *records.Kind, changed func(id string, own bool)) (stop func()) {
	b.changed = changed
	return func() {}
}

func (b *behind) Put(_ context.Context, v records.Value) error {
	return b.write(!b.overtaken, v.Key.ID)
}

func (b *behind) Invalidate(_ context.Context, _ *records.Kind, ids []string) error {
	return b.write(true, ids...)
}

// write reports changes, as the store does before it returns.
func (b *behind) write(stored bool, ids ...string) error {
	for _, id := range ids {
		b.changed(id, false) // by Redis
		b.changed(id, stored)
	}
	if b.during != nil {
		b.during()
	}
	return b.fail
}

// nodes answers after a delay, with values or an error.
type nodes struct {
	has    map[string]bool
	takes  time.Duration
	fail   error
	calls  int
	during func()
}

// all is a set of IDs.
func all(ids ...string) map[string]bool {
	set := map[string]bool{}
	for _, id := range ids {
		set[id] = true
	}
	return set
}

func (n *nodes) Get(ctx context.Context, ids []string) (map[string][]byte, error) {
	n.calls++
	if n.during != nil {
		n.during()
	}
	select {
	case <-time.After(n.takes):
	case <-ctx.Done():
		return map[string][]byte{}, ctx.Err()
	}
	found := map[string][]byte{}
	for _, id := range ids {
		if n.has[id] {
			found[id] = []byte("tier " + id)
		}
	}
	return found, n.fail
}

// counts is the number of each outcome.
type counts map[tier.Outcome]int

func (c counts) Count(_ *records.Kind, o tier.Outcome, n int) { c[o] += n }

// throughStore runs a test in a bubble, with a store that reads from nodes.
func throughStore(t *testing.T, n *nodes, c counts, test func(t *testing.T, b *behind, s *tier.Through)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &behind{}
		s := tier.NewThrough(tier.ThroughOptions{Store: b,
			Clients: map[*records.Kind]tier.Client{site.Kind("author"): n},
			Metrics: c})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		defer func() {
			stop()
			require.NoError(t, <-done)
		}()
		synctest.Wait()
		test(t, b, s)
	})
}

// requireEvents requires that only values of Redis are counted as Redis's.
func requireEvents(t *testing.T, entries []records.Entry) {
	t.Helper()
	for _, e := range entries {
		want := records.HitShards
		switch {
		case !e.Found:
			want = records.Miss
		case strings.HasPrefix(string(e.Bytes), "redis "):
			want = records.HitRedis
		}
		require.Equal(t, want, e.Event(), string(e.Bytes))
	}
}

// through is throughStore for a test that only reads. read reads IDs and returns the values.
func through(t *testing.T, n *nodes,
	test func(b *behind, c counts, read func(kind *records.Kind, ids ...string) []string)) {
	t.Helper()
	c := counts{}
	throughStore(t, n, c, func(t *testing.T, b *behind, s *tier.Through) {
		test(b, c, func(kind *records.Kind, ids ...string) (values []string) {
			entries, err := s.Read(t.Context(), kind, ids)
			require.Equal(t, b.fail != nil && len(b.reads) > 0, err != nil)
			requireEvents(t, entries)
			for _, e := range entries {
				values = append(values, string(e.Bytes))
			}
			return values
		})
	})
}

// Values of nodes aren't read from Redis, and all others are.
func TestThrough(t *testing.T) {
	t.Parallel()
	down := errors.New("one shard is down")
	for name, c := range map[string]struct {
		nodes nodes
		kind  *records.Kind
		want  []string
		reads [][]string
		count counts
	}{
		"all": {nodes{has: map[string]bool{"1": true, "2": true}}, site.Kind("author"),
			[]string{"tier 1", "tier 2"}, nil, counts{tier.Hit: 2}},
		"some": {nodes{has: map[string]bool{"2": true}}, site.Kind("author"), []string{"redis 1", "tier 2"},
			[][]string{{"1"}}, counts{tier.Hit: 1, tier.Missing: 1}},
		"some fail": {nodes{has: map[string]bool{"1": true}, fail: down}, site.Kind("author"),
			[]string{"tier 1", "redis 2"}, [][]string{{"2"}}, counts{tier.Hit: 1, tier.Failed: 1}},
		"late": {nodes{has: map[string]bool{"1": true}, takes: time.Second}, site.Kind("author"),
			[]string{"redis 1", "redis 2"}, [][]string{{"1", "2"}}, counts{tier.Failed: 2}},
		"no tier for it": {nodes{}, site.Kind("topic"), []string{"redis 1", "redis 2"}, [][]string{{"1", "2"}},
			counts{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			through(t, &c.nodes, func(b *behind, counted counts, read func(*records.Kind, ...string) []string) {
				began := time.Now()
				require.Equal(t, c.want, read(c.kind, "1", "2"))
				require.LessOrEqual(t, time.Since(began), tier.DefaultTimeout)
				require.Equal(t, c.reads, b.reads)
				for _, o := range tier.Outcomes {
					require.Equal(t, c.count[o], counted[o], o)
				}
			})
		})
	}
}

// Without Redis nodes still answer with their values.
func TestThroughWithoutRedis(t *testing.T) {
	t.Parallel()
	through(t, &nodes{has: map[string]bool{"1": true}},
		func(b *behind, _ counts, read func(*records.Kind, ...string) []string) {
			b.fail = errors.New("down")
			require.Equal(t, []string{"tier 1"}, read(site.Kind("author"), "1"))
			require.Empty(t, read(site.Kind("author"), "1", "2"))
		})
}

// Unresponsive nodes don't delay each read.
func TestThroughDeadTier(t *testing.T) {
	t.Parallel()
	n := &nodes{has: map[string]bool{"1": true}, takes: time.Hour}
	through(t, n, func(_ *behind, c counts, read func(*records.Kind, ...string) []string) {
		began := time.Now()
		for range 1000 {
			require.Equal(t, []string{"redis 1"}, read(site.Kind("author"), "1"))
		}
		require.Equal(t, 3*tier.DefaultTimeout, time.Since(began))
		require.Equal(t, counts{tier.Failed: 3, tier.Passed: 997, tier.Hit: 0}, c)
		for pause := time.Second; pause <= 64*time.Second; pause *= 2 { // asked once after each
			pass(min(pause, 30*time.Second))
			for range 2 {
				read(site.Kind("author"), "1")
			}
		}
		require.Equal(t, 10, n.calls)
		n.takes = 0
		pass(30 * time.Second)
		for range 10 {
			require.Equal(t, []string{"tier 1"}, read(site.Kind("author"), "1"))
		}
	})
}

// Reads that fail together are one failure of the nodes: a hiccup under load doesn't turn them off for long.
func TestThroughFailsTogether(t *testing.T) {
	t.Parallel()
	n := &nodes{has: map[string]bool{"1": true}, takes: time.Hour}
	through(t, n, func(_ *behind, _ counts, read func(*records.Kind, ...string) []string) {
		n.during = func() { // the next read begins while this one waits
			if n.calls < 100 {
				read(site.Kind("author"), "1")
			}
		}
		read(site.Kind("author"), "1")
		require.Equal(t, 100, n.calls)
		n.takes, n.during = 0, nil
		require.Equal(t, []string{"redis 1"}, read(site.Kind("author"), "1"))
		pass(time.Second)
		require.Equal(t, []string{"tier 1"}, read(site.Kind("author"), "1"))
	})
}

// Values whose change the process has seen are read from Redis for some time, even if they change during a read from
// nodes.
func TestThroughReadsItsWrites(t *testing.T) {
	t.Parallel()
	n := &nodes{has: map[string]bool{"1": true, "2": true, "3": true}}
	through(t, n, func(b *behind, _ counts, read func(*records.Kind, ...string) []string) {
		b.changed("1", false)
		n.during = func() { b.changed("2", false) }
		require.Equal(t, []string{"redis 1", "redis 2", "tier 3"}, read(site.Kind("author"), "1", "2", "3"))
		n.during = nil
		pass(4 * time.Second)
		require.Equal(t, []string{"redis 1", "redis 2", "tier 3"}, read(site.Kind("author"), "1", "2", "3"))
		pass(10 * time.Second)
		require.Equal(t, []string{"tier 1", "tier 2", "tier 3"}, read(site.Kind("author"), "1", "2", "3"))
		for i := range 30_000 { // more than are remembered
			b.changed(fmt.Sprint("another ", i), false)
		}
		b.changed("1", false)
		require.Equal(t, []string{"tier 1"}, read(site.Kind("author"), "1"))
	})
}

// author is a value that is permanent.
func author(id, value string) records.Value {
	return records.Value{Key: records.CacheKey{Kind: site.Kind("author"), ID: id}, Bytes: []byte(value)}
}

// changeManyAfter changes as many others as are remembered, some seconds after a write.
func changeManyAfter(b *behind, write func()) {
	write()
	pass(6 * time.Second)
	for i := range 10_000 {
		b.changed(fmt.Sprint("another ", i), false)
	}
}

// timed reads IDs. It returns the values, "none" for those that don't exist, and how long it took.
func timed(t *testing.T, s *tier.Through, ids ...string) (values []string, took time.Duration, err error) {
	t.Helper()
	began := time.Now()
	entries, err := s.Read(t.Context(), site.Kind("author"), ids)
	requireEvents(t, entries)
	for _, e := range entries {
		if e.Found {
			values = append(values, string(e.Bytes))
		} else {
			values = append(values, "none")
		}
	}
	synctest.Wait() // the slower ones of nodes and Redis are cancelled
	return values, time.Since(began), err
}

// If nodes don't answer in time, Redis is asked as well, and the first answer is taken.
func TestThroughTakesTheFirstAnswer(t *testing.T) {
	t.Parallel()
	late := tier.DefaultTimeout + 10*time.Millisecond
	for name, c := range map[string]struct {
		nodes, redis time.Duration
		want         string // empty: an error
		took         time.Duration
	}{
		"nodes in time":               {nodes: 40 * time.Millisecond, redis: hung, want: "tier 1", took: 40 * time.Millisecond},
		"nodes late, Redis hangs":     {nodes: late, redis: hung, want: "tier 1", took: late},
		"nodes very late":             {nodes: 2 * time.Second, redis: hung, want: "tier 1", took: 2 * time.Second},
		"nodes late, Redis is slower": {nodes: late, redis: time.Second, want: "tier 1", took: late},
		"Redis is faster": {nodes: time.Second, redis: 20 * time.Millisecond, want: "redis 1",
			took: tier.DefaultTimeout + 20*time.Millisecond},
		"both hang": {nodes: time.Hour, redis: hung, took: tier.DefaultTimeout + hung},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &nodes{has: all("1"), takes: c.nodes}
			throughStore(t, n, counts{}, func(t *testing.T, b *behind, s *tier.Through) {
				b.takes = c.redis
				values, took, err := timed(t, s, "1")
				require.Equal(t, c.took, took)
				if c.want == "" {
					require.ErrorIs(t, err, errHung)
					return
				}
				require.NoError(t, err)
				require.Equal(t, []string{c.want}, values)
			})
		})
	}
}

// Nodes are asked as long as Redis doesn't answer, however slow they are; also if they were slower than Redis before.
func TestThroughNeverTurnsToAHungRedis(t *testing.T) {
	t.Parallel()
	n, c := &nodes{has: all("1"), takes: 60 * time.Millisecond}, counts{}
	throughStore(t, n, c, func(t *testing.T, b *behind, s *tier.Through) {
		b.takes = hung
		for range 10 {
			values, took, err := timed(t, s, "1")
			require.NoError(t, err)
			require.Equal(t, []string{"tier 1"}, values)
			require.Equal(t, n.takes, took)
		}
		n.takes = time.Hour
		for range 10 {
			_, _, err := timed(t, s, "1")
			require.ErrorIs(t, err, errHung)
		}
		require.Zero(t, c[tier.Passed])

		b.takes, n.takes = 0, time.Hour
		for range 4 { // the last one doesn't ask nodes
			_, _, err := timed(t, s, "1")
			require.NoError(t, err)
		}
		require.Equal(t, 1, c[tier.Passed])
		b.takes, n.takes = hung, 0
		for _, takes := range []time.Duration{tier.DefaultTimeout, 0, 0} {
			values, took, err := timed(t, s, "1")
			require.NoError(t, err)
			require.Equal(t, []string{"tier 1"}, values)
			require.Equal(t, takes, took)
		}
		require.Equal(t, 2, c[tier.Passed])
		require.Equal(t, 1, c[tier.WithoutRedis])
	})
}

// If Redis hangs, a value that this process has written is answered from what it wrote.
func TestThroughHasItsWrites(t *testing.T) {
	t.Parallel()
	n, c := &nodes{has: all("1", "2", "3", "4")}, counts{}
	throughStore(t, n, c, func(t *testing.T, b *behind, s *tier.Through) {
		put := func(id, value string, ttl time.Duration) error {
			return s.Put(t.Context(), records.Value{
				Key: records.CacheKey{Kind: site.Kind("author"), ID: id}, Bytes: []byte(value), TTL: ttl,
			})
		}
		require.NoError(t, put("1", "a", 0))
		require.NoError(t, put("1", "b", 0))
		require.NoError(t, put("2", "short", 2*time.Second))
		require.NoError(t, s.Invalidate(t.Context(), site.Kind("author"), []string{"3"}))
		values, took, err := timed(t, s, "1", "2", "3", "4")
		require.NoError(t, err)
		require.Zero(t, took)
		require.Equal(t, []string{"redis 1", "redis 2", "redis 3", "tier 4"}, values, "Redis answers in time")

		b.takes = hung
		values, took, err = timed(t, s, "1", "2", "3", "4", "1")
		require.NoError(t, err)
		require.Equal(t, time.Second+tier.DefaultTimeout, took)
		require.Equal(t, []string{"b", "short", "none", "tier 4", "b"}, values)
		require.Equal(t, 4, c[tier.WithoutRedis])
		pass(time.Second)
		values, _, err = timed(t, s, "1", "2")
		require.NoError(t, err)
		require.Equal(t, []string{"b", "none"}, values)
		pass(800 * time.Millisecond)
		values, _, err = timed(t, s, "1", "3")
		require.NoError(t, err)
		require.Equal(t, []string{"b", "none"}, values, "within 5 s in any case")
		pass(10 * time.Second)
		values, took, err = timed(t, s, "1", "3")
		require.NoError(t, err)
		require.Zero(t, took)
		require.Equal(t, []string{"tier 1", "tier 3"}, values)
	})
}

// Another server may have changed what this process has written, so that Redis is waited for, unless it fails.
func TestThroughPrefersRedisToItsWrites(t *testing.T) {
	t.Parallel()
	const slow = 5 * tier.DefaultTimeout
	for name, c := range map[string]struct {
		takes time.Duration
		fail  error
		want  string
	}{
		"slow":           {takes: slow, want: "redis 1"},
		"fails":          {fail: errHung, want: "own"},
		"slow, fails":    {takes: slow, fail: errHung, want: "own"},
		"doesn't answer": {takes: hung, want: "own"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			throughStore(t, &nodes{has: all("1")}, counts{}, func(t *testing.T, b *behind, s *tier.Through) {
				require.NoError(t, s.Put(t.Context(), author("1", "own")))
				b.takes, b.fail = c.takes, c.fail
				ctx := t.Context()
				if c.fail != nil { // the read would take longer if it waited
					limited, cancel := context.WithTimeout(ctx, 2*slow)
					defer cancel()
					ctx = limited
				}
				entries, err := s.Read(ctx, site.Kind("author"), []string{"1"})
				require.NoError(t, err)
				require.Equal(t, c.want, string(entries[0].Bytes))
			})
		})
	}
}

// A change that is reported while Redis is waited for counts: what this process has written before isn't answered.
func TestThroughHearsOfChangesWhileItWaits(t *testing.T) {
	t.Parallel()
	throughStore(t, &nodes{has: all("1")}, counts{}, func(t *testing.T, b *behind, s *tier.Through) {
		require.NoError(t, s.Put(t.Context(), author("1", "own")))
		b.takes = hung
		time.AfterFunc(2*tier.DefaultTimeout, func() { b.changed("1", false) })
		values, _, err := timed(t, s, "1")
		require.NoError(t, err)
		require.Equal(t, []string{"tier 1"}, values)
	})
}

// If Redis fails, nodes may take longer than usual, whenever it fails and whatever has changed.
func TestThroughWaitsForNodesIfRedisFails(t *testing.T) {
	t.Parallel()
	slower := tier.DefaultTimeout + 10*time.Millisecond
	for name, prepare := range map[string]func(n *nodes, b *behind, read func()){
		"nodes first": func(*nodes, *behind, func()) {},
		"changed":     func(_ *nodes, b *behind, _ func()) { b.changed("1", false) },
		"Redis first": func(n *nodes, _ *behind, read func()) {
			for n.takes = time.Hour; n.calls < 3; {
				read()
			}
		},
	} {
		for after, takes := range map[string]time.Duration{
			"at once": 0, "late": slower, "after nodes were asked too": 2*tier.DefaultTimeout - time.Millisecond,
		} {
			t.Run(name+", "+after, func(t *testing.T) {
				t.Parallel()
				n := &nodes{has: all("1")}
				throughStore(t, n, counts{}, func(t *testing.T, b *behind, s *tier.Through) {
					prepare(n, b, func() {
						_, _, err := timed(t, s, "1")
						require.NoError(t, err)
					})
					n.takes, b.takes, b.fail = 2*slower, takes, errHung
					values, _, err := timed(t, s, "1")
					require.NoError(t, err)
					require.Equal(t, []string{"tier 1"}, values)
					n.takes = time.Hour
					_, _, err = timed(t, s, "1")
					require.ErrorIs(t, err, errHung, "not forever")
				})
			})
		}
	}
}

// A change is forgotten after 10 s at the latest.
func TestThroughForgetsInTime(t *testing.T) {
	t.Parallel()
	through(t, &nodes{has: all("1")}, func(b *behind, _ counts, read func(*records.Kind, ...string) []string) {
		b.changed("1", false)
		pass(9900 * time.Millisecond)
		require.Equal(t, []string{"redis 1"}, read(site.Kind("author"), "1"))
		pass(200 * time.Millisecond)
		require.Equal(t, []string{"tier 1"}, read(site.Kind("author"), "1"))
	})
}

// What a value is isn't known after a change by another process, also if that is reported during a write; after a write
// that failed, or that stored nothing; after two writes at once; and if there are too many. While Redis hangs nodes are
// asked for it, but later.
func TestThroughDoesNotKnow(t *testing.T) {
	t.Parallel()
	n := &nodes{has: all("1")}
	for name, change := range map[string]func(b *behind, put func(id string, bytes int) error){
		"changed": func(b *behind, put func(string, int) error) {
			require.NoError(t, put("1", 1))
			b.changed("1", false)
		},
		"failed": func(b *behind, put func(string, int) error) {
			require.NoError(t, put("1", 1))
			b.fail = errHung
			require.Error(t, put("1", 2))
			b.fail = nil
		},
		"at once": func(b *behind, put func(string, int) error) {
			b.during = func() {
				b.during = nil
				require.NoError(t, put("1", 2))
			}
			require.NoError(t, put("1", 1))
		},
		"changed during a put": func(b *behind, put func(string, int) error) {
			b.during = func() { b.changed("1", false) }
			require.NoError(t, put("1", 1))
		},
		"overtaken": func(b *behind, put func(string, int) error) {
			require.NoError(t, put("1", 1))
			b.overtaken = true
			require.NoError(t, put("1", 2))
		},
		"changed after many": func(b *behind, put func(string, int) error) {
			changeManyAfter(b, func() { require.NoError(t, put("1", 1)) })
			b.changed("1", false)
		},
		"put after many": func(b *behind, put func(string, int) error) {
			changeManyAfter(b, func() { require.NoError(t, put("1", 1)) })
			require.NoError(t, put("1", 2))
		},
		"too large": func(_ *behind, put func(string, int) error) {
			require.NoError(t, put("another", 8<<20))
			require.NoError(t, put("1", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := *n
			throughStore(t, &n, counts{}, func(t *testing.T, b *behind, s *tier.Through) {
				change(b, func(id string, bytes int) error {
					return s.Put(t.Context(), author(id, string(make([]byte, bytes))))
				})
				b.takes = hung
				values, took, err := timed(t, s, "1")
				require.NoError(t, err)
				require.Equal(t, []string{"tier 1"}, values)
				require.Equal(t, time.Second+tier.DefaultTimeout, took)
			})
		})
	}
}
