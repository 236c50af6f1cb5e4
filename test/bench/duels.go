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
	usage // per ticket
}

// duelRound is one round of a load.
type duelRound struct {
	ours, bare, minimatch playedDuels // minimatch: if it is measured beside
}

func (r duelRound) rate() float64 { return r.ours.PerSecond() }

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
	loads := duelLoads()
	rounds := make([][]duelRound, len(loads))
	for i, d := range loads {
		for range min(b.rounds, duelRounds) {
			rounds[i] = append(rounds[i], b.duel(d))
		}
	}
	b.printf("Players look for one opponent on a first-come queue, over gRPC: each creates a ticket, waits on " +
		"WatchAssignments,\nand begins again at once. Up to 128 share a connection, unless the row says otherwise. Times " +
		"are from the call that\ncreates the ticket to its assignment. The load uses grpc-go and runs on the same cores. " +
		"So do bare handlers,\nmeasured in the same run: they store nothing, match nothing, and answer at once. Each row is " +
		"the round with the\nmedian rate, of three.\n\n")
	b.table("players: | tickets/s: | goal: | bare handlers: | share: | goal: | p50: | goal: | p99: | goal: | ")
	for i, d := range loads {
		r := medianRound(rounds[i], duelRound.rate)
		rate, share, p50, p99 := r.rate(), r.rate()/r.bare.PerSecond(), r.ours.Quantile(0.5), r.ours.Quantile(0.99)
		b.row(d, rate, goal("≥", d.perSecond), fmt.Sprintf("%.0f/s", r.bare.PerSecond()), fmt.Sprintf("%.2f", share),
			goal("≥", d.share), p50, atMost(d.p50, report.Millis), p99, atMost(d.p99, report.Millis),
			rate >= d.perSecond && share >= d.share && within(p50, d.p50) && within(p99, d.p99))
	}
	b.printf("\nThe cost of a ticket: CPU time, also of the load and of bare handlers, and commands sent to Redis. Bare " +
		"handlers use\nall CPU time that the load leaves, so a cheaper load raises their rate.\n\n")
	b.table("players: | server: | goal: | Redis: | goal: | load: | bare handlers: | calls: | goal: | of these | ")
	for i, d := range loads {
		r := medianRound(rounds[i], duelRound.rate)
		used := r.ours.usage
		b.row(d, report.Micros(used.server), atMost(d.server, report.Micros), report.Micros(used.redis),
			atMost(d.redis, report.Micros), report.Micros(used.load), report.Micros(r.bare.server),
			fmt.Sprintf("%.2f", used.calls()), goal("≤", d.calls), used.kinds(),
			within(used.server, d.server) && within(used.redis, d.redis) && (d.calls == 0 || used.calls() <= d.calls))
	}
	b.printMinimatch(loads, rounds)
}

// printMinimatch writes a row for each load that was measured on minimatch, too.
func (b *bench) printMinimatch(loads []duel, rounds [][]duelRound) {
	if b.peers.minimatch == "" {
		b.printf("\nminimatch was not measured: there is no program that serves it (option `-minimatch`).\n")
		return
	}
	b.printf("\nIn turns with minimatch, whose match function of two runs every 100 ms; the medians.\n\n")
	b.table("players | tickets/s: | minimatch: | ratio: | goal: |  | CPU: server, Redis: | minimatch: server, Redis: | its p50:")
	for i, d := range loads {
		if d.beside == 0 {
			continue
		}
		ratio := median(rounds[i], func(r duelRound) float64 { return r.rate() / r.minimatch.PerSecond() })
		ours := medianRound(rounds[i], duelRound.rate).ours
		theirs := medianRound(rounds[i], func(r duelRound) float64 { return r.minimatch.PerSecond() }).minimatch
		cpu := func(u usage) string { return report.Micros(u.server) + ", " + report.Micros(u.redis) }
		b.row(d, ours.PerSecond(), theirs.PerSecond(), fmt.Sprintf("%.2f", ratio), goal("≥", d.beside), ratio >= d.beside,
			cpu(ours.usage), cpu(theirs.usage), theirs.Quantile(0.5))
	}
}

// within reports whether a time reaches a goal. 0 is no goal.
func within(d, goal time.Duration) bool { return goal == 0 || d <= goal }

// duel measures a load once, on the service and on bare handlers, and on minimatch.
func (b *bench) duel(d duel) (r duelRound) {
	u := b.start()
	defer u.stop()
	r.ours = u.play(d.load(u.server.GRPC, warmup, window), &meter{system: u, servers: []*service{u.server}})
	r.bare = u.play(d.load(u.floor.GRPC, bareWarmup, bareWindow),
		&meter{system: u, servers: []*service{u.floor}, peer: true})
	progress("%s players: %.0f tickets/s, p50 %s, p99 %s, server %s, Redis %s; bare %.0f/s", d, r.rate(),
		r.ours.Quantile(0.5), r.ours.Quantile(0.99), r.ours.server, r.ours.redis, r.bare.PerSecond())
	u.stop()
	if d.beside > 0 && b.peers.minimatch != "" {
		m := b.startMinimatch()
		defer m.stop()
		r.minimatch = m.play(d.load(m.server.GRPC, warmup, window),
			&meter{system: m, servers: []*service{m.server}, peer: true})
	}
	return r
}

// play lets players play, and measures the usage of a ticket.
func (u *system) play(players load.Players, m *meter) (found playedDuels) {
	var err error
	found.Matched, err = players.Run(u.Context(), func() error { m.read(); return nil })
	u.Must(err)
	found.usage = m.per(len(found.Took))
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
