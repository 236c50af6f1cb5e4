package layout_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/layout"
)

// fleet is a cache whose nodes claim and load new shards some time after each layout. It implements shard.Layouts.
type fleet struct {
	t       *testing.T
	dcs     []shard.DC
	started map[string]time.Time // of the layout
	load    time.Duration        // how long nodes need to claim and load, 0: they don't
	down    [2]time.Time         // between them it is unavailable
	refused error                // of SetLayout, once
	set     []string             // what was set
	silent  [2]time.Time         // between them the nodes of b, which hold their shards, don't ping
}

func newFleet(t *testing.T, shards int, names ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, started: map[string]time.Time{}, load: 5 * time.Second}
	for _, name := range names {
		l := shard.Layout{Generation: 1, Starts: shard.Even(shards)}
		f.dcs = append(f.dcs, shard.DC{Name: name, Layout: l})
		f.started[name] = time.Now().Add(-time.Hour)
	}
	return f
}

func (f *fleet) Status(context.Context, string) ([]shard.DC, error) {
	if now := time.Now(); now.After(f.down[0]) && now.Before(f.down[1]) {
		return nil, fault.ErrUnavailable
	}
	all := slices.Clone(f.dcs)
	for i, dc := range all {
		age := time.Since(f.started[dc.Name])
		all[i].Shards = make([]shard.Holder, len(dc.Layout.Starts))
		for n := range all[i].Shards {
			h := shard.Holder{Shard: n, Generation: dc.Layout.Generation, Host: "h", Address: "h:1", Pinged: time.Now()}
			if dc.Name == "b" && time.Now().Before(f.silent[1]) {
				h.Pinged = f.silent[0]
			}
			if f.load > 0 && age >= f.load/2 {
				h.Left, h.Loaded = time.Second, age >= f.load
			}
			all[i].Shards[n] = h
		}
		if age < f.load/4 {
			all[i].Former = []shard.Holder{{Host: "old", Address: "old:1", Left: time.Second}}
		}
	}
	return all, nil
}

func (f *fleet) SetLayout(_ context.Context, _, name string, generation uint64, starts []uint64) (shard.Layout, error) {
	if err := f.refused; err != nil {
		f.refused = nil
		return shard.Layout{}, err
	}
	all, _ := f.Status(f.t.Context(), "")
	for i, dc := range all {
		if dc.Name == name {
			require.Equal(f.t, dc.Layout.Generation, generation)
			f.dcs[i].Layout = shard.Layout{Generation: generation + 1, Starts: starts}
			f.started[name] = time.Now()
			f.set = append(f.set, name)
		}
	}
	for _, dc := range all {
		if dc.Name != name && !dc.Whole() {
			f.set = append(f.set, "while "+dc.Name+" isn't whole")
		}
	}
	return shard.Layout{}, nil
}

func (f *fleet) Remove(context.Context, string, string) error { return errors.New("not used") }

// run changes a cache, and returns the steps of each data centre.
func (f *fleet) run(ctx context.Context, p layout.Plan) (steps []string, err error) {
	p.Cache = "c"
	err = layout.Change(ctx, f, p, func(p layout.Progress) {
		steps = append(steps, strings.Join(append([]string{p.DC, string(p.Step)}, p.Missing...), " "))
	})
	return steps, err
}

func TestChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, "a", "b", "c")
		started := time.Now()
		steps, err := f.run(t.Context(), layout.Plan{Starts: []uint64{0, 8}, DCs: []string{"c", "a", "b"}})
		require.NoError(t, err)
		require.Equal(t, []string{"c", "a", "b"}, f.set, "one after the other, while the others are whole")
		require.Equal(t, []string{
			"c changed",
			"c loading c: shard 0 (0000000000000000-0000000000000007): no node holds it; h (h:1) was the last one c: shard 1 (0000000000000008-ffffffffffffffff): no node holds it; h (h:1) was the last one",
			"c loading c: shard 0 (0000000000000000-0000000000000007): h (h:1) hasn't loaded it yet c: shard 1 (0000000000000008-ffffffffffffffff): h (h:1) hasn't loaded it yet",
			"c whole", "a changed",
		}, steps[:5])
		require.Equal(t, "b whole", steps[len(steps)-1])
		require.GreaterOrEqual(t, time.Since(started), 3*(f.load+layout.DefaultSettle),
			"clients learn each before the next")

		steps, err = f.run(t.Context(), layout.Plan{Starts: []uint64{0, 8}})
		require.NoError(t, err)
		require.Equal(t, []string{"a skipped", "a whole", "b skipped", "b whole", "c skipped", "c whole"}, steps)
		require.Len(t, f.set, 3)
	})
}

// A change that was stopped continues at the same step.
func TestChangeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, "a", "b")
		stopped := errors.New("stopped")
		ctx, stop := context.WithTimeoutCause(t.Context(), 3*time.Second, stopped)
		defer stop()
		_, err := f.run(ctx, layout.Plan{Starts: shard.Even(3)})
		require.ErrorIs(t, err, stopped)
		require.Equal(t, []string{"a"}, f.set)
		steps, err := f.run(t.Context(), layout.Plan{Starts: shard.Even(3)})
		require.NoError(t, err)
		require.Equal(t, "a skipped", steps[0])
		require.Equal(t, []string{"a", "b"}, f.set)
	})
}

// It waits while another data centre isn't whole, and while the storage can't be reached.
func TestWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, "a", "b")
		f.started["b"] = time.Now()
		f.refused = shard.ErrInUse
		f.down = [2]time.Time{time.Now().Add(time.Second), time.Now().Add(20 * time.Second)}
		started := time.Now()
		steps, err := f.run(t.Context(), layout.Plan{Starts: shard.Even(2), DCs: []string{"a"}})
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, f.set)
		require.Equal(t, []string{
			"a waiting b: shard 0 (0000000000000000-ffffffffffffffff): no node holds it; h (h:1) was the last one",
			"a waiting " + fault.ErrUnavailable.Error(),
			"a changed",
		}, steps[:3])
		require.GreaterOrEqual(t, f.started["a"].Sub(started), 20*time.Second+layout.DefaultSettle,
			"what was known before it was unavailable doesn't count")

		f.load, f.set = 0, nil // nobody is whole any more
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_, err = f.run(ctx, layout.Plan{Starts: shard.Even(4), Force: true})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []string{"a", "while b isn't whole"}, f.set, "and the next one waits for this one")
	})
}

// A storage that is unavailable before there is anything to report is waited for, too.
func TestUnavailableAtFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, "a", "b")
		f.down = [2]time.Time{time.Now(), time.Now().Add(10 * time.Second)}
		steps, err := f.run(t.Context(), layout.Plan{Starts: shard.Even(2)})
		require.NoError(t, err)
		require.Equal(t, []string{"a waiting " + fault.ErrUnavailable.Error(), "a changed"}, steps[:2])
	})
}

