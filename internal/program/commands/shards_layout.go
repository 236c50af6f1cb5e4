package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/internal/program/cli"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/layout"
)

// layoutCommand is the command layout.
type layoutCommand struct {
	base
	split
	dcs    []string
	wanted []uint64
}

func newLayout(b base) *cobra.Command {
	l := &layoutCommand{base: b}
	cmd := l.prepare(&cobra.Command{
		Use:   "layout",
		Short: "Show how a cache is split into shards, or split it for the first time",
		Long: `Show how a cache is split into shards in each data centre, or, with --shards or --starts, give data
centres their first layout. Their nodes then claim the shards. All data centres of a cache are split in the same way:
tidemark shards reshard changes that.`,
		Example: `  tidemark shards layout --cache author --dc a --dc b --dc c --shards 4
  tidemark shards layout --cache author`,
	}, l.check, l.run)
	l.add(cmd)
	cmd.Flags().StringArrayVar(&l.dcs, "dc", nil, "`NAME` a data centre; repeatable")
	cmd.Flags().BoolVar(&l.json, "json", false, "print a line of JSON for each data centre: dc, generation and starts")
	return cmd
}

func (l *layoutCommand) check() (err error) {
	if l.wanted, err = l.parse(); err != nil {
		return err
	}
	if l.wanted != nil && len(l.dcs) == 0 {
		return cli.Usagef("--dc isn't set: name the data centres to split")
	}
	return l.checkNames(l.dcs)
}

func (l *layoutCommand) run(ctx context.Context, store shard.Layouts) error {
	all, err := store.Status(ctx, l.cache)
	if err != nil {
		return err
	}
	if l.wanted == nil {
		return l.print(all)
	}
	for _, dc := range all { // before anything is written
		if slices.Contains(l.dcs, dc.Name) && dc.Layout.Generation > 0 && !slices.Equal(dc.Layout.Starts, l.wanted) {
			return fmt.Errorf("data centre %s already has another layout (shards: %d): see tidemark shards reshard --help",
				dc.Name, len(dc.Layout.Starts))
		}
	}
	for _, name := range l.dcs {
		if slices.ContainsFunc(all, func(dc shard.DC) bool { return dc.Name == name && dc.Layout.Generation > 0 }) {
			continue // it is split so already
		}
		if _, err := store.SetLayout(ctx, l.cache, name, 0, l.wanted); err != nil {
			return fmt.Errorf("data centre %s: %w", name, err)
		}
	}
	if all, err = store.Status(ctx, l.cache); err != nil {
		return err
	}
	return l.print(all)
}

// print prints the layouts of all data centres, or of those that were named.
func (l *layoutCommand) print(all []shard.DC) error {
	rows := "DC\tGENERATION\tSHARD\tFIRST KEY\tLAST KEY\n"
	for _, dc := range all {
		if len(l.dcs) > 0 && !slices.Contains(l.dcs, dc.Name) {
			continue
		}
		if l.json {
			if err := cli.WriteLine(l.terminal.Stdout, layoutJSON(dc)); err != nil {
				return err
			}
			continue
		}
		for i := range dc.Layout.Starts {
			in := dc.Layout.Interval(i)
			rows += cli.Row("%s\t%d\t%d\t%016x\t%016x\n", dc.Name, dc.Layout.Generation, i, in.First, in.Last)
		}
	}
	switch {
	case len(all) == 0:
		return errNoCache(l.cache)
	case l.json:
		return nil
	}
	return cli.WriteTable(l.terminal.Stdout, rows)
}

func errNoCache(cache string) error {
	return fmt.Errorf("no data centre has a layout for the cache %s: see tidemark shards layout --help", cache)
}

// reshardCommand is the command reshard.
type reshardCommand struct {
	base
	split
	plan    layout.Plan
	timeout time.Duration
}

