package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

const (
	channelCount = 100
	contentBytes = 256
)

// messageContent is a JSON string of 256 bytes.
var messageContent = `"` + strings.Repeat("x", contentBytes-2) + `"`

// requests measures single requests, against a bare net/http handler and against Redis alone.
func requests(b *bench) {
	u := b.start()
	defer u.stop()
	u.printf("Load: %d connections, each with one request in progress, %d channels, contents of %d bytes; service, Redis "+
		"and load\non one machine, Redis with its append-only file on. CPU times are those of the named process, "+
		"per request. The floor\nis measured in turns with it, and Redis is emptied in between. Machines differ: "+
		"compare the ratios.\n\n", load.Connections, channelCount, contentBytes)
	u.table("figure | Tidemark: | floor: | ratio: | goal: | ")
	u.measurePublish()
	u.measureFetch()
	empty := numbered("empty")
	u.subscribe(channelCount, empty)
	u.compared("server CPU per empty fetch, against a net/http handler", u.compare(fetches(empty, "")), 2.5)
	u.measureNext()
	u.stop()
	b.measureAgainst()
}

func (u *system) measurePublish() {
	var server, alone, beside []pair
	for round := range u.rounds {
		publish := publishes("bench", fmt.Sprint("p", round))
		var onServer pair
		u.redis.empty()
		floor := u.redisFloor()
		u.redis.empty()
		var last load.Answer
		redis := perCall(u.requests, u.redis.cpu, func() { onServer.ours, last = u.measureServer(publish) })
		onServer.floor = u.measureFloor(publish, last)
		u.redis.empty()
		server = append(server, onServer)
		alone = append(alone, pair{redis, floor})
		beside = append(beside, pair{redis, u.redisFloorBeside(publish)})
	}
	u.compared("Redis CPU per publish, against the script under redis-benchmark", alone, 1.0)
	u.compared("Redis CPU per publish, against the script beside the load of a net/http handler", beside, 1.0)
	u.compared("server CPU per publish, against a net/http handler", server, 2.5)
}

// redisFloor returns Redis's CPU time per publish script, run by redis-benchmark without pipelining.
func (u *system) redisFloor() time.Duration {
	script := lua.Must("channels/publish")
	u.redis.do("SCRIPT", "LOAD", script.Source())
	const base = "c.{bench-floor}"
	n := u.requests
	args := []string{
		"-s", u.redis.socket, "-c", strconv.Itoa(load.Connections), "-n", strconv.Itoa(n), "-r", "2000000000", "-q",
		"EVALSHA", script.SHA1(), "4",
		base + ".clock", base + ".epoch", base + ".subs", base + ".mid.__rand_int__",
		base + ".m.", base + ".r.", "", "86400000", "01M7XSP26QJ3QEVHWDRP2PHXG6", "", "0", base, "16384", "", "1",
		base + ".deleted", `{"id":"__rand_int__","content":` + messageContent,
	}
	return perCall(n, u.redis.cpu, func() {
		command := exec.CommandContext(u.Context(), "redis-benchmark", args...) //nolint:gosec // our own arguments
		if out, err := command.CombinedOutput(); err != nil {
			u.Fatalf("redis-benchmark: %v: %s", err, out)
		}
	})
}

// redisFloorBeside is redisFloor under the server's usual load on the bare handler, so that Redis shares the cores and
// their caches as in the other measurement.
func (u *system) redisFloorBeside(next load.Maker) time.Duration {
	loaded, stop := context.WithCancel(u.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && loaded.Err() == nil {
			_, err = load.Repeat(loaded, u.floor.HTTP, u.requests/10, next)
		}
		if loaded.Err() != nil {
			err = nil // it was interrupted
		}
		ended <- err
	}()
	perPublish := u.redisFloor()
	stop()
	u.Must(<-ended)
	return perPublish
}

// batch returns the body of a publish of n messages.
func batch(n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(`{"content":`+messageContent+`},`, n), ",") + "]"
}

// measureFetch fetches ten messages, again and again, since nothing is acknowledged. It then acknowledges the same
// receipts again and again: a repeat costs the server as much as the first.
func (u *system) measureFetch() {
	path := numbered("fetch")
	u.subscribe(channelCount, path)
	u.repeat(10*channelCount, publishes("fetch", "m"))
	u.compared("server CPU per fetch of ten, against a net/http handler", u.compare(fetches(path, "?max=10")), 4)
	handles := make([]string, channelCount)
	for i := range handles {
		handles[i] = `{"receiptHandle":"` + u.receipt(path(i)+"/messages?max=5") + `"}`
	}
	u.compared("server CPU per ack, against a net/http handler", u.compare(func(n int) []byte {
		return load.Request(http.MethodPost, path(n%channelCount)+"/ack", handles[n%channelCount])
	}), 2.5)
}

