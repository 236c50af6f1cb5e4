// Package shards measures the sharded read tier: nodes as processes of their own, and clients in one more.
package shards

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
)

// What reading through nodes may cost, from the project's goals.
const (
	keysPerCore  = 100_000 // a second, of the client's CPU time
	silentRatio  = 1.5     // of the p99 while a data centre is silent to that while none is
	bytesOfEntry = 64      // above key and value
)

// How much is measured.
const (
	entries  = 100_000
	perDC    = 4 // shards
	callers  = 4
	pace     = 20 * time.Millisecond // of each caller while the time of a Get is measured
	readTime = 2 * time.Second       // of one round
)

var dcs = []string{"a", "b", "c"}

// Measure measures the sharded read tier.
func Measure(ctx context.Context, s target.Settings, r *report.Report) error {
	u, err := target.Start(ctx, s.Binary, "--matchmaking", "off")
	if err != nil {
		return err
	}
	defer u.Stop()
	if err := fill(ctx, u, entries); err != nil {
		return err
	}
	r.Printf("\n## Shards\n\n%d entries of %d bytes in %d shards, each in %d data centres: a process a node, and the clients in one more, all on the cores\n"+
		"of this machine. A Get has %d keys and asks the three nodes of each shard, %d in all; the first answers count.\n\n", entries, len(value), perDC, len(dcs),
		keysOfGet, perDC*len(dcs))
	for _, measure := range []func(context.Context, target.Settings, *target.Target, *report.Report) error{
		measureTier, measureGrowth, measureMemory,
	} {
		if err := measure(ctx, s, u, r); err != nil {
			return err
		}
	}
	return nil
}

// measureTier measures Gets, and pings, of three data centres.
func measureTier(ctx context.Context, s target.Settings, u *target.Target, r *report.Report) error {
	var all nodes
	defer func() { all.end() }()
	for _, dc := range dcs {
		started, err := start(ctx, u, dc, perDC)
		if err != nil {
			return err
		}
		all = append(all, started...)
	}
	if err := all.awaitReady(ctx); err != nil {
		return err
	}
	for _, measure := range []func(context.Context, target.Settings, *target.Target, *report.Report, nodes) error{
		measureGets, measureSilence, measurePings,
	} {
		if err := measure(ctx, s, u, r, all); err != nil {
			return err
		}
	}
	return nil
}
