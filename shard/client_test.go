package shard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
)

func TestGet(t *testing.T) {
	t.Parallel()
	w := newWorld("abc", 4)
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		for _, keys := range [][]string{nil, {"0"}, ends, {"1", "1", "1"}, {"17"}} {
			got, err := c.Get(t.Context(), keys)
			require.NoError(t, err)
			require.Equal(t, valuesOf(keys...), got)
		}
		require.Len(t, w.sorted(&w.calls), 3*(1+4+1+1))
		_, err := c.Get(t.Context(), []string{"3", "1", "3"})
		require.NoError(t, err)
		require.Equal(t, []string{`a0 ["1","3","3"]`, `b0 ["1","3","3"]`, `c0 ["1","3","3"]`}, w.sorted(&w.calls))
	})
}

// A Get of more keys than a request can have sends several requests.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	inWorld(t, newWorld("ab", 1), shard.ClientOptions{}, func(t *testing.T, c *client) {
		keys := make([]string, 2*shard.MaxKeys+1)
		for i := range keys {
			keys[i] = strconv.Itoa(i)
		}
		got, err := c.Get(t.Context(), keys)
		require.NoError(t, err)
		require.Equal(t, valuesOf(keys...), got)
	})
}

// Of three replicas, one is slow, one is down, and one answers at once.
func TestFirstAnswerWins(t *testing.T) {
	t.Parallel()
	w := newWorld("abc", 2)
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		w.set(func(p *peer) { p.err = shard.ErrUnavailable }, "b0", "b1")
		w.set(func(p *peer) { p.delay = 100 * time.Millisecond }, "a0", "a1")
		start := time.Now()
		got, err := c.Get(t.Context(), ends)
		require.NoError(t, err)
		require.Equal(t, valuesOf(ends...), got)
		require.Zero(t, time.Since(start))
		wait(500 * time.Millisecond)
		require.Equal(t, []string{
			"failed b0: the node can't be reached", "failed b1: the node can't be reached", "first c0 0s",
			"first c1 0s", "late a0", "late a1",
		}, slices.Compact(w.sorted(&w.seen)))
	})
}

// The answer of a host updates the map even if it arrives when it is no longer needed.
func TestLateAnswersTeach(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 2)
	inWorld(t, w, shard.ClientOptions{PingPeriod: time.Hour}, func(t *testing.T, c *client) {
		w.set(func(p *peer) { p.delay, p.interval = 100*time.Millisecond, shard.All }, "a0")
		ctx, cancel := context.WithCancel(t.Context())
		_, err := c.Get(ctx, []string{"0"})
		require.NoError(t, err)
		cancel() // as callers do
		wait(200 * time.Millisecond)
		w.set(func(p *peer) { p.delay = 0 }, "a0")
		w.sorted(&w.calls)
		_, err = c.Get(t.Context(), ends[5:])
		require.NoError(t, err)
		require.Len(t, w.sorted(&w.calls), 3)
	})
}

// Calls are repeated per host, after time-outs and while it can't be reached, but not after an answer.
func TestRetries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		retries, calls int
		change         func(*peer)
	}{
		"unreachable":       {0, 2, func(p *peer) { p.err = fmt.Errorf("dial: %w", shard.ErrUnavailable) }},
		"never":             {-1, 1, func(p *peer) { p.err = shard.ErrUnavailable }},
		"three times":       {3, 4, func(p *peer) { p.err = shard.ErrUnavailable }},
		"hangs":             {0, 2, func(p *peer) { p.delay = time.Hour }},
		"not matched":       {0, 1, func(p *peer) { p.interval = shard.Interval{First: 100, Last: 200} }},
		"no shard any more": {0, 1, func(p *peer) { p.answer = func(a *shard.Response) { *a = shard.Response{} } }},
		"other cache":       {0, 1, func(p *peer) { p.err = shard.ErrOtherCache }},
		"undecodable":       {0, 1, func(p *peer) { p.err = shard.ErrUndecodable }},
		"refused":           {0, 1, func(p *peer) { p.err = errors.New("no token") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld("ab", 1)
			inWorld(t, w, shard.ClientOptions{Retries: test.retries, PingPeriod: time.Hour},
				func(t *testing.T, c *client) {
					w.set(test.change, "a0")
					w.set(func(p *peer) { p.delay, p.err = 900*time.Millisecond, shard.ErrOtherCache }, "b0")
					_, err := c.Get(t.Context(), ends)
					require.Error(t, err)
					require.Len(t, w.sorted(&w.calls), test.calls+1)
				})
		})
	}
}