// A node that has just crashed or been paused holds its shard until its claim ends, but can't be relied on.
func TestSilentNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, "a", "b")
		started := time.Now()
		f.silent = [2]time.Time{started, started.Add(time.Minute)}
		steps, err := f.run(t.Context(), layout.Plan{Starts: shard.Even(2), DCs: []string{"a"}})
		require.NoError(t, err)
		require.Equal(t, "a waiting b: h (h:1) holds shard 0, but hasn't pinged lately", steps[0])
		require.GreaterOrEqual(t, f.started["a"].Sub(started), time.Minute)
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			fleet *fleet
			plan  layout.Plan
			want  error
		}{
			{newFleet(t, 1, "a", "b"), layout.Plan{Starts: []uint64{1}}, shard.ErrLayout},
			{newFleet(t, 1, "a", "b"), layout.Plan{Starts: []uint64{0, 7, 7}}, shard.ErrLayout},
			{newFleet(t, 1, "a", "b"), layout.Plan{Starts: shard.Even(2), DCs: []string{"b", "x"}}, layout.ErrNoDC},
			{newFleet(t, 1), layout.Plan{Starts: shard.Even(2)}, layout.ErrNoDC},
			{newFleet(t, 1, "a"), layout.Plan{Starts: shard.Even(2)}, layout.ErrAlone},
		} {
			_, err := tt.fleet.run(t.Context(), tt.plan)
			require.ErrorIs(t, err, tt.want)
			require.Empty(t, tt.fleet.set)
		}
		_, err := newFleet(t, 1, "a", "b").run(t.Context(), layout.Plan{Starts: shard.Even(2), DCs: []string{"a", "a"}})
		require.EqualError(t, err, "data centre a is named twice")
		for _, f := range []*fleet{newFleet(t, 1, "a"), newFleet(t, 1, "a", "b")} {
			_, err := f.run(t.Context(), layout.Plan{Starts: shard.Even(2), Force: true})
			require.NoError(t, err)
		}
		f := newFleet(t, 1, "a", "b")
		f.refused = shard.ErrChanged
		_, err = f.run(t.Context(), layout.Plan{Starts: shard.Even(2)})
		require.ErrorIs(t, err, shard.ErrChanged)
		require.ErrorContains(t, err, "data centre a: ")
	})
}

func TestUnsettled(t *testing.T) {
	t.Parallel()
	a := shard.DC{Name: "a", Layout: shard.Layout{Generation: 2, Starts: shard.Even(2)},
		Former: []shard.Holder{{Host: "h", Address: "h:1", Shard: 3}}}
	b := shard.DC{Name: "b", Layout: shard.Layout{Generation: 7, Starts: shard.Even(1)}}
	require.Equal(t, []string{
		"a: h (h:1) still holds shard 3 of the layout before",
		"b: split otherwise than a, into 1 shards and not 2: a change isn't over",
	}, layout.Unsettled([]shard.DC{a, b}))
	require.Equal(t, []string{"x: it has no layout"}, layout.Missing([]shard.DC{{Name: "x"}}))
	require.Equal(t, []string{"b: shard 0 (0000000000000000-ffffffffffffffff): no node has claimed it yet"},
		layout.Missing([]shard.DC{{Name: "b", Layout: b.Layout, Shards: []shard.Holder{{}}}}))
}

// TestSummary: however many shards are missing, they are one sentence.
func TestSummary(t *testing.T) {
	t.Parallel()
	dc := func(name string, missing func(shard int) bool) shard.DC {
		dc := shard.DC{Name: name, Layout: shard.Layout{Generation: 1, Starts: shard.Even(64)}}
		for i := range 64 {
			h := shard.Holder{Shard: i, Left: time.Second, Loaded: true}
			if missing(i) {
				h.Left = 0
			}
			dc.Shards = append(dc.Shards, h)
		}
		return dc
	}
	whole := dc("whole", func(int) bool { return false })
	some := dc("east", func(i int) bool { return i >= 3 && i <= 14 || i == 20 })
	require.Empty(t, layout.Summary("topic", []shard.DC{whole}))
	require.Equal(t, "shards of topic without a node: 13 of 128 (in east: 3-14, 20)",
		layout.Summary("topic", []shard.DC{some, whole}))
	some.Shards[0].Loaded = false
	require.Equal(t, "shards of topic without a node: 13 of 64 (in east: 3-14, 20); shards of topic that are being loaded: "+
		"1 of 64 (in east: 0); topic has no layout in west", layout.Summary("topic", []shard.DC{some, {Name: "west"}}))
	even := dc("even", func(i int) bool { return i%2 == 0 })
	require.Equal(t, "shards of topic without a node: 32 of 64 (in even: 0, 2, 4, 6, 8, 10, 12, 14, and 24 more ranges)",
		layout.Summary("topic", []shard.DC{even}))
	require.Equal(t, "topic has no layout in any data centre: tidemark shards layout", layout.Summary("topic", nil))
}
