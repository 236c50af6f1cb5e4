package main

import (
	"net"
	"time"

	"github.com/tidemark-dev/tidemark/test/report"
)

// besideMinimatch is one round of a load on the service, and then on minimatch.
type besideMinimatch struct {
	load         duel
	ours, theirs playedDuels
}

// playMinimatch measures a load once on minimatch, with a Redis of its own that is set up as that of the service is,
// but also listens on TCP.
func (b *bench) playMinimatch(d duel) (found playedDuels) {
	u := &system{bench: b, redis: b.openRedis()}
	b.Cleanup(u.stop) // if the part fails
	defer u.stop()
	l, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	b.Must(err)
	address := l.Addr().String()
	b.Must(l.Close())
	_, port, err := net.SplitHostPort(address)
	b.Must(err)
	u.redis.do("CONFIG", "SET", "bind", "127.0.0.1")
	u.redis.do("CONFIG", "SET", "port", port)
	u.server = u.run("minimatch", b.peers.minimatch, []string{"-redis", address}, "-admin", "-listen")
	var server, redis []time.Duration
	found.Matched = u.play(d.load(u.server.GRPC, warmup, window), func() {
		server, redis = append(server, u.server.cpu()), append(redis, u.redis.cpu())
	})
	n := time.Duration(max(1, len(found.Took)))
	found.usage.server, found.usage.redis = (server[1]-server[0])/n, (redis[1]-redis[0])/n
	progress("%s players, minimatch: %.0f tickets/s, p50 %s, server %s, Redis %s", d, found.PerSecond(),
		found.Quantile(0.5), found.usage.server, found.usage.redis)
	return found
}

// printMinimatch writes a row for each load that was measured in turns.
func (b *bench) printMinimatch(rounds []besideMinimatch) {
	if len(rounds) == 0 {
		b.printf("\nminimatch was not measured: there is no program that serves it (option `-minimatch`).\n")
		return
	}
	b.printf("\nIn turns with minimatch, whose match function of two runs every 100 ms; the medians.\n\n" +
		"| players | tickets/s | minimatch | ratio | goal | | CPU: server, Redis | minimatch: server, Redis | its p50 |\n" +
		"|---|---:|---:|---:|---:|---|---:|---:|---:|\n")
	for len(rounds) > 0 {
		same := 0
		for same < len(rounds) && rounds[same].load == rounds[0].load {
			same++
		}
		found := rounds[:same]
		ratio := median(found, func(r besideMinimatch) float64 { return r.ours.PerSecond() / r.theirs.PerSecond() })
		ours := medianRound(found, func(r besideMinimatch) float64 { return r.ours.PerSecond() }).ours
		theirs := medianRound(found, func(r besideMinimatch) float64 { return r.theirs.PerSecond() }).theirs
		b.printf("| %s | %.0f | %.0f | %.2f | %s | %s | %s, %s | %s, %s | %s |\n", found[0].load, ours.PerSecond(),
			theirs.PerSecond(), ratio, goal("≥", found[0].load.beside), report.Verdict(ratio >= found[0].load.beside),
			report.Micros(ours.usage.server), report.Micros(ours.usage.redis), report.Micros(theirs.usage.server),
			report.Micros(theirs.usage.redis), report.Millis(theirs.Quantile(0.5)))
		rounds = rounds[same:]
	}
}