// A key that has an answer isn't requested again, even while other keys wait.
func TestNoRetryAfterAnAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 2)
	w.set(func(p *peer) { p.err = shard.ErrUnavailable }, "a1", "b1")
	inWorld(t, w, shard.ClientOptions{PingPeriod: time.Hour}, func(t *testing.T, c *client) {
		w.set(func(p *peer) { p.delay = time.Hour }, "a0")
		_, err := c.Get(t.Context(), ends[:1])
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = c.Get(ctx, ends)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, w.sorted(&w.calls), 4)
	})
}

// Keys that no host has wait for one, while the others are asked.
func TestKeysWithoutShard(t *testing.T) {
	t.Parallel()
	w := newWorld("a", 2)
	w.set(func(p *peer) { p.err = shard.ErrUnavailable }, "a1")
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		got, err := c.Get(ctx, ends)
		require.Equal(t, 10*time.Second, time.Since(start))
		require.Equal(t, valuesOf(ends[:4]...), got)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err,
			"shard: no answer for 2 of 6 keys: context deadline exceeded: keys 9223372036854775808, "+
				"18446744073709551615; no host has the shard of 2 of them")

		time.AfterFunc(2500*time.Millisecond, func() { w.set(func(p *peer) { p.err = nil }, "a1") })
		got, err = c.Get(t.Context(), ends)
		require.NoError(t, err)
		require.Equal(t, valuesOf(ends...), got)
		require.Equal(t, 13*time.Second, time.Since(start)) // with the next ping
		require.Len(t, w.sorted(&w.calls), 3)
		require.Contains(t, w.sorted(&w.seen), "no shard 2")
	})
}

// If the last call for some keys fails, the Get fails: it doesn't wait for the shards of other keys.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 3)
	w.set(func(p *peer) { p.err = shard.ErrUnavailable }, "a2", "b2")
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		w.set(func(p *peer) { p.err = shard.ErrUnavailable }, "a1")
		w.set(func(p *peer) { p.delay = time.Hour }, "b1")
		got, err := c.Get(t.Context(), ends)
		require.Equal(t, valuesOf(ends[:3]...), got)
		failed, ok := errors.AsType[*shard.UnansweredError[string]](err)
		require.True(t, ok)
		require.Equal(t, ends[3:], failed.Keys)
		require.EqualError(t, err,
			"shard: no answer for 3 of 6 keys: keys 9223372036854775807, 9223372036854775808, 18446744073709551615; "+
				"no host has the shard of 1 of them; a=a1: the node can't be reached; "+
				"b=b1: no answer within the time-out of 1s")
	})
}

// The text of an error is bounded. Its fields have everything.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	w := newWorld("abcdefghijklmnopqrstuvwxyzABCDEFGH", 1)
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		for address := range w.nodes {
			w.set(func(p *peer) { p.err = errors.New(strings.Repeat("no", 1000)) }, address)
		}
		keys := make([]string, 100)
		for i := range keys {
			keys[i] = strings.Repeat("0", 1000) + strconv.Itoa(i)
		}
		_, err := c.Get(t.Context(), keys)
		failed, ok := errors.AsType[*shard.UnansweredError[string]](err)
		require.True(t, ok)
		require.Len(t, failed.Keys, 100)
		require.Len(t, failed.Hosts, 34)
		require.Less(t, len(err.Error()), 9000)
		require.Contains(t, err.Error(), "and 76 more")
	})
}

// A Get whose context ends returns at once with the values that it has, and abandons its calls.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 2)
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		w.set(func(p *peer) { p.delay = time.Hour }, "a1", "b1")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		got, err := c.Get(ctx, ends)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "a=a1: no answer yet; b=b1: no answer yet")
		require.Equal(t, valuesOf(ends[:4]...), got)
		seen := w.sorted(&w.seen)
		require.Subset(t, seen, []string{"given up a1", "given up b1"})
		require.NotContains(t, strings.Join(seen, " "), "failed")
		w.sorted(&w.calls)

		_, err = c.Get(ctx, ends) // ended already
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, err.Error(), "no host has")
		require.Empty(t, w.sorted(&w.calls))
	})
}

// A Get waits until Run has begun, and fails after Run has ended.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("ab", 1)
		c, err := shard.NewClient(numbers(), shard.ClientOptions{Hosts: w, Transport: w})
		require.NoError(t, err)
		got := make(chan error, 1)
		get := func() {
			_, err := c.Get(t.Context(), []string{"1"})
			got <- err
		}
		go get()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		require.NoError(t, <-got)
		require.Error(t, c.Run(ctx)) // twice

		w.set(func(p *peer) { p.delay = time.Hour }, "a0")
		go get()
		require.NoError(t, <-got) // with a late call
		w.set(func(p *peer) { p.delay = time.Hour }, "b0")
		go get()
		synctest.Wait()
		start := time.Now()
		stop()
		require.NoError(t, <-ended)
		require.Zero(t, time.Since(start))
		require.ErrorIs(t, <-got, shard.ErrNotRunning)
		_, err = c.Get(t.Context(), []string{"1"})
		require.EqualError(t, err, "shard: no answer for 1 of 1 keys: the client isn't running any more: keys 1")
		require.ErrorIs(t, err, shard.ErrNotRunning)
	})
}