// The load of a consumer in a round.
const (
	consumeMessages = 500 // on each channel
	consumeMax      = 10  // messages of a next
)

// nextLimit is the CPU time that Redis may take for it, from the project's goals.
const nextLimit = 50 * time.Microsecond

// measureNext measures the loop of a consumer: next acknowledges ten messages and fetches the next ten.
func (u *system) measureNext() {
	path := numbered("consume")
	var rounds []time.Duration
	for range u.rounds {
		u.redis.empty()
		u.subscribe(channelCount, path)
		u.repeat(channelCount*consumeMessages/50, func(n int) []byte {
			return load.Request(http.MethodPost, fmt.Sprintf("/v1/channels/consume-%d/messages", n%channelCount), batch(50))
		})
		rounds = append(rounds, perCall(channelCount*consumeMessages/consumeMax, u.redis.cpu, func() {
			u.each(channelCount, func(ctx context.Context, i int) error {
				return u.consume(ctx, path(i), consumeMessages, consumeMax, "0s")
			})
		}))
	}
	next := report.Quantile(rounds, 0.5)
	u.printf("\nOf the loop of a consumer, a `next` that acknowledges ten messages and fetches the next ten takes %s "+
		"of Redis's\nCPU time (goal ≤ %s, %s).\n", report.Tenths(next), report.Micros(nextLimit),
		report.Verdict(next <= nextLimit))
}

// fetched is an answer with messages.
type fetched struct {
	Messages      []json.RawMessage `json:"messages"`
	ReceiptHandle string            `json:"receiptHandle"`
}

// receipt fetches messages and returns their receipt.
func (u *system) receipt(path string) string {
	var got fetched
	u.Must(json.Unmarshal(u.request(http.MethodGet, path, "").Body, &got))
	return got.ReceiptHandle
}

// consume receives n messages of a subscriber, at most limit at a time. It acknowledges them with the next request, so
// not the last ones.
func (u *system) consume(ctx context.Context, subscriber string, n, limit int, wait string) error {
	c, err := load.Dial(ctx, u.server.HTTP)
	if err != nil {
		return err
	}
	defer c.Close()
	request := load.Request(http.MethodGet, fmt.Sprintf("%s/messages?max=%d&wait=%s", subscriber, limit, wait), "")
	for n > 0 {
		a, err := c.Do(request)
		if err != nil {
			return err
		}
		var got fetched
		if err := json.Unmarshal(a.Body, &got); err != nil {
			return err
		}
		if len(got.Messages) == 0 {
			return fmt.Errorf("%s: %d messages are missing", subscriber, n)
		}
		n -= len(got.Messages)
		request = load.Request(http.MethodPost, subscriber+"/next",
			fmt.Sprintf(`{"receiptHandle":%q,"max":%d,"wait":%q}`, got.ReceiptHandle, limit, wait))
	}
	return nil
}

// releases are this service and an earlier release of it, which are measured in turns.
type releases struct {
	*bench
	systems []*system
}

// measureAgainst measures publish and empty fetch in turns with the binary of an earlier release, if there is one.
func (b *bench) measureAgainst() {
	if b.against == "" {
		return
	}
	r := releases{b, []*system{b.startBinary(b.binary, "--grpc-listen", "--admin-listen"), b.startBinary(b.against)}}
	defer r.systems[0].stop()
	defer r.systems[1].stop()
	b.section("Against an earlier release")
	b.printf("CPU time per request. The binary of the earlier release, with a Redis of its own, takes turns with this " +
		"one.\n\n")
	b.table("request | of | Tidemark: | earlier release: | ratio: | goal: | ")
	r.measure("publish", func(u *system, round int) load.Maker {
		u.redis.empty()
		return publishes("bench", fmt.Sprint("p", round))
	})
	r.measure("empty fetch", func(u *system, _ int) load.Maker {
		u.subscribe(channelCount, numbered("empty"))
		return fetches(numbered("empty"), "")
	})
}

