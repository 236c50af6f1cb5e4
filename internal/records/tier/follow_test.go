package tier_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
)

// maxMessages is more than a node fetches at once.
const maxMessages = 101

// settled is the time after an announcement after which its write, and its effects on a node, have ended.
const settled = tier.MaxWrite + 5*time.Second

// However writers change values while a node loads and follows, and wherever they die, the node finally has Redis's
// values of its interval.
func TestFollows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r := newRedis()
			r.rand = rand.New(rand.NewPCG(seed, 0))
			ids := make([]string, 12)
			for i := range ids {
				ids[i] = strconv.Itoa(i)
				r.set(ids[i], "old", 0)
			}
			var writers sync.WaitGroup
			for w := range 4 {
				writers.Go(func() { r.writer(t, w, ids) })
			}
			in := shard.Interval{First: 1 << 62, Last: 3 << 62}
			n := startNode(t, sourceOf(r, tier.SourceOptions{Reload: time.Minute / 2}), in)
			writers.Wait()
			pass(settled)
			want := map[string]string{}
			for _, id := range ids {
				if value, _, ok := r.get(id); ok && in.Contains(shard.HashString(id)) {
					want[id] = value
				}
			}
			require.NoError(t, n.err())
			require.Equal(t, want, n.get(t, ids...), seed)
			require.EqualValues(t, len(want), n.Stats().Entries)
			require.Zero(t, n.Stats().Behind)
			n.stop()
		})
	}
}

// writer writes values and removes some. It dies occasionally, before or after its write, and is replaced by another.
func (r *redis) writer(t *testing.T, name int, ids []string) {
	t.Helper()
	chance := func(n int) int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.rand.IntN(n)
	}
	for i := range 20 {
		r.delay(4 * time.Second)
		c := tier.Change{Write: fmt.Sprint(name, ".", i), IDs: []string{ids[chance(len(ids))], ids[chance(len(ids))]}}
		r.announce(t, c)
		r.delay(tier.MaxWrite / 3)
		if chance(5) == 0 {
			continue
		}
		for _, id := range c.IDs {
			value := c.Write
			if chance(3) == 0 {
				value = ""
			}
			r.set(id, value, 0)
		}
		r.delay(time.Second)
		if c.Over = true; chance(5) > 0 {
			r.announce(t, c)
		}
	}
}

// Possibly missed announcements end the run.
func TestGaps(t *testing.T) {
	t.Parallel()
	for name, happen := range map[string]func(r *redis){
		"expired messages":     func(r *redis) { r.gap = 1 },
		"no subscriber":        func(r *redis) { r.fail = channel.ErrNoSubscriber },
		"another epoch":        func(r *redis) { r.fail = channel.ErrReceiptEpoch },
		"another life":         func(r *redis) { r.life = "2" },
		"a defect, not a wait": func(r *redis) { r.fail = errors.New("wrong") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRedis()
			run(t, r, tier.SourceOptions{}, func(t *testing.T, n *node) {
				pass(time.Second)
				require.NoError(t, n.err())
				r.mu.Lock()
				happen(r)
				r.mu.Unlock()
				pass(30 * time.Second)
				require.Error(t, n.err())
				require.Equal(t, name != "a defect, not a wait", errors.Is(n.err(), tier.ErrGap))
			})
		})
	}
}

// A write that was announced before a node subscribed, and whose writer crashes, may be executed after the node has
// loaded the value.
func TestEarlierAnnouncement(t *testing.T) {
	t.Parallel()
	r := newRedis()
	r.announce(t, tier.Change{Write: "w", IDs: []string{"1"}})
	run(t, r, tier.SourceOptions{}, func(t *testing.T, n *node) {
		pass(time.Second)
		require.Empty(t, n.get(t, "1"))
		r.set("1", "x", 0)
		pass(settled)
		require.Equal(t, map[string]string{"1": "x"}, n.get(t, "1"))
	})
}

// Announcements don't wait for a slow load.
func TestManyAnnouncementsWhileLoading(t *testing.T) {
	t.Parallel()
	r := newRedis()
	for i := range 2000 {
		r.set(strconv.Itoa(i%50), "x", 0)
		r.announce(t, tier.Change{Write: "w", IDs: []string{"1"}, Over: true})
	}
	run(t, r, tier.SourceOptions{Rate: 1}, func(t *testing.T, n *node) {
		pass(2 * time.Second)
		require.Less(t, n.Stats().Entries, int64(10), "most of them aren't loaded yet")
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Equal(t, 2000, r.acked)
	})
}

