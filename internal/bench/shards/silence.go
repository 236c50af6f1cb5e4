package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
)

// silenceRounds is how often a data centre is silent.
const silenceRounds = 5

// measureSilence stops the processes of one data centre after the other, so that they answer nothing and keep their connections open,
// and compares how long Gets take with how long they take while all run.
func measureSilence(ctx context.Context, _ target.Settings, _ *target.Target, r *report.Report, all nodes) (err error) {
	c, err := startClient(ctx, all)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	paced := order{Callers: callers, For: readTime, Pace: pace}
	if _, err := c.carryOut(order{Callers: callers, For: readTime / 2, Pace: pace}); err != nil {
		return err
	}
	var with, without []time.Duration
	for round := range silenceRounds {
		one, err := c.carryOut(paced)
		if err != nil {
			return err
		}
		two, err := c.whileSilent(ctx, all.of(dcs[round%len(dcs)]), paced)
		if err != nil {
			return fmt.Errorf("a silent data centre: %w", err)
		}
		without, with = append(without, one.Took...), append(with, two.Took...)
	}
	slices.Sort(without)
	slices.Sort(with)
	ratio := float64(quantile(with, 0.99)) / float64(quantile(without, 0.99))
	r.Printf("\n%d Gets a second are measured while all nodes run, and in turns while those of a data centre are stopped: they keep their connections\n"+
		"open, and answer nothing.\n\n| nodes | Gets | p50 | p99 | of that without | goal | |\n|---|---:|---:|---:|---:|---:|---|\n", callers*int(time.Second/pace))
	r.Printf("| all run | %d | %s | %s | | | |\n", len(without), report.Millis(quantile(without, 0.5)), report.Millis(quantile(without, 0.99)))
	r.Printf("| one data centre is silent | %d | %s | %s | %.2f | ≤ %.1f | %s |\n", len(with), report.Millis(quantile(with, 0.5)), report.Millis(quantile(with, 0.99)),
		ratio, silentRatio, report.Verdict(ratio <= silentRatio))
	return nil
}

// whileSilent carries out an order while some nodes are stopped, and returns when they answer again. They are stopped for much less
// than their leases last.
func (c *clients) whileSilent(ctx context.Context, stopped nodes, o order) (result outcome, err error) {
	if err := stopped.signal(syscall.SIGSTOP); err != nil {
		return result, err
	}
	result, err = c.carryOut(o)
	if err := errors.Join(err, stopped.signal(syscall.SIGCONT)); err != nil {
		return result, err
	}
	if err := stopped.awaitReady(ctx); err != nil {
		return result, err
	}
	_, err = c.carryOut(order{Callers: callers, For: readTime / 4, Pace: pace}) // what has piled up is answered meanwhile
	return result, err
}

func (all nodes) signal(s syscall.Signal) (err error) {
	for _, n := range all {
		err = errors.Join(err, n.Signal(s))
	}
	return err
}