// Run returns once all calls and pings have.
func TestRunWaits(t *testing.T) {
	t.Parallel()
	for _, linger := range [][2]time.Duration{{time.Second, 0}, {0, time.Second}} {
		w := newWorld("ab", 1)
		inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
			w.set(func(p *peer) { p.delay, p.linger = time.Hour, linger }, "b0")
			_, err := c.Get(t.Context(), ends)
			require.NoError(t, err)
			wait(1500 * time.Millisecond)
			require.NotZero(t, w.busy.Load()) // inWorld checks that nothing is left
		})
	}
}

// Nodes that are set up wrong are logged, once, those that are just down aren't.
func TestWrongHosts(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 1)
	w.set(func(p *peer) { p.err = shard.ErrOtherCache }, "a0")
	w.set(func(p *peer) { p.err = shard.ErrUnavailable }, "b0")
	var log strings.Builder
	inWorld(t, w, shard.ClientOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, c *client) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := c.Get(ctx, ends)
		// whatever shard the node of another cache reports
		require.ErrorContains(t, err, "no host has the shard of 6 of them")
		w.set(func(p *peer) { p.err = nil }, "a0")
		wait(10 * time.Second)
	})
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0],
		`a shard host can't be used" cache=numbers host=a0 dc=a error="the node serves another cache"`)
	require.Contains(t, lines[1], `can be used again`)
}

// An invalid answer counts as none: another answer is used, and the host is named.
func TestBadAnswers(t *testing.T) {
	t.Parallel()
	entries := func(text string) func(*shard.Response) {
		return func(a *shard.Response) { a.Payload = []byte(text) }
	}
	for said, change := range map[string]func(*peer){
		"bad answer: its shard begins at 0000000000000009, after its end at 0000000000000008": func(
			p *peer) {
			p.interval = shard.Interval{First: 9, Last: 8}
		},
		"bad answer: it has values, and no shard": func(
			p *peer) {
			p.answer = func(a *shard.Response) { a.Assigned = false }
		},
		"bad answer: it has values of keys outside of its shard": func(
			p *peer) {
			p.answer = func(a *shard.Response) { a.Shard.First = 1 }
		},
		"bad answer: its values can't be decoded": func(
			p *peer) {
			p.answer = entries(strings.Repeat("[", 1<<20))
		},
		"bad answer: its values can't be decoded: unexpected end": func(
			p *peer) {
			p.answer = entries("")
		},
		"bad answer: it has values that weren't asked for": func(
			p *peer) {
			p.answer = entries(`[{"ID":"1","Value":"x"},{"ID":"2","Value":"y"}]`)
		},
		"bad answer: it has 7 values for 6 keys": func(
			p *peer) {
			p.answer = entries("[" + strings.Repeat(`{"ID":"1"},`, 6) + `{"ID":"1"}]`)
		},
		"the node doesn't have the shard of all keys": func(
			p *peer) {
			p.interval.Last = 0
		},
		"the node serves another cache": func(
			p *peer) {
			p.err = shard.ErrOtherCache
		},
		"the keys can't be decoded": func(
			p *peer) {
			p.err = shard.ErrUndecodable
		},
	} {
		for _, bad := range [][]string{{"a0"}, {"a0", "b0"}} {
			t.Run(fmt.Sprint(said, bad), func(t *testing.T) {
				t.Parallel()
				w := newWorld("ab", 1)
				inWorld(t, w, shard.ClientOptions{PingPeriod: time.Hour}, func(t *testing.T, c *client) {
					w.set(func(p *peer) { p.delay = time.Millisecond }, "b0")
					w.set(change, bad...)
					got, err := c.Get(t.Context(), ends)
					require.Contains(t, strings.Join(w.sorted(&w.seen), "\n"), "failed a0: "+said)
					if len(bad) == 1 {
						require.NoError(t, err)
						require.Equal(t, valuesOf(ends...), got)
						return
					}
					require.ErrorContains(t, err, "no answer for 6 of 6 keys")
					require.ErrorContains(t, err, "a=a0: "+said)
					require.ErrorContains(t, err, "b=b0: "+said)
				})
			})
		}
	}
}