// Values that change during a slow load are up to date.
func TestChangesWhileLoadingSlowly(t *testing.T) {
	t.Parallel()
	r := newRedis()
	run(t, r, tier.SourceOptions{Rate: 1, Reload: time.Minute}, func(t *testing.T, n *node) {
		pass(time.Second)
		for i := range 100 {
			r.set(strconv.Itoa(i), "old", 0)
		}
		pass(time.Minute + time.Second) // it loads again, one value a second
		for i := range 5 {
			r.set("7", fmt.Sprint(i), 0)
			r.announce(t, tier.Change{Write: "w", IDs: []string{"7"}, Over: true})
			pass(time.Millisecond)
			require.Equal(t, map[string]string{"7": fmt.Sprint(i)}, n.get(t, "7"))
			pass(time.Second / 3)
		}
	})
}

// A node that gets another shard drops the values of its former shard while it loads.
func TestAnotherInterval(t *testing.T) {
	t.Parallel()
	r := newRedis()
	r.set("1", "x", 0)
	r.set("2", "x", 0)
	run(t, r, tier.SourceOptions{Rate: 1}, func(t *testing.T, n *node) {
		pass(settled)
		require.EqualValues(t, 2, n.Stats().Entries)
		n.stop()
		same := startNode(t, n.Source, n.in)
		pass(time.Second / 2)
		require.EqualValues(t, 2, n.Stats().Entries, "they are still answered")
		same.stop()
		other := startNode(t, n.Source, shard.Interval{First: 1, Last: 1 << 63})
		pass(time.Second / 2)
		require.Less(t, n.Stats().Entries, int64(2))
		other.stop()
	})
}

// After a fail-over, in which an announcement may have been lost, values are loaded when its write has ended.
func TestAnnouncementLostInFailover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRedis()
		s := sourceOf(r, tier.SourceOptions{})
		startNode(t, s, shard.All).stop()
		r.life = "2"
		again := startNode(t, s, shard.All)
		pass(time.Second)
		again.stop()
		n := startNode(t, s, shard.All)
		pass(tier.MaxWrite - 2*time.Second)
		r.set("1", "written by one that died", 0)
		pass(settled)
		require.Equal(t, map[string]string{"1": "written by one that died"}, n.get(t, "1"))
		n.stop()
	})
}

// The end of a value is that in Redis, although it isn't announced.
func TestTTL(t *testing.T) {
	t.Parallel()
	r := newRedis()
	run(t, r, tier.SourceOptions{}, func(t *testing.T, n *node) {
		r.set("1", "x", time.Minute)
		r.announce(t, tier.Change{Write: "w", IDs: []string{"1"}, Over: true})
		pass(time.Minute - time.Second)
		require.Len(t, n.get(t, "1"), 1)
		pass(2 * time.Second)
		require.Empty(t, n.get(t, "1"))
		pass(2 * time.Minute)
		require.Zero(t, n.Stats().Entries, "it takes no memory any more")
	})
}

// Writes of other programs, which aren't announced, are found by the next full load. A malformed announcement triggers
// that at once.
func TestReload(t *testing.T) {
	t.Parallel()
	r := newRedis()
	r.set("1", "old", 0)
	r.set("2", "gone", 0)
	run(t, r, tier.SourceOptions{}, func(t *testing.T, n *node) {
		pass(time.Second)
		r.set("1", "new", 0)
		r.set("2", "", 0)
		pass(tier.DefaultReload * 8 / 10)
		require.Equal(t, map[string]string{"1": "old", "2": "gone"}, n.get(t, "1", "2"))
		pass(tier.DefaultReload * 2 / 10)
		require.Equal(t, map[string]string{"1": "new"}, n.get(t, "1", "2"))
		r.set("1", "newer", 0)
		r.publish(`{"changes":`)
		pass(time.Second)
		require.Equal(t, map[string]string{"1": "newer"}, n.get(t, "1", "2"))
		require.Equal(t, 3, r.walks)
	})
}

