package group_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/group"
)

// calls records the calls of a group, each of which takes a second.
type calls struct {
	mu    sync.Mutex
	made  []string
	pause time.Duration
	err   error
	short bool // return one result too few
}

func (c *calls) run(ctx context.Context, key string, items []string) ([]string, time.Duration, error) {
	c.mu.Lock()
	c.made = append(c.made, key+":"+strings.Join(items, ""))
	c.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	case <-time.After(time.Second):
	}
	results := slices.Clone(items)
	for i, it := range items {
		results[i] = strings.ToUpper(it)
	}
	if c.short {
		results = results[1:]
	}
	return results, c.pause, c.err
}

// in runs a test on a group with calls of at most 3 items and 6 bytes.
func in(t *testing.T, test func(t *testing.T, c *calls, g *group.Group[string, string, string])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		g := group.New(group.Options[string, string, string]{Run: c.run, Calls: 1,
			Size: func(s string) int { return len(s) }, Items: 3,
			Bytes: 6, Limit: time.Hour})
		test(t, c, g)
		g.Close()
	})
}

// begin starts calls of Do with items of the key "k", in order, and returns when all wait. Their errors come in order
// too.
func begin(
	ctx context.Context, t *testing.T, g *group.Group[string, string, string], items ...string,
) (wait func() []error) {
	t.Helper()
	errs := make([]error, len(items))
	var all sync.WaitGroup
	for i, it := range items {
		all.Go(func() {
			result, err := g.Do(ctx, "k", it)
			if err == nil && result != strings.ToUpper(it) {
				err = errors.New("the result of another item: " + result)
			}
			errs[i] = err
		})
		synctest.Wait()
	}
	return func() []error {
		all.Wait()
		return errs
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ items, want []string }{
		"one":             {[]string{"a"}, []string{"k:a"}},
		"the first alone": {[]string{"a", "b", "c"}, []string{"k:a", "k:bc"}},
		"full": {[]string{"a", "b", "c", "d", "e", "f", "g", "h"},
			[]string{"k:a", "k:bcd", "k:efg", "k:h"}},
		"large":             {[]string{"a", "bbbbb", "cc", "d"}, []string{"k:a", "k:bbbbb", "k:ccd"}},
		"too large for any": {[]string{"a", "bbbbbbbb", "c"}, []string{"k:a", "k:bbbbbbbb", "k:c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, c *calls, g *group.Group[string, string, string]) {
				start := time.Now()
				require.Equal(t, make([]error, len(test.items)), begin(t.Context(), t, g, test.items...)())
				require.Equal(t, test.want, c.made)
				require.Equal(t, time.Duration(len(test.want))*time.Second, time.Since(start),
					"one call at a time, and none waits for more")
			})
		})
	}
}

// With two calls at a time the first two items go at once, and the others wait for either.
func TestCallsAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		g := group.New(group.Options[string, string, string]{Run: c.run, Calls: 2,
			Size: func(s string) int { return len(s) }, Items: 3, Bytes: 6, Limit: time.Hour})
		start := time.Now()
		require.Equal(t, make([]error, 6), begin(t.Context(), t, g, "a", "b", "c", "d", "e", "f")())
		slices.Sort(c.made) // those of one moment
		require.Equal(t, []string{"k:a", "k:b", "k:cde", "k:f"}, c.made)
		require.Equal(t, 2*time.Second, time.Since(start))
		g.Close()
	})
}

