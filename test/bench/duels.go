package main

import (
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// duel is a load of players who look for one opponent, with the project's goals for it. 0: no goal.
type duel struct {
	players       int
	alone         bool    // each has a connection of its own
	offered       float64 // tickets a second; 0: each player begins again at once
	perSecond     float64
	share         float64 // of the rate of bare handlers
	p50, p99      time.Duration
	server, redis time.Duration // CPU time per ticket
	calls         float64       // of Redis per ticket
	beside        float64       // times the rate of minimatch
}

func duelLoads() []duel {
	return []duel{
		{players: 64, perSecond: 5000, share: 0.5, p50: 10 * time.Millisecond, calls: 6},
		{players: 256},
		{players: 1024, perSecond: 9000, share: 0.5, p99: 250 * time.Millisecond, server: 100 * time.Microsecond,
			redis: 40 * time.Microsecond, calls: 3, beside: 1.6},
		{players: 64, alone: true, perSecond: 5000, share: 0.5, p50: 10 * time.Millisecond, calls: 6},
		{players: 1024, alone: true, perSecond: 9000, share: 0.5, p99: 250 * time.Millisecond, calls: 3,
			beside: 1.6},
		{offered: 100, server: time.Millisecond, redis: 300 * time.Microsecond},
	}
}

// duelRounds is the number of times that each load is measured. The round with the median rate is reported.
const duelRounds = 3

// The duration of a load. It warms up until creates are delayed by assignments that aren't published yet.
const (
	warmup     = 2 * time.Second
	window     = 4 * time.Second
	bareWarmup = time.Second
	bareWindow = 2 * time.Second
)

// playedDuels is the result of a load.
type playedDuels struct {
	load.Matched
	usage usage // per ticket
	bare  load.Matched
	idle  time.Duration // CPU time of bare handlers per ticket
}

func (d playedDuels) rate() float64 { return d.PerSecond() }

func (d duel) String() string {
	if d.offered > 0 {
		return fmt.Sprintf("%.0f/s offered", d.offered)
	}
	if d.alone {
		return fmt.Sprintf("%d, a connection each", d.players)
	}
	return fmt.Sprint(d.players)
}

// duels measures players who look for one opponent, again and again.
func duels(b *bench) {
	var measured []playedDuels
	var beside []besideMinimatch
	loads := duelLoads()
	for _, load := range loads {
		var found []playedDuels
		for range min(b.rounds, duelRounds) {
			d := b.playDuels(load)
			progress("%s players: %.0f tickets/s, p50 %s, p99 %s, server %s, Redis %s, %.2f calls; bare %.0f/s", load,
				d.PerSecond(), d.Quantile(0.5), d.Quantile(0.99),
				d.usage.server, d.usage.redis, d.usage.calls(), d.bare.PerSecond())
			found = append(found, d)
			if load.beside > 0 && b.peers.minimatch != "" {
				beside = append(beside, besideMinimatch{load, d, b.playMinimatch(load)})
			}
		}
		measured = append(measured, medianRound(found, playedDuels.rate))
	}
	b.printf("\n## Matchmaking\n\nPlayers look for one opponent on a first-come queue, over gRPC: each creates a " +
		"ticket, waits on WatchAssignments,\nand begins again at once. Up to 128 share a connection, unless the " +
		"row says otherwise. Times are from the call that\ncreates the ticket to its assignment. The load uses " +
		"grpc-go and runs on the same cores. So do bare handlers,\nmeasured in the same run: they store nothing, " +
		"match nothing, and answer at once. Each row is the round with the\nmedian rate, of three.\n\n" +
		"| players | tickets/s | goal | bare handlers | share | goal | p50 | goal | p99 | goal | |\n" +
		"|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n")
	for i, d := range measured {
		want := loads[i]
		share, p50, p99 := d.PerSecond()/d.bare.PerSecond(), d.Quantile(0.5), d.Quantile(0.99)
		good := d.PerSecond() >= want.perSecond && share >= want.share && within(p50, want.p50) && within(p99, want.p99)
		b.printf("| %s | %.0f | %s | %.0f/s | %.2f | %s | %s | %s | %s | %s | %s |\n", want, d.PerSecond(),
			goal("≥", want.perSecond), d.bare.PerSecond(), share, goal("≥", want.share),
			report.Millis(p50), atMost(want.p50, report.Millis), report.Millis(p99),
			atMost(want.p99, report.Millis), report.Verdict(good))
	}
	b.printCosts(loads, measured)
	b.printMinimatch(beside)
}

func (b *bench) printCosts(loads []duel, measured []playedDuels) {
	b.printf("\nThe cost of a ticket: CPU time, also of the load and of bare handlers, and commands sent to " +
		"Redis. Bare handlers use\nall CPU time that the load leaves, so a cheaper load raises their rate.\n\n" +
		"| players | server | goal | Redis | goal | load | bare handlers | calls | goal | of these | |\n" +
		"|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---|\n")
	for i, d := range measured {
		want, used := loads[i], d.usage
		good := within(used.server, want.server) && within(used.redis, want.redis) &&
			(want.calls == 0 || used.calls() <= want.calls)
		b.printf("| %s | %s | %s | %s | %s | %s | %s | %.2f | %s | %s | %s |\n", want, report.Micros(used.server),
			atMost(want.server, report.Micros), report.Micros(used.redis), atMost(want.redis, report.Micros),
			report.Micros(used.load), report.Micros(d.idle),
			used.calls(), goal("≤", want.calls), used.kinds(), report.Verdict(good))
	}
}

// within reports whether a time reaches a goal. 0 is no goal.
func within(d, goal time.Duration) bool { return goal == 0 || d <= goal }

// playDuels measures a load once, on the service and on bare handlers.
func (b *bench) playDuels(d duel) (found playedDuels) {
	u := b.start()
	defer u.stop()
	meter := meter{system: u, servers: []*service{u.server}}
	found.Matched = u.play(d.load(u.server.GRPC, warmup, window), meter.read)
	found.usage = meter.perTicket(len(found.Took))
	var cpu []time.Duration
	found.bare = u.play(d.load(u.floor.GRPC, bareWarmup, bareWindow), func() { cpu = append(cpu, u.floor.cpu()) })
	found.idle = (cpu[1] - cpu[0]) / time.Duration(len(found.bare.Took))
	return found
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
