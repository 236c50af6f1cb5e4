package tier_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/records/tier"
)

// behind is a store that has every value, for reads that bypass nodes.
type behind struct {
	cache.Store // other methods panic

	reads   [][]string
	fail    error
	changed func(id string)
}

func (b *behind) Read(_ context.Context, _ *records.Kind, ids []string) (entries []cache.Entry, err error) {
	b.reads = append(b.reads, ids)
	for _, id := range ids {
		entries = append(entries, cache.Entry{Found: true, Bytes: []byte("redis " + id)})
	}
	return entries, b.fail
}

func (b *behind) Listen(_ *records.Kind, changed func(id string)) (stop func()) {
	b.changed = changed
	return func() {}
}

// nodes answers after a delay, with values or an error.
type nodes struct {
	has    map[string]bool
	takes  time.Duration
	fail   error
	calls  int
	during func()
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

// through runs a test in a bubble. read reads IDs and returns the values.
func through(t *testing.T, n *nodes,
	test func(b *behind, c counts, read func(kind *records.Kind, ids ...string) []string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, c := &behind{}, counts{}
		s := tier.NewThrough(tier.ThroughOptions{Store: b, Clients: map[*records.Kind]tier.Client{records.Author: n},
			Metrics: c})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		defer func() {
			stop()
			require.NoError(t, <-done)
		}()
		synctest.Wait()
		test(b, c, func(kind *records.Kind, ids ...string) (values []string) {
			entries, err := s.Read(t.Context(), kind, ids)
			require.Equal(t, b.fail != nil && len(b.reads) > 0, err != nil)
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
		"all": {nodes{has: map[string]bool{"1": true, "2": true}}, records.Author,
			[]string{"tier 1", "tier 2"}, nil, counts{tier.Hit: 2}},
		"some": {nodes{has: map[string]bool{"2": true}}, records.Author, []string{"redis 1", "tier 2"},
			[][]string{{"1"}}, counts{tier.Hit: 1, tier.Missing: 1}},
		"some fail": {nodes{has: map[string]bool{"1": true}, fail: down}, records.Author,
			[]string{"tier 1", "redis 2"}, [][]string{{"2"}}, counts{tier.Hit: 1, tier.Failed: 1}},
		"late": {nodes{has: map[string]bool{"1": true}, takes: time.Second}, records.Author,
			[]string{"redis 1", "redis 2"}, [][]string{{"1", "2"}}, counts{tier.Failed: 2}},
		"no tier for it": {nodes{}, records.Topic, []string{"redis 1", "redis 2"}, [][]string{{"1", "2"}}, counts{}},
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
			require.Equal(t, []string{"tier 1"}, read(records.Author, "1"))
			require.Empty(t, read(records.Author, "1", "2"))
		})
}

// Unresponsive nodes don't delay each read.
func TestThroughDeadTier(t *testing.T) {
	t.Parallel()
	n := &nodes{has: map[string]bool{"1": true}, takes: time.Hour}
	through(t, n, func(_ *behind, c counts, read func(*records.Kind, ...string) []string) {
		began := time.Now()
		for range 1000 {
			require.Equal(t, []string{"redis 1"}, read(records.Author, "1"))
		}
		require.Equal(t, 3*tier.DefaultTimeout, time.Since(began))
		require.Equal(t, counts{tier.Failed: 3, tier.Passed: 997, tier.Hit: 0}, c)
		for pause := time.Second; pause <= 64*time.Second; pause *= 2 { // asked once after each
			pass(min(pause, 30*time.Second))
			for range 2 {
				read(records.Author, "1")
			}
		}
		require.Equal(t, 10, n.calls)
		n.takes = 0
		pass(30 * time.Second)
		for range 10 {
			require.Equal(t, []string{"tier 1"}, read(records.Author, "1"))
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
				read(records.Author, "1")
			}
		}
		read(records.Author, "1")
		require.Equal(t, 100, n.calls)
		n.takes, n.during = 0, nil
		require.Equal(t, []string{"redis 1"}, read(records.Author, "1"))
		pass(time.Second)
		require.Equal(t, []string{"tier 1"}, read(records.Author, "1"))
	})
}

// Values whose change the process has seen are read from Redis for some time, even if they change during a read from
// nodes.
func TestThroughReadsItsWrites(t *testing.T) {
	t.Parallel()
	n := &nodes{has: map[string]bool{"1": true, "2": true, "3": true}}
	through(t, n, func(b *behind, _ counts, read func(*records.Kind, ...string) []string) {
		b.changed("1")
		n.during = func() { b.changed("2") }
		require.Equal(t, []string{"redis 1", "redis 2", "tier 3"}, read(records.Author, "1", "2", "3"))
		n.during = nil
		pass(4 * time.Second)
		require.Equal(t, []string{"redis 1", "redis 2", "tier 3"}, read(records.Author, "1", "2", "3"))
		pass(10 * time.Second)
		require.Equal(t, []string{"tier 1", "tier 2", "tier 3"}, read(records.Author, "1", "2", "3"))
		for i := range 30_000 { // more than are remembered
			b.changed(fmt.Sprint("another ", i))
		}
		b.changed("1")
		require.Equal(t, []string{"tier 1"}, read(records.Author, "1"))
	})
}