// Items that are begun go in the first call of their key if they are begun together. A key that is alone has two calls at
// a time, and others have one. Items that wait for too long are dropped.
func TestBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		g := group.New(group.Options[string, string, string]{Run: c.run, Calls: 4,
			Size: func(s string) int { return len(s) }, Items: 3, Bytes: 6, Limit: 5 * time.Second})
		var mu sync.Mutex
		outcomes := map[string]string{}
		begin := func(key, items string) {
			for _, it := range strings.Split(items, "") {
				require.NoError(t, g.Begin(key, it, func(result string, err error) {
					mu.Lock()
					defer mu.Unlock()
					require.NotContains(t, outcomes, it)
					if outcomes[it] = result; err != nil {
						require.ErrorIs(t, err, context.DeadlineExceeded)
						require.ErrorIs(t, err, group.ErrDropped)
						outcomes[it] = "dropped"
					}
				}))
			}
		}
		begin("k", "abcd")
		synctest.Wait()
		require.Len(t, c.made, 2)
		begin("k", "e")
		begin("l", "f")
		synctest.Wait()
		begin("l", "gh")
		<-time.After(3 * time.Second)
		synctest.Wait()
		slices.Sort(c.made[:2])
		require.Equal(t, []string{"k:abc", "k:d"}, c.made[:2])
		require.Subset(t, c.made, []string{"l:f", "l:gh", "k:e"})
		require.Equal(t, map[string]string{"a": "A", "b": "B", "c": "C", "d": "D", "e": "E", "f": "F", "g": "G", "h": "H"}, outcomes)
		clear(outcomes)
		begin("m", "i")
		synctest.Wait()
		begin("m", "jklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
		<-time.After(time.Minute)
		synctest.Wait()
		require.Len(t, outcomes, 54)
		require.Equal(t, "dropped", outcomes["Z"])
		g.Close()
		require.ErrorIs(t, g.Begin("k", "a", nil), group.ErrClosed)
	})
}

func TestKeysDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, _ *calls, g *group.Group[string, string, string]) {
		start := time.Now()
		wait := begin(t.Context(), t, g, "a")
		_, err := g.Do(t.Context(), "other", "b")
		require.NoError(t, err)
		require.Equal(t, []error{nil}, wait())
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestErrorsAreEveryCallers(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, c *calls, g *group.Group[string, string, string]) {
		c.err = errors.New("down")
		require.Equal(t, []error{c.err, c.err, c.err}, begin(t.Context(), t, g, "a", "b", "c")())
		c.err, c.short = nil, true
		for _, err := range begin(t.Context(), t, g, "a", "b")() {
			require.ErrorContains(t, err, "0 results of 1")
		}
	})
}

// A caller that leaves doesn't end the call of others. Its item isn't sent if it leaves before the call begins.
func TestCallersLeave(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, c *calls, g *group.Group[string, string, string]) {
		ctx, cancel := context.WithCancel(t.Context())
		first, canceled, stay := begin(t.Context(), t, g, "a"), begin(ctx, t, g, "b", "c"), begin(t.Context(), t, g, "d")
		cancel()
		for _, err := range canceled() {
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, group.ErrDropped)
		}
		require.Equal(t, []error{nil, nil}, append(first(), stay()...))
		require.Equal(t, []string{"k:a", "k:d"}, c.made)
		_, err := g.Do(ctx, "k", "e")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, group.ErrDropped)
		require.Len(t, c.made, 2)
	})
}

// The first caller makes its call itself, which ends with the caller's context. Callers that share a call don't end it.
func TestCallersLeaveTheirCall(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, c *calls, g *group.Group[string, string, string]) {
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		first := begin(ctx, t, g, "a")
		sharing, leaveShared := context.WithCancel(t.Context())
		canceled, stay := begin(sharing, t, g, "b"), begin(t.Context(), t, g, "c")
		cancel()
		synctest.Wait() // the call of b and c has begun
		leaveShared()
		for _, err := range append(first(), canceled()...) {
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, group.ErrDropped)
		}
		require.Equal(t, []error{nil}, stay())
		require.Equal(t, []string{"k:a", "k:bc"}, c.made)
		require.Equal(t, time.Second, time.Since(start), "only the second call was made to its end")
	})
}