// While Redis is unreachable the node keeps its values, and later applies the missed changes.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	r := newRedis()
	run(t, r, tier.SourceOptions{}, func(t *testing.T, n *node) {
		pass(time.Second)
		r.set("1", "x", 0)
		r.fail = fault.ErrUnavailable
		r.announce(t, tier.Change{Write: "w", IDs: []string{"1"}, Over: true})
		pass(time.Second)
		require.NoError(t, n.err())
		require.Equal(t, map[string]string{"1": "x"}, n.get(t, "1"))
		require.Equal(t, 1, r.walks)
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Equal(t, 1, r.acked)
	})
}

// A refresh returns when the node has all earlier changes, although its waits don't notice messages.
func TestRefresh(t *testing.T) {
	t.Parallel()
	r := newRedis()
	r.deaf = true
	run(t, r, tier.SourceOptions{}, func(t *testing.T, n *node) {
		pass(time.Second)
		for i := range 10 {
			value := fmt.Sprint("v", i)
			synctest.Wait() // the follower waits again
			r.set("1", value, 0)
			for range 1 + i%2*maxMessages {
				r.announce(t, tier.Change{Write: "w", IDs: []string{"1"}, Over: true})
			}
			require.NotEqual(t, value, n.get(t, "1")["1"])
			require.NoError(t, n.Refresh(t.Context()))
			require.Equal(t, value, n.get(t, "1")["1"])
		}
		require.Equal(t, 1, r.walks)
	})
}

// A refresh also interrupts the pause after an error, and waits while Redis can't be reached.
func TestRefreshAfterAnOutage(t *testing.T) {
	t.Parallel()
	r := newRedis()
	run(t, r, tier.SourceOptions{}, func(t *testing.T, n *node) {
		pass(time.Second)
		r.set("1", "x", 0)
		r.deaf = true
		r.announce(t, tier.Change{Write: "w", IDs: []string{"1"}, Over: true})
		r.reach(fault.ErrUnavailable)
		refreshed := make(chan error, 1)
		go func() { refreshed <- n.Refresh(t.Context()) }()
		pass(time.Minute)
		require.Empty(t, refreshed)
		r.reach(nil)
		again := make(chan error, 1)
		go func() { again <- n.Refresh(t.Context()) }()
		pass(time.Millisecond)
		require.NoError(t, <-again, "it doesn't wait for the pause to end")
		require.NoError(t, <-refreshed)
		require.Equal(t, map[string]string{"1": "x"}, n.get(t, "1"))
		require.Equal(t, 1, r.walks)
	})
}

// If announcements may have been missed, a refresh returns when everything was loaded again.
func TestRefreshAfterAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRedis()
		r.set("1", "old", 0)
		s := sourceOf(r, tier.SourceOptions{})
		n := startNode(t, s, shard.All)
		pass(time.Second)
		r.set("1", "new", 0)
		r.lose(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, s.Refresh(ctx), context.DeadlineExceeded)
		require.ErrorIs(t, n.err(), tier.ErrGap)
		r.lose(0)
		refreshed := make(chan error, 1)
		go func() { refreshed <- s.Refresh(t.Context()) }()
		synctest.Wait()
		require.Empty(t, refreshed)
		again := startNode(t, s, shard.All)
		require.NoError(t, <-refreshed)
		require.Equal(t, map[string]string{"1": "new"}, again.get(t, "1"))
		require.Equal(t, 2, r.walks)
		again.stop()
	})
}

// A node's memory and its answers are bounded. Left-out values never appear as outdated ones.
func TestBounds(t *testing.T) {
	t.Parallel()
	r := newRedis()
	run(t, r, tier.SourceOptions{MaxBytes: 10 << 20}, func(t *testing.T, n *node) {
		pass(time.Second)
		large := strings.Repeat("x", 1<<20)
		var ids []string
		for i := range 12 {
			ids = append(ids, strconv.Itoa(i))
			r.set(ids[i], large, 0)
		}
		for _, no := range []string{"", strings.Repeat("x", records.MaxQueryBytes+1), "\n"} {
			ids = append(ids, no)
			r.set(no, "x", 0)
		}
		r.announce(t, tier.Change{Write: "w", IDs: ids, Over: true})
		pass(time.Second)
		require.EqualValues(t, 9, n.Stats().Entries)
		require.EqualValues(t, 3, n.Stats().LeftOut)
		pass(tier.DefaultReload)
		require.EqualValues(t, 3, n.Stats().LeftOut, "also after another load")
		require.Len(t, n.get(t, ids...), 8)
	})
}