// startBinary starts a server of any release. Early ones have no other listeners than that of HTTP.
func (b *bench) startBinary(binary string, listeners ...string) *system {
	u := b.startAlone(b.openRedis())
	args := append([]string{"serve", "--log-level", "error"}, u.redis.args...)
	u.server = u.run("server", binary, args, append([]string{"--listen"}, listeners...)...)
	return u
}

// measure measures the requests that a function makes for a round. The two systems begin in turns, too.
func (r *releases) measure(request string, requests func(u *system, round int) load.Maker) {
	server, redis := make([]pair, r.rounds), make([]pair, r.rounds)
	for round := range r.rounds {
		ours := func() {
			server[round].ours, redis[round].ours = r.systems[0].measureBoth(requests(r.systems[0], round))
		}
		other := func() {
			server[round].floor, redis[round].floor = r.systems[1].measureBoth(requests(r.systems[1], round))
		}
		if round%2 == 1 {
			ours, other = other, ours
		}
		ours()
		other()
	}
	r.compared(request+" | server", server, 1)
	r.compared(request+" | Redis", redis, 1)
}

// Limits of the cost of a fetch from many channels, from the project's goals.
const (
	manySources = 64
	manyLimit   = 3 // times a fetch from one
)

// manyFetch is one way to fetch. All have the same subscribers.
type manyFetch struct {
	sources int // 0: the fetch of one channel's own route
	next    load.Maker
}

// manyCost is the cost of a fetch.
type manyCost struct {
	server, redis time.Duration
	commands      float64
}

func (c manyCost) both() time.Duration { return c.server + c.redis }

// many compares fetches from many channels with one call with fetches from one channel: empty fetches, and the loop of
// a consumer that acknowledges a message of one channel and gets the next one.
func many(b *bench) {
	u := b.start("--matchmaking", "off")
	defer u.stop()
	u.subscribe(256, manyPath)
	u.printf("CPU time of the server and of Redis per fetch, and the number of commands sent to Redis, without those " +
		"inside\nscripts.\n\n")
	u.table("fetch | channels: | server: | Redis: | together: | of one channel: | goal: | commands: | ")
	u.measureMany("nothing is there", manySources, "", func(n int) []byte {
		return load.Request(http.MethodGet, manyPath(n%256)+"/messages", "")
	})
	// the receipt of the first of two messages: a repeated acknowledgement costs the server as much as the first
	u.request(http.MethodPost, "/v1/channels/bench:topic:0/messages", batch(2))
	last := u.receipt(manyPath(0) + "/messages?max=1")
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

// measureMany measures in turns the fetch of a channel's own route, and fetches from growing numbers of channels. The
// fetch from withGoal channels has a goal.
func (u *system) measureMany(name string, withGoal int, receipt string, own load.Maker) {
	ways := []manyFetch{{next: own}, {sources: 1}, {sources: manySources}, {sources: 256}}
	for i := range ways[1:] {
		request := load.Request(http.MethodPost, "/v1/fetch", manyBody(ways[i+1].sources, receipt))
		ways[i+1].next = func(int) []byte { return request }
	}
	processed := func() float64 { return u.redis.numbers("stats")["total_commands_processed"] }
	costs := turns(u.rounds, ways, func(_ int, way manyFetch) (c manyCost) {
		before := processed()
		c.server, c.redis = u.measureBoth(way.next)
		c.commands = (processed() - before) / float64(u.requests)
		return c
	})
	for i, way := range ways {
		pairs := make([]pair, u.rounds)
		for round := range pairs {
			pairs[round] = pair{costs[i][round].both(), costs[0][round].both()}
		}
		_, _, ratio := medians(pairs)
		what, n := name, way.sources
		if way.sources == 0 {
			what, n = name+", of the channel's own route", 1
		}
		var goal, verdict any = "", ""
		if withGoal > 0 && way.sources == withGoal {
			goal, verdict = fmt.Sprint("≤ ", manyLimit), ratio <= manyLimit
		}
		server := median(costs[i], func(c manyCost) time.Duration { return c.server })
		redis := median(costs[i], func(c manyCost) time.Duration { return c.redis })
		commands := median(costs[i], func(c manyCost) float64 { return c.commands })
		u.row(what, n, report.Tenths(server), report.Tenths(redis), report.Tenths(server+redis), fmt.Sprintf("%.2f", ratio),
			goal, fmt.Sprintf("%.1f", commands), verdict)
	}
}
