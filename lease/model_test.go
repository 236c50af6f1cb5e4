package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/lease"
)

// weather simulates failures between processes and their store.
type weather struct {
	seed      uint64
	drift     float64 // factor by which the store's clock is faster than those of the processes
	slow      float64 // the share of requests that take seconds
	lost      float64 // the share of replies that are lost
	repeated  float64 // the share of requests that arrive a second time, later
	cut       float64 // the share of periods without any connection
	forgetful bool    // functions take some time to return after their context is canceled
}

// TestNoTwoHoldersRunAtOnce simulates processes that compete for leases, with requests that are delayed, lost or
// repeated, and a store whose clock runs at another rate.
func TestNoTwoHoldersRunAtOnce(t *testing.T) {
	t.Parallel()
	share := rapid.Float64Range(0, 0.5)
	rapid.Check(t, func(rt *rapid.T) {
		w := weather{
			seed: rapid.Uint64().Draw(rt, "seed"), drift: rapid.Float64Range(-0.05, 0.05).Draw(rt, "drift"),
			slow: share.Draw(rt, "slow"), lost: share.Draw(rt, "lost"), repeated: share.Draw(rt, "repeated"),
			cut: share.Draw(rt, "cut"), forgetful: rapid.Bool().Draw(rt, "forgetful"),
		}
		var faults []string
		synctest.Test(t, func(t *testing.T) { faults = simulate(t, w) })
		if len(faults) > 0 {
			rt.Fatal(strings.Join(faults, "\n"))
		}
	})
}

// simulate lets three processes compete for two leases for two minutes, and returns their violations.
func simulate(t *testing.T, w weather) []string {
	t.Helper()
	const processes, length = 3, 2 * time.Minute
	began := time.Now()
	random := newDice(w.seed)
	store := &memory{
		now: func() time.Time {
			return began.Add(time.Duration(float64(time.Since(began)) * (1 + w.drift)))
		},
		travel: func() (first, again time.Duration) {
			first = random.duration(20 * time.Millisecond)
			if random.is(w.slow) {
				first = random.duration(2 * ttl)
			}
			if random.is(w.repeated) {
				again = random.duration(3 * ttl)
			}
			return first, again
		},
		before: func(context.Context, string, string) error {
			if period := uint64(time.Since(began) / (ttl / 2)); newDice(w.seed ^ period).is(w.cut) {
				return errDown
			}
			return nil
		},
		after: func(context.Context, string, string) error {
			if random.is(w.lost) {
				return errDown
			}
			return nil
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	j := &judge{inside: map[string]int{}, fences: map[string]uint64{}}
	var all sync.WaitGroup
	for range processes {
		m := newManager(t, store)
		for _, name := range []string{"a", "b"} {
			all.Go(func() {
				for ctx.Err() == nil {
					err := m.Hold(ctx, name, func(ctx context.Context, fence uint64) error {
						j.enter(name, fence)
						defer j.leave(name)
						sleep(ctx, random.duration(4*ttl))
						if w.forgetful {
							<-time.After(random.duration(margin / 3))
						}
						return nil
					})
					if err != nil && !errors.Is(err, errDown) && !errors.Is(err, lease.ErrLost) &&
						!errors.Is(err, context.DeadlineExceeded) {
						j.fault("%v", err)
					}
					sleep(ctx, random.duration(ttl))
				}
			})
		}
	}
	all.Wait()
	<-time.After(10 * ttl) // for requests that are on their way
	if w == (weather{seed: w.seed}) && j.runs < 8 {
		j.fault("only %d runs while nothing went wrong", j.runs)
	}
	return j.faults
}

// judge finds functions that ran at the same time, and fences that didn't rise.
type judge struct {
	mu     sync.Mutex
	inside map[string]int
	fences map[string]uint64
	runs   int
	faults []string
}

func (j *judge) enter(name string, fence uint64) {
	j.mu.Lock()
	j.runs++
	j.inside[name]++
	inside, last := j.inside[name], j.fences[name]
	j.fences[name] = max(fence, last)
	j.mu.Unlock()
	if inside > 1 {
		j.fault("%s: %d at once", name, inside)
	}
	if fence <= last {
		j.fault("%s: the fence %d after %d", name, fence, last)
	}
}

func (j *judge) leave(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inside[name]--
}

func (j *judge) fault(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.faults = append(slices.Clip(j.faults), fmt.Sprintf(format, args...))
}

// dice is a random source for many goroutines.
type dice struct {
	mu     sync.Mutex
	random *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{random: rand.New(rand.NewPCG(seed, 1))} }

func (d *dice) is(share float64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.Float64() < share
}

func (d *dice) duration(limit time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.random.Int64N(int64(limit)))
}
