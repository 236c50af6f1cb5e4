package main

import (
	"slices"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/report"
)

// takeovers ends the server that directs a queue while another server matches pairs.
func takeovers(b *bench) {
	b.printf("\n## Takeover\n\nOne of two servers directs the queue and is stopped. Pairs of tickets are created "+
		"on the other one, one pair after\nthe other. The time is the longest until a pair was matched, of %d "+
		"runs.\n\n"+
		"| the director is stopped | longest time | goal | |\n"+
		"|---|---:|---:|---|\n", duelRounds)
	for _, end := range []struct {
		name   string
		signal syscall.Signal
		goal   time.Duration
	}{{"by SIGTERM", syscall.SIGTERM, 200 * time.Millisecond}, {"by SIGKILL", syscall.SIGKILL, 5 * time.Second}} {
		longest := time.Duration(0)
		for range duelRounds {
			longest = max(longest, b.takeOver(end.signal))
		}
		progress("the director ends %s: a pair took %s", end.name, longest)
		b.printf("| %s | %s | %s | %s |\n", end.name, report.Millis(longest), atMost(end.goal, report.Millis),
			report.Verdict(longest <= end.goal))
	}
}

// takeOver returns the longest time that a pair took after a signal to the director.
func (b *bench) takeOver(signal syscall.Signal) (longest time.Duration) {
	u := b.start()
	defer u.stop()
	servers := []*service{u.server, u.addServer()}
	b.matchPairsAt(servers[1], 0)
	directs := slices.IndexFunc(servers, func(s *service) bool {
		return s.labelled("tidemark_director", "queue")["default"] == 1
	})
	if directs < 0 {
		b.Fatalf("no server directs the queue")
	}
	go servers[directs].end(signal)
	return b.matchPairsAt(servers[1-directs], time.Second) // a director that stops may still match the first pairs
}

// matchPairsAt creates pairs of tickets, one after the other, for some time, but at least one pair. It returns the
// longest time until a pair was matched.
func (b *bench) matchPairsAt(server *service, length time.Duration) (longest time.Duration) {
	frontend := b.dialFrontend(server)
	defer frontend.Close()
	for started, first := time.Now(), true; first || time.Since(started) < length; first = false {
		pair := time.Now()
		b.match(frontend, &openmatch.Ticket{}, "")
		longest = max(longest, time.Since(pair))
	}
	return longest
}
