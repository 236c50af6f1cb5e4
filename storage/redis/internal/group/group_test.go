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
func in(t *testing.T, test func(t *testing.T, c *calls, g *group.Group[string, string])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		g := group.New(group.Options[string, string]{Run: c.run, Size: func(s string) int { return len(s) }, Items: 3,
			Bytes: 6, Limit: time.Hour})
		test(t, c, g)
		g.Close()
	})
}

// begin starts calls of Do with items of the key "k", in order, and returns when all wait. Their errors come in order
// too.
func begin(ctx context.Context, t *testing.T, g *group.Group[string, string], items ...string) (wait func() []error) {
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
			in(t, func(t *testing.T, c *calls, g *group.Group[string, string]) {
				start := time.Now()
				require.Equal(t, make([]error, len(test.items)), begin(t.Context(), t, g, test.items...)())
				require.Equal(t, test.want, c.made)
				require.Equal(t, time.Duration(len(test.want))*time.Second, time.Since(start),
					"one call at a time, and none waits for more")
			})
		})
	}
}

func TestKeysDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, _ *calls, g *group.Group[string, string]) {
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
	in(t, func(t *testing.T, c *calls, g *group.Group[string, string]) {
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
	in(t, func(t *testing.T, c *calls, g *group.Group[string, string]) {
		ctx, leave := context.WithCancelCause(t.Context())
		left, stay := begin(ctx, t, g, "a", "b", "c"), begin(t.Context(), t, g, "d")
		leave(nil)
		var dropped []bool
		for _, err := range left() {
			require.ErrorIs(t, err, context.Canceled)
			dropped = append(dropped, errors.Is(err, group.ErrDropped))
		}
		require.Equal(t, []bool{false, true, true}, dropped, "a's call has begun")
		require.Equal(t, []error{nil}, stay())
		require.Equal(t, []string{"k:a", "k:d"}, c.made)
		_, err := g.Do(ctx, "k", "e")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, group.ErrDropped)
		require.Len(t, c.made, 2)
	})
}

// A caller waits at most for the limit and a hundredth of it more, whenever it arrives.
func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{pause: time.Hour}
		g := group.New(group.Options[string, string]{Run: c.run, Size: func(s string) int { return len(s) }, Items: 3,
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
	in(t, func(t *testing.T, c *calls, g *group.Group[string, string]) {
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
	in(t, func(t *testing.T, _ *calls, g *group.Group[string, string]) {
		wait, start := begin(t.Context(), t, g, "a", "b"), time.Now()
		g.Close()
		for _, err := range wait() {
			require.ErrorIs(t, err, context.Canceled)
		}
		_, err := g.Do(t.Context(), "k", "c")
		require.ErrorIs(t, err, group.ErrClosed)
		require.Zero(t, time.Since(start))
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
