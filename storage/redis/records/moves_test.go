package records_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	kinds "github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// turn is an operation on records that is repeated with a number rising from 1. It fails if its answer, or the state
// afterwards, doesn't match the earlier turns.
type turn struct {
	name string
	do   func(ctx context.Context, n int64) error
}

// expect returns an error unless both are equal.
func expect[T comparable](what string, want, got T, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("%s: %v, not %v", what, got, want)
	}
	return err
}

// turns are the operations on each of the stores. Each of its keys has a slot to itself.
func turns(conn *redis.Conn) []turn {
	return append(counterTurns(records.NewCounters(conn)),
		turn{"settings", func(ctx context.Context, n int64) error {
			return setting(ctx, records.NewSettings(conn),
				n)
		}},
		turn{"copies", func(ctx context.Context, _ int64) error { return announcement(ctx, records.NewCopies(conn)) }})
}

func counterTurns(s *records.Counters) []turn {
	return []turn{
		{"imports", func(ctx context.Context, n int64) error {
			whole, err := s.Import(ctx, kinds.ImportPart{At: n, Total: 1, Views: map[string]int64{"imported": n}})
			if err = expect("an import", kinds.Import{Records: 1, Complete: true, Current: true}, whole,
				err); err != nil {
				return err
			}
			totals, err := s.Totals(ctx, []string{"imported"})
			if err != nil {
				return err
			}
			return expect("what was imported", n, totals[0].Migrated, nil)
		}},
		{"slugs", func(ctx context.Context, n int64) error {
			if err := s.AddSlugs(ctx, map[string]string{"slug": strconv.FormatInt(n, 10)}); err != nil {
				return err
			}
			ids, err := s.Resolve(ctx, []string{"slug"})
			if err != nil {
				return err
			}
			return expect("a slug", strconv.FormatInt(n, 10), ids[0], nil)
		}},
		{"states", func(ctx context.Context, n int64) error {
			text := strconv.FormatInt(n, 10)
			if _, err := s.States().Patch(ctx,
				kinds.StatePatch{Process: "state", ID: "1", Set: map[string]string{"n": text},
					TTL: time.Hour}); err != nil {
				return err
			}
			is, err := s.States().Get(ctx, "state", "1")
			if err = expect("a state", text, is.Fields["n"], err); err != nil {
				return err
			}
			if err := s.States().Delete(ctx, "state", "1"); err != nil {
				return err
			}
			if _, err = s.States().Get(ctx, "state", "1"); errors.Is(err, kinds.ErrNoState) {
				err = nil
			}
			return err
		}},
	}
}

func setting(ctx context.Context, s *records.Settings, n int64) error {
	p := kinds.SettingPut{Name: "setting", Value: strconv.FormatInt(n, 10), Want: kinds.Public, Usual: kinds.Secret}
	is, err := s.Put(ctx, p)
	if err = expect("a put", kinds.Public, is, err); err != nil {
		return err
	}
	found, err := s.Read(ctx, []string{p.Name})
	if err != nil {
		return err
	}
	if err := expect("a setting", kinds.StoredSetting{Exists: true, Value: p.Value, Is: kinds.Public}, found[0],
		nil); err != nil {
		return err
	}
	if err := s.Delete(ctx, p.Name); err != nil {
		return err
	}
	if found, err = s.Read(ctx, []string{p.Name}); err != nil {
		return err
	}
	return expect("a deleted setting", false, found[0].Exists, nil)
}

func announcement(ctx context.Context, s *records.Copies) error {
	if err := s.Announce(ctx, "c"); err != nil {
		return err
	}
	at, _, err := s.Age(ctx, "c")
	if err = expect("an announcement", true, at != "", err); err != nil {
		return err
	}
	if _, err := s.Settle(ctx, "c", at); err != nil {
		return err
	}
	at, _, err = s.Age(ctx, "c")
	return expect("a settled one", "", string(at), err)
}

// locking returns the turns of a lock, which has two keys of a slot. Fences rise.
func locking(conn *redis.Conn) turn {
	s, name, fence := records.NewLocks(conn), kinds.LockKind.Key("lock", "1"), uint64(0)
	return turn{"locks", func(ctx context.Context, n int64) error {
		mine := lease.Request{Name: name, Token: fmt.Sprint("mine", n), TTL: time.Minute}
		granted, err := s.Grant(ctx, mine)
		if err = expect("a higher fence", true, granted.Fence > fence, err); err != nil {
			return err
		}
		fence = granted.Fence
		other := mine
		other.Token = "another"
		if _, err := s.Grant(ctx, other); !errors.Is(err, lease.ErrHeld) {
			return fmt.Errorf("a lock that is held: %w", err)
		}
		longer, err := s.Prolong(ctx, mine)
		if err = expect("the fence", fence, longer.Fence, err); err != nil {
			return err
		}
		if err := s.Release(ctx, name, mine.Token); err != nil {
			return err
		}
		free, err := s.Show(ctx, name)
		return expect("a free lock", lease.Holding{Fence: fence}, free, err)
	}}
}

