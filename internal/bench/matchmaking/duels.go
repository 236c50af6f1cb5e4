// Package matchmaking measures how fast tickets are matched, and what they cost.
package matchmaking

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
)

// duel is a load of players who look for one opponent, and what is to be reached, from the project's goals. 0: no goal.
type duel struct {
	players       int
	alone         bool    // each has a connection of its own
	offered       float64 // tickets a second; 0: each player begins again at once
	perSecond     float64
	share         float64 // of the rate of bare handlers
	p50, p99      time.Duration
	server, redis time.Duration // CPU time per ticket
	calls         float64       // of Redis per ticket
}

func duelLoads() []duel {
	return []duel{
		{players: 64, perSecond: 5000, share: 0.5, p50: 10 * time.Millisecond, calls: 6},
		{players: 256},
		{players: 1024, perSecond: 9000, share: 0.5, p99: 250 * time.Millisecond, server: 100 * time.Microsecond, redis: 80 * time.Microsecond, calls: 3},
		{players: 64, alone: true, perSecond: 5000, share: 0.5, p50: 10 * time.Millisecond, calls: 6},
		{players: 1024, alone: true, perSecond: 9000, share: 0.5, p99: 250 * time.Millisecond, calls: 3},
		{offered: 100, server: time.Millisecond, redis: 300 * time.Microsecond},
	}
}

// rounds is how often each load is measured. The round with the median rate is reported.
const rounds = 3

// How long a load lasts. It warms up until creates wait for assignments that are still to be published.
const (
	warmup     = 2 * time.Second
	window     = 4 * time.Second
	bareWarmup = time.Second
	bareWindow = 2 * time.Second
)

// duels is what was measured of a load.
type duels struct {
	load.Matched
	usage usage // per ticket
	bare  load.Matched
	idle  time.Duration // CPU time of bare handlers per ticket
}

func (d duel) String() string {
	if d.offered > 0 {
		return fmt.Sprintf("%.0f/s offered", d.offered)
	}
	if d.alone {
		return fmt.Sprintf("%d, a connection each", d.players)
	}
	return fmt.Sprint(d.players)
}

// Duels measures players who look for one opponent, again and again.
func Duels(ctx context.Context, s target.Settings, r *report.Report) error {
	var measured []duels
	loads := duelLoads()
	for _, load := range loads {
		var found []duels
		for range rounds {
			d, err := load.run(ctx, s)
			if err != nil {
				return fmt.Errorf("%s players: %w", load, err)
			}
			report.Progress("%s players: %.0f tickets/s, p50 %s, p99 %s, server %s, Redis %s, %.2f calls; bare %.0f/s", load,
				d.PerSecond(), d.Quantile(0.5), d.Quantile(0.99), d.usage.server, d.usage.redis, d.usage.calls(), d.bare.PerSecond())
			found = append(found, d)
		}
		slices.SortFunc(found, func(a, b duels) int { return cmp.Compare(a.PerSecond(), b.PerSecond()) })
		measured = append(measured, found[len(found)/2])
	}
	r.Printf("\n## Matchmaking\n\nPlayers look for one opponent on a first-come queue, over gRPC: each creates a ticket, waits on WatchAssignments, and\n" +
		"begins again at once. Up to 128 share a connection, unless the row says otherwise. Times are from the call that creates the\n" +
		"ticket to its assignment. The load is on the same cores, by grpc-go, as are bare handlers in the same run: they store\n" +
		"nothing, match nothing, and answer at once. Each row is the round with the median rate, of three.\n\n" +
		"| players | tickets/s | goal | bare handlers | share | goal | p50 | goal | p99 | goal | |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n")
	for i, d := range measured {
		goal := loads[i]
		share := d.PerSecond() / d.bare.PerSecond()
		good := d.PerSecond() >= goal.perSecond && share >= goal.share && within(d.Quantile(0.5), goal.p50) && within(d.Quantile(0.99), goal.p99)
		r.Printf("| %s | %.0f | %s | %.0f/s | %.2f | %s | %s | %s | %s | %s | %s |\n", goal, d.PerSecond(), report.AtLeast(goal.perSecond),
			d.bare.PerSecond(), share, report.AtLeast(goal.share), report.Millis(d.Quantile(0.5)), report.AtMost(goal.p50),
			report.Millis(d.Quantile(0.99)), report.AtMost(goal.p99), report.Verdict(good))
	}
	writeCosts(r, loads, measured)
	return nil
}

func writeCosts(r *report.Report, loads []duel, measured []duels) {
	r.Printf("\nWhat a ticket costs: CPU time, also of the load and of bare handlers, and commands that Redis was sent. The cheaper the load\n" +
		"is, the higher is the rate of bare handlers, which have the rest of the cores.\n\n" +
		"| players | server | goal | Redis | goal | load | bare handlers | calls | goal | of these | |\n" +
		"|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---|\n")
	for i, d := range measured {
		goal := loads[i]
		good := within(d.usage.server, goal.server) && within(d.usage.redis, goal.redis) && (goal.calls == 0 || d.usage.calls() <= goal.calls)
		r.Printf("| %s | %s | %s | %s | %s | %s | %s | %.2f | %s | %s | %s |\n", goal, report.Micros(d.usage.server), report.AtMostMicros(goal.server),
			report.Micros(d.usage.redis), report.AtMostMicros(goal.redis), report.Micros(d.usage.load), report.Micros(d.idle),
			d.usage.calls(), report.AtMostNumber(goal.calls), d.usage.kinds(), report.Verdict(good))
	}
}

// within reports whether a time reaches a goal. 0 is no goal.
func within(d, goal time.Duration) bool { return goal == 0 || d <= goal }

// run measures the load once, on the service and on bare handlers.
func (d duel) run(ctx context.Context, s target.Settings) (found duels, err error) {
	u, err := target.Start(ctx, s.Binary)
	if err != nil {
		return found, err
	}
	defer u.Stop()
	meter := meter{target: u}
	if found.Matched, err = d.load(u.Server.Frontend, warmup, window).Run(ctx, func() error { return meter.read(ctx) }); err != nil {
		return found, err
	}
	found.usage = meter.perTicket(len(found.Took))
	var cpu []time.Duration
	found.bare, err = d.load(u.Floor.Frontend, bareWarmup, bareWindow).Run(ctx, func() error {
		used, err := u.Floor.CPU()
		cpu = append(cpu, used)
		return err
	})
	if err == nil {
		found.idle = (cpu[1] - cpu[0]) / time.Duration(len(found.bare.Took))
	}
	return found, err
}

func (d duel) load(frontend string, warmup, window time.Duration) load.Players {
	share := load.DefaultShare
	if d.alone {
		share = 1
	}
	return load.Players{
		Frontends: []string{frontend}, Count: d.players, Share: share, Rate: d.offered, Warmup: warmup, Window: window,
	}
}