// A caller whose call panics leaves the next one to the others.
func TestPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := group.New(group.Options[string, string, string]{
			Run: func(_ context.Context, _ string, items []string) ([]string, time.Duration, error) {
				<-time.After(time.Second)
				if items[0] == "a" {
					panic("a")
				}
				return items, 0, nil
			},
			Calls: 1, Size: func(string) int { return 1 }, Items: 3, Bytes: 3, Limit: time.Hour,
		})
		defer g.Close()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			<-time.After(time.Millisecond)
			result, err := g.Do(t.Context(), "k", "b")
			assert.NoError(t, err)
			assert.Equal(t, "b", result)
		})
		require.PanicsWithValue(t, "a", func() { _, _ = g.Do(t.Context(), "k", "a") })
		waiting.Wait()
	})
}

// A caller waits at most for the limit and a hundredth of it more, whenever it arrives.
func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{pause: time.Hour}
		g := group.New(group.Options[string, string, string]{Run: c.run, Calls: 1,
			Size: func(s string) int { return len(s) }, Items: 3,
			Bytes: 6, Limit: 100 * time.Second})
		defer g.Close()
		require.Equal(t, []error{nil}, begin(t.Context(), t, g, "a")())
		for range 5 {
			start := time.Now()
			wait := begin(t.Context(), t, g, "b")
			<-time.After(700 * time.Millisecond)
			require.NotContains(t, append(begin(t.Context(), t, g, "c")(), wait()...), nil)
			require.InDelta(t, 100.85, time.Since(start).Seconds(), 0.86)
		}
		_, err := g.Do(t.Context(), "k", "d")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, group.ErrDropped)
		require.Equal(t, []string{"k:a"}, c.made)
	})
}

// The pause after a call delays the next one even if no caller waits when the pause begins.
func TestPauses(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, c *calls, g *group.Group[string, string, string]) {
		c.pause = time.Minute
		start := time.Now()
		for range 3 {
			require.Equal(t, []error{nil}, begin(t.Context(), t, g, "a")())
		}
		require.Equal(t, 2*time.Minute+3*time.Second, time.Since(start))
		require.Equal(t, []error{nil, nil}, begin(t.Context(), t, g, "b", "c")())
		require.Equal(t, []string{"k:a", "k:a", "k:a", "k:bc"}, c.made)
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, c *calls, g *group.Group[string, string, string]) {
		start := time.Now()
		first, shared := begin(t.Context(), t, g, "a"), begin(t.Context(), t, g, "b")
		require.Equal(t, []error{nil}, first())
		synctest.Wait() // the shared call has begun
		late := begin(t.Context(), t, g, "c")
		g.Close()
		for _, err := range append(shared(), late()...) {
			require.ErrorIs(t, err, context.Canceled)
		}
		_, err := g.Do(t.Context(), "k", "d")
		require.ErrorIs(t, err, group.ErrClosed)
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, []string{"k:a", "k:b", "k:c"}, c.made)
	})
}

// Close waits for a call that a caller makes for itself.
func TestCloseDuringAFirstCall(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, _ *calls, g *group.Group[string, string, string]) {
		start := time.Now()
		wait := begin(t.Context(), t, g, "a", "b")
		g.Close()
		require.Equal(t, time.Second, time.Since(start))
		errs := wait()
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[1], context.Canceled)
	})
}

func TestParts(t *testing.T) {
	t.Parallel()
	type sizes [2]int
	for name, c := range map[string]struct {
		list []sizes
		want []int // things of each part
	}{
		"none":               {nil, nil},
		"one":                {[]sizes{{2, 10}}, []int{1}},
		"as many as fit":     {[]sizes{{2, 0}, {3, 0}, {1, 0}}, []int{2, 1}},
		"as large as fit":    {[]sizes{{1, 50}, {1, 50}, {1, 1}}, []int{2, 1}},
		"one above a limit":  {[]sizes{{1, 0}, {6, 0}, {1, 0}}, []int{1, 1, 1}},
		"all above a limit":  {[]sizes{{1, 101}, {1, 101}}, []int{1, 1}},
		"the first is large": {[]sizes{{6, 101}}, []int{1}},
	} {
		var got []int
		for _, part := range group.Parts(c.list, func(s sizes) (int, int) { return s[0], s[1] }, 5, 100) {
			got = append(got, len(part))
		}
		require.Equal(t, c.want, got, name)
	}
}