// sums are turns that add 1, twice with the same ID or number. They use several keys of a slot.
func sums(conn *redis.Conn) []turn {
	s := records.NewCounters(conn)
	series := kinds.Series{Name: "sum", Timeframe: kinds.Weekly, Fields: true}
	return []turn{
		{"changes", func(ctx context.Context, n int64) error {
			for range 2 {
				w, err := s.Change(ctx, kinds.StatsChange{Series: series, Values: map[string]int64{"n": 1},
					ID: fmt.Sprint(n), Repeat: time.Hour})
				if err = expect("a sum", n, w.Values["n"], err); err != nil {
					return err
				}
			}
			found, err := s.Range(ctx, series, time.Time{}, time.Time{})
			if err = expect("windows", 1, len(found), err); err != nil {
				return err
			}
			return expect("a window", n, found[0].Values["n"], nil)
		}},
		{"views", func(ctx context.Context, n int64) error {
			for range 2 {
				if err := s.Add(ctx, kinds.ViewFlush{Process: "p", Number: uint64(n)},
					[]kinds.ViewCount{{ID: "sum", Views: 1}})[0]; err != nil {
					return err
				}
			}
			totals, err := s.Totals(ctx, []string{"sum"})
			if err != nil {
				return err
			}
			return expect("views", n, totals[0].Counted, nil)
		}},
	}
}

// TestHalfMovedSlots: operations on one key of a slot never wait for the end of a move, and find the earlier data.
// Other tests are of operations on several keys.
func TestHalfMovedSlots(t *testing.T) {
	t.Parallel()
	c := storetest.StartTwoNodes(t)
	all := turns(c.Connect(t, redis.Options{}))
	n := int64(0)
	round := func(when string) {
		n++
		for _, turn := range all {
			require.NoError(t, turn.do(t.Context(), n), "%s, %s", turn.name, when)
		}
	}
	round("before")
	for _, tag := range []string{"4", "migrated_views_current", "migrated_views_slugs", "state", "env_vars", "setting",
		"all"} {
		move := c.OpenMove(t, tag)
		round("before the keys of " + tag)
		move.MoveKeys(t, 100)
		round("after the keys of " + tag)
		round("again, after the keys of " + tag)
		move.CloseSlot(t)
		round("after the slot of " + tag)
	}
}

// TestSwitchover: while a replica takes over, no answered operation is lost, none is done twice, and no caller gets an
// error.
func TestSwitchover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{})
	conn := storetest.Connect(t, redis.Options{URL: strings.Join(c.Addrs(), ","), Timeout: time.Minute})
	all := append(append(turns(conn), sums(conn)...), locking(conn))
	done, stop := make(chan string, 1<<20), make(chan struct{})
	var g errgroup.Group
	for _, turn := range all {
		g.Go(func() error {
			for n := int64(1); ; n++ {
				select {
				case <-stop:
					return nil
				default:
				}
				if err := turn.do(t.Context(), n); err != nil {
					return fmt.Errorf("%s, turn %d: %w", turn.name, n, err)
				}
				done <- turn.name
			}
		})
	}
	counted := func() map[string]int {
		names := map[string]int{}
		for range len(done) {
			names[<-done]++
		}
		return names
	}
	storetest.WaitFor(t, "all turns to have begun", func() bool { return len(done) > 100 })
	owned := map[*redistest.Node]bool{}
	for _, tag := range []string{"{1}", "migrated_views_current", "migrated_views_slugs", "{state}", "env_vars",
		"{setting}", "{all}", "{lock}", "{sum}"} {
		if owner := c.Owner(t, c.Slot(tag)); !owned[owner] {
			_, promoted := c.Switchover(t, c.Slot(tag))
			owned[promoted] = true
		}
	}
	counted()
	storetest.WaitFor(t, "turns after the last take-over", func() bool { return len(done) > 100 })
	close(stop)
	require.NoError(t, g.Wait())
	require.Len(t, owned, 3)
	require.Len(t, counted(), len(all), "each goes on")
}