func newReshard(b base) *cobra.Command {
	r := &reshardCommand{base: b}
	cmd := r.prepare(&cobra.Command{
		Use:   "reshard",
		Short: "Split a cache into other shards, one data centre after the other",
		Long: `Split a cache into other shards, one data centre after the other: the others answer readers meanwhile. It
waits until all other data centres hold all their shards, gives the next one its new layout, and waits until its nodes
have loaded their new shards. A data centre needs at least as many nodes as shards: start those that are missing first.

It can be interrupted at any time, and continues when it is started again. It prints what it waits for.`,
		Example: `  tidemark shards reshard --cache author --shards 6
  tidemark shards reshard --cache author --starts 0,0x2000000000000000,0x8000000000000000 --dc b`,
	}, r.check, r.run)
	r.add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&r.plan.DCs, "dc", nil,
		"`NAME` a data centre to split, in the order in which they are named; repeatable (default all, by name)")
	flags.DurationVar(&r.plan.Settle, "settle", layout.DefaultSettle,
		"how long the others must hold all their shards before; at least twice the ping period of the clients")
	flags.BoolVar(&r.plan.Force, "force", false,
		"don't wait for other data centres: some shards may have no node meanwhile")
	flags.DurationVar(&r.timeout, "timeout", 0, "give up after this time; 0: never")
	flags.BoolVar(&r.json, "json", false, "print a line of JSON for each step: dc, step and missing")
	return cmd
}

func (r *reshardCommand) check() (err error) {
	if r.plan.Starts, err = r.parse(); err != nil {
		return err
	}
	switch {
	case r.plan.Starts == nil:
		return cli.Usagef("--shards or --starts must be set")
	case r.plan.Settle <= 0:
		return cli.Usagef("--settle: %v is too short", r.plan.Settle)
	case r.timeout < 0:
		return cli.Usagef("--timeout: %v is negative", r.timeout)
	}
	r.plan.Cache = r.cache
	return r.checkNames(r.plan.DCs)
}

func (r *reshardCommand) run(ctx context.Context, store shard.Layouts) error {
	if r.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("gave up after %v: start it again to go on",
			r.timeout))
		defer cancel()
	}
	var failed error
	err := layout.Change(ctx, store, r.plan, func(p layout.Progress) { failed = errors.Join(failed, r.print(p)) })
	switch {
	case errors.Is(err, layout.ErrNoDC) && len(r.plan.DCs) == 0:
		return errNoCache(r.cache)
	case errors.Is(err, layout.ErrAlone):
		return fmt.Errorf("%w; --force does it all the same", err)
	case errors.Is(err, shard.ErrChanged):
		return fmt.Errorf("%w: see tidemark shards status, and start it again to go on", err)
	}
	return errors.Join(err, failed)
}

// mostLines limits the printed lines of problems for a step.
const mostLines = 8

func (r *reshardCommand) print(p layout.Progress) error {
	if r.json {
		return cli.WriteLine(r.terminal.Stdout, p)
	}
	text := fmt.Sprintf("%s: %s\n", p.DC, p.Step)
	for i, line := range p.Missing {
		if i == mostLines {
			text += fmt.Sprintf("  and %d more\n", len(p.Missing)-i)
			break
		}
		text += "  " + line + "\n"
	}
	return r.printf("%s", text)
}

// removeCommand is the command remove.
type removeCommand struct {
	base
	dc string
}

func newRemove(b base) *cobra.Command {
	r := &removeCommand{base: b}
	cmd := r.prepare(&cobra.Command{
		Use:     "remove",
		Short:   "Remove a data centre that has no nodes any more",
		Long:    `Remove a data centre, and its layout, from a cache. It must not have nodes any more: stop them first.`,
		Example: `  tidemark shards remove --cache author --dc c`,
	}, r.check, r.run)
	cmd.Flags().StringVar(&r.dc, "dc", "", "`NAME` the data centre; it must be set")
	cmd.Flags().BoolVar(&r.json, cli.JSONFlag, false, "print a line of JSON: cache and dc")
	return cmd
}

func (r *removeCommand) check() error {
	if r.dc == "" {
		return cli.Usagef("--dc isn't set: name the data centre to remove")
	}
	return r.checkNames([]string{r.dc})
}

func (r *removeCommand) run(ctx context.Context, store shard.Layouts) error {
	all, err := store.Status(ctx, r.cache)
	switch {
	case err != nil:
		return err
	case !slices.ContainsFunc(all, func(dc shard.DC) bool { return dc.Name == r.dc }):
		return fmt.Errorf("the cache %s has no data centre %s", r.cache, r.dc)
	}
	err = store.Remove(ctx, r.cache, r.dc)
	if errors.Is(err, shard.ErrInUse) {
		return fmt.Errorf("%w: stop them first; tidemark shards status names them", err)
	}
	if err != nil || !r.json {
		return err
	}
	return cli.WriteLine(r.terminal.Stdout, map[string]string{"cache": r.cache, "dc": r.dc})
}
