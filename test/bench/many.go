package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// Limits of the cost of a fetch from many channels, from the project's goals.
const (
	manySources = 64
	manyLimit   = 3 // times a fetch from one
)

// manyFetch is one way to fetch. All have the same subscribers.
type manyFetch struct {
	sources int // 0: the fetch of one channel's own route
	next    load.Maker
	rounds  []manyCost
}

// manyCost is the cost of a fetch. ratio is that of its CPU times to those of a fetch from one channel in the same
// round.
type manyCost struct{ server, redis, commands, ratio float64 }

// many compares fetches from many channels with one call with fetches from one channel: empty fetches, and the loop of
// a consumer that acknowledges a message of one channel and gets the next one.
func many(b *bench) {
	u := b.start("--matchmaking", "off")
	defer u.stop()
	u.subscribe(256, manyPath)
	u.printf("\n## Fetching from many channels\n\nCPU time of the server and of Redis per fetch, and the number " +
		"of commands sent to Redis, without those inside\nscripts.\n\n" +
		"| fetch | channels | server | Redis | together | of one channel | goal | commands | |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---|\n")
	u.measureMany("nothing is there", manySources, "", func(n int) []byte {
		return load.Request(http.MethodGet, manyPath(n%256)+"/messages", "")
	})
	last := u.fillOne()
	u.measureMany("acknowledges a message and gets one", 0, last, func(int) []byte {
		return load.Request(http.MethodPost, manyPath(0)+"/next", `{"max":1,"receiptHandle":"`+last+`"}`)
	})
}

func manyPath(n int) string { return subscriberPath(fmt.Sprintf("bench:topic:%d", n), "ann") }

// manyBody returns the body of a fetch from the first channels, which acknowledges on the first one.
func manyBody(sources int, receipt string) string {
	from := make([]string, sources)
	for i := range from {
		from[i] = fmt.Sprintf(`{"channel":"bench:topic:%d","subscriber":"ann"}`, i)
	}
	if receipt != "" {
		from[0] = strings.TrimSuffix(from[0], "}") + fmt.Sprintf(`,"receiptHandle":%q}`, receipt)
	}
	return `{"max":1,"from":[` + strings.Join(from, ",") + `]}`
}

// fillOne publishes two messages to the first channel, and returns the receipt of the first. A repeated acknowledgement
// costs the server as much as the first.
func (u *system) fillOne() (receipt string) {
	u.request(http.MethodPost, "/v1/channels/bench:topic:0/messages", batch(2))
	return u.receipt(manyPath(0) + "/messages?max=1")
}

// measureMany measures in turns the fetch of a channel's own route, and fetches from growing numbers of channels. The
// fetch from withGoal channels has a goal.
func (u *system) measureMany(name string, withGoal int, receipt string, own load.Maker) {
	fetches := []*manyFetch{{next: own}, {sources: 1}, {sources: manySources}, {sources: 256}}
	for _, f := range fetches[1:] {
		request := load.Request(http.MethodPost, "/v1/fetch", manyBody(f.sources, receipt))
		f.next = func(int) []byte { return request }
	}
	processed := func() float64 { return u.redis.numbers("stats")["total_commands_processed"] }
	for round := range u.rounds {
		for _, f := range fetches {
			var c manyCost
			before := processed()
			c.redis = perCall(u.requests, u.redis.cpu, func() { c.server, _ = u.measureServer(f.next) })
			c.commands = (processed() - before) / float64(u.requests)
			f.rounds = append(f.rounds, c)
			first := fetches[0].rounds[round]
			f.rounds[round].ratio = (c.server + c.redis) / (first.server + first.redis)
		}
	}
	for _, f := range fetches {
		of := func(figure func(manyCost) float64) float64 { return median(f.rounds, figure) }
		ratio, goal, verdict, what, n := of(func(c manyCost) float64 { return c.ratio }), "", "", name, f.sources
		if withGoal > 0 && f.sources == withGoal {
			goal, verdict = fmt.Sprintf("≤ %d", manyLimit), report.Verdict(ratio <= manyLimit)
		}
		if f.sources == 0 {
			what, n = name+", of the channel's own route", 1
		}
		server := of(func(c manyCost) float64 { return c.server }) * 1e6
		redis := of(func(c manyCost) float64 { return c.redis }) * 1e6
		u.printf("| %s | %d | %.1f µs | %.1f µs | %.1f µs | %.2f | %s | %.1f | %s |\n", what, n, server, redis, server+redis,
			ratio, goal, of(func(c manyCost) float64 { return c.commands }), verdict)
	}
}
