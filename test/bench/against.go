package main

import (
	"fmt"
	"net/http"

	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// turn is one round of this service and of an earlier release.
type turn struct{ server, redis pair }

// measureAgainst measures publish and empty fetch in turns with the binary of an earlier release, if there is one.
func (b *bench) measureAgainst() {
	if b.against == "" {
		return
	}
	systems := [2]*system{b.startBinary(b.binary, "--grpc-listen", "--admin-listen"), b.startBinary(b.against)}
	defer systems[0].stop()
	defer systems[1].stop()
	b.printf("\n## Against an earlier release\n\nCPU time per request. The binary of the earlier release, with a Redis " +
		"of its own, takes turns with this one.\n\n" +
		"| request | of | Tidemark | earlier release | ratio | goal | |\n|---|---|---:|---:|---:|---:|---|\n")
	b.printTurns("publish", b.takeTurns(systems, func(u *system, round int) load.Maker {
		u.redis.empty()
		return func(n int) []byte {
			path := fmt.Sprintf("/v1/channels/bench-%d/messages/p%d-%d", n%channelCount, round, n)
			return load.Request(http.MethodPut, path, messageContent)
		}
	}))
	path := func(i int) string { return subscriberPath(fmt.Sprintf("empty-%d", i), "s") }
	b.printTurns("empty fetch", b.takeTurns(systems, func(u *system, _ int) load.Maker {
		u.subscribe(channelCount, path)
		return func(n int) []byte { return load.Request(http.MethodGet, path(n%channelCount)+"/messages", "") }
	}))
}

// startBinary starts a server of any release. Early ones have no other listeners than that of HTTP.
func (b *bench) startBinary(binary string, listeners ...string) *system {
	u := &system{bench: b, redis: b.openRedis()}
	b.Cleanup(u.stop) // if the part fails
	args := append([]string{"serve", "--log-level", "error"}, u.redis.args...)
	u.server = u.run("server", binary, args, append([]string{"--listen"}, listeners...)...)
	return u
}

// takeTurns measures the requests that a function makes for a round. The two systems begin in turns, too.
func (b *bench) takeTurns(systems [2]*system, requests func(u *system, round int) load.Maker) []turn {
	turns := make([]turn, b.rounds)
	for round := range turns {
		t := &turns[round]
		ours := func() { t.server.ours, t.redis.ours = systems[0].measureBoth(requests(systems[0], round)) }
		other := func() { t.server.floor, t.redis.floor = systems[1].measureBoth(requests(systems[1], round)) }
		if round%2 == 1 {
			ours, other = other, ours
		}
		ours()
		other()
	}
	return turns
}

// measureBoth returns the CPU seconds per request of the server and of Redis.
func (u *system) measureBoth(next load.Maker) (server, redis float64) {
	redis = perCall(u.requests, u.redis.cpu, func() { server, _ = u.measureServer(next) })
	return server, redis
}

func (b *bench) printTurns(request string, turns []turn) {
	b.printTurn(request, "server", turns, func(t turn) pair { return t.server })
	b.printTurn(request, "Redis", turns, func(t turn) pair { return t.redis })
}

func (b *bench) printTurn(request, of string, turns []turn, figure func(turn) pair) {
	pairs := make([]pair, len(turns))
	for i, t := range turns {
		pairs[i] = figure(t)
	}
	ours, earlier, ratio := medians(pairs)
	b.printf("| %s | %s | %.1f µs | %.1f µs | %.2f | ≤ 1 | %s |\n", request, of, ours*1e6, earlier*1e6, ratio,
		report.Verdict(ratio <= 1))
	progress("CPU of %s per %s, against an earlier release: %.2f", of, request, ratio)
}
