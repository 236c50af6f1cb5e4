// Package layout changes how a cache is split into shards, one data centre after the other, so that readers never see
// an error: while the nodes of one data centre load their new shards, those of the others answer. Start from [Change];
// [Missing] lists the parts of a cache that aren't held.
package layout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/shard"
)

// Errors of Change.
var (
	// ErrAlone is returned if no other data centre could answer meanwhile.
	ErrAlone = errors.New("the cache has no other data centre that could answer while this one is split anew")
	// ErrNoDC is wrapped by the errors of data centres that the cache doesn't have.
	ErrNoDC = errors.New("the cache has no such data centre")
)

// The defaults of a Plan.
const (
	DefaultSettle = 2 * time.Second
	DefaultPoll   = 500 * time.Millisecond
)

// Plan is a new layout, and the way to apply it.
type Plan struct {
	Cache  string
	DCs    []string // which data centres, and in which order; none: all, by name
	Starts []uint64 // first sharding key of each shard
	// Settle is how long the other data centres must be complete before the next one is split: clients must have
	// discovered the locations of shards. It must be longer than a client needs for that: its PingPeriod, twice that
	// with SkipPings, or the number of hosts divided by its PingRate. Default: DefaultSettle.
	Settle time.Duration
	Poll   time.Duration // between two reads of the cache. Default: DefaultPoll.
	// Force splits data centres without waiting for the others: some shards may have no node meanwhile.
	Force bool
}

// Progress is the progress of a change.
type Progress struct {
	DC      string   `json:"dc"`
	Step    Step     `json:"step"`
	Missing []string `json:"missing,omitempty"` // the conditions that it waits for, a line each
}

// Step is a step of the change of a data centre.
type Step string

// The steps of a data centre, in their order.
const (
	Skipped Step = "skipped" // it is split so already
	Waiting Step = "waiting" // until the others are whole, and no holder of an earlier layout is left
	Changed Step = "changed" // it has the new layout
	Loading Step = "loading" // until all new shards are held and loaded
	Whole   Step = "whole"
)

// Change gives data centres a layout, one after the other: it waits until all others have been whole for a while, in
// which each of their nodes has pinged, sets the layout, and waits until the data centre is whole. It calls progress
// for each step, and when the conditions it waits for have changed. Completed steps remain if it fails or ctx ends: the
// same change can be started again, and continues there. While the storage is unavailable it waits. Errors: ErrAlone,
// ErrNoDC, those of shard.CheckStarts and of the store's; the cause of ctx.
func Change(ctx context.Context, store shard.Layouts, p Plan, progress func(Progress)) error {
	if err := shard.CheckStarts(p.Starts); err != nil {
		return err
	}
	c := &change{Plan: p, store: store, progress: progress}
	if c.Settle <= 0 {
		c.Settle = DefaultSettle
	}
	if c.Poll <= 0 {
		c.Poll = DefaultPoll
	}
	dcs, err := c.plan(ctx)
	if err != nil {
		return err
	}
	for _, dc := range dcs {
		if err := c.split(ctx, dc); err != nil {
			return fmt.Errorf("data centre %s: %w", dc, err)
		}
	}
	return nil
}

// change is a running Change.
type change struct {
	Plan
	store      shard.Layouts
	progress   func(Progress)
	last       Progress
	wholeSince time.Time // that the other data centres are; zero: they aren't, as far as is known
	pings      lastPings // of the other data centres then
}

// plan returns the data centres to split, in order.
func (c *change) plan(ctx context.Context) ([]string, error) {
	all, err := c.store.Status(ctx, c.Cache)
	if err != nil {
		return nil, err
	}
	dcs := slices.Clone(c.DCs)
	if len(dcs) == 0 {
		for _, dc := range all {
			dcs = append(dcs, dc.Name)
		}
	}
	if len(dcs) == 0 {
		return nil, fmt.Errorf("%w: no data centre of %s has a layout yet", ErrNoDC, c.Cache)
	}
	for i, name := range dcs {
		if at(all, name) < 0 {
			return nil, fmt.Errorf("%w: %s", ErrNoDC, name)
		}
		if slices.Contains(dcs[:i], name) {
			return nil, fmt.Errorf("data centre %s is named twice", name)
		}
	}
	if len(all) == 1 && !c.Force && !slices.Equal(all[0].Layout.Starts, c.Starts) {
		return nil, ErrAlone
	}
	return dcs, nil
}

func at(all []shard.DC, name string) int {
	return slices.IndexFunc(all, func(dc shard.DC) bool { return dc.Name == name })
}

// split gives one data centre the layout, and waits until it is whole.
func (c *change) split(ctx context.Context, name string) error {
	c.wholeSince = time.Time{}
	waiting := func(dc shard.DC, others []shard.DC) (done bool, err error) {
		if slices.Equal(dc.Layout.Starts, c.Starts) {
			c.report(name, Skipped, nil)
			return true, nil
		}
		missing := former(dc)
		if !c.Force {
			missing = append(missing, Missing(others)...)
		}
		if len(missing) > 0 {
			c.wholeSince = time.Time{}
			c.report(name, Waiting, missing)
			return false, nil
		}
		if c.wholeSince.IsZero() {
			c.wholeSince, c.pings = time.Now(), lastPingsOf(others)
		}
		if !c.Force && time.Since(c.wholeSince) < c.Settle {
			return false, nil
		}
		if silent := c.pings.silent(others); !c.Force && len(silent) > 0 {
			c.report(name, Waiting, silent) // until they ping, or their claims end
			return false, nil
		}
		_, err = c.store.SetLayout(ctx, c.Cache, name, dc.Layout.Generation, c.Starts)
		switch {
		case errors.Is(err, shard.ErrInUse):
			return false, nil // a node of the earlier layout is back: the next read names it
		case err == nil:
			c.report(name, Changed, nil)
		}
		return err == nil, err
	}
	if err := c.until(ctx, name, waiting); err != nil {
		return err
	}
	return c.until(ctx, name, func(dc shard.DC, _ []shard.DC) (done bool, err error) {
		if !slices.Equal(dc.Layout.Starts, c.Starts) {
			return false, shard.ErrChanged
		}
		if dc.Whole() {
			c.report(name, Whole, nil)
			return true, nil
		}
		c.report(name, Loading, Missing([]shard.DC{dc}))
		return false, nil
	})
}

// until polls the cache until look is done with a data centre.
func (c *change) until(ctx context.Context, name string, check func(dc shard.DC, others []shard.DC) (done bool,
	err error)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		done, err := c.look(ctx, name, check)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fault.ErrUnavailable):
			c.wholeSince = time.Time{}
			step := Waiting
			if c.last.DC == name {
				step = c.last.Step
			}
			c.report(name, step, []string{err.Error()})
		case err != nil || done:
			return err
		}
		timer.Reset(c.Poll)
	}
}

func (c *change) look(ctx context.Context, name string, check func(dc shard.DC, others []shard.DC) (done bool,
	err error)) (bool, error) {
	all, err := c.store.Status(ctx, c.Cache)
	if err != nil {
		return false, err
	}
	i := at(all, name)
	if i < 0 {
		return false, ErrNoDC
	}
	return check(all[i], slices.Delete(slices.Clone(all), i, i+1))
}

// report calls progress if something has changed.
func (c *change) report(dc string, step Step, missing []string) {
	now := Progress{DC: dc, Step: step, Missing: missing}
	if now.DC != c.last.DC || now.Step != c.last.Step || !slices.Equal(now.Missing, c.last.Missing) {
		c.last = now
		c.progress(now)
	}
}
