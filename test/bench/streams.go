package main

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// The numbers of streams and messages that are measured.
const (
	idleStreams   = 5000
	activeStreams = 1000
	sentMessages  = 200  // fewer than a window
	slowBytes     = 4096 // of a message beside slow readers
	eventBytes    = 490  // of the event of a message of 256 bytes
)

// Limits of the cost of streams, from the project's goals.
const (
	eventsLimit  = 18 * 1000 // bytes of an idle stream
	socketLimit  = 20 * 1000
	streamsLast  = 60 * time.Millisecond
	perMessage   = 4 * time.Microsecond // of the server's CPU time for each message of each stream
	slowTimes    = 2                    // times the p99 without slow readers
	streamsIntro = "\n## Streams\n\n%d subscribers of one channel, each with a stream of its own. Memory is the growth of " +
		"the server's resident memory\nwhile nothing is sent, connections included. Then one message is published.\n\n" +
		"| streams | memory each | goal | | notifications | scripts, the publish included | last one has it after | goal | |\n" +
		"|---|---:|---:|---|---:|---:|---:|---:|---|\n"
	streamCostIntro = "\nCPU time of the server for each message of each of %d streams, of %d messages that are published one " +
		"after another,\neach when all streams have the one before. The floor is a bare handler that writes the same " +
		"number of bytes to as many\nresponses, each from its own goroutine.\n\n" +
		"| streams | server | floor | ratio | goal | |\n|---|---:|---:|---:|---:|---|\n"
	slowIntro = "\n%d streams that are read, beside as many whose clients read nothing. %d messages of %d bytes are " +
		"published, each\nwhen all readers have the one before. Latency is the time from the beginning of the publish to a " +
		"reader.\n\n| streams | p50 | p99 | p50 beside slow ones | p99 | goal | | memory for each slow one |\n" +
		"|---|---:|---:|---:|---:|---:|---|---:|\n"
)

// transport is a kind of streams.
type transport struct {
	name  string
	limit float64 // of the memory of an idle one
	open  func(u *system, channel, subscriber string) (*load.Stream, error)
}

var transports = []transport{
	{"server-sent events", eventsLimit, func(u *system, channel, subscriber string) (*load.Stream, error) {
		return load.OpenEvents(u.Context(), u.server.HTTP, subscriberPath(channel, subscriber)+"/stream")
	}},
	{"WebSocket", socketLimit, func(u *system, channel, subscriber string) (*load.Stream, error) {
		return load.OpenSocket(u.Context(), u.server.HTTP, channel, subscriber)
	}},
}

func subscriberPath(channel, subscriber string) string {
	return "/v1/channels/" + channel + "/subscribers/" + subscriber
}

// measureStreams measures streams by each transport.
func measureStreams(b *bench) {
	b.printf(streamsIntro, idleStreams)
	for _, t := range transports {
		b.idleStreams(t)
	}
	b.printf(streamCostIntro, activeStreams, sentMessages)
	for _, t := range transports {
		b.streamCost(t)
	}
	b.printf(slowIntro, activeStreams, sentMessages, slowBytes)
	for _, t := range transports {
		b.slowStreams(t)
	}
}

// streams are open streams of the subscribers of one channel.
type streams []*load.Stream

func (all streams) close() {
	for _, s := range all {
		s.Close()
	}
}

// streams subscribes n subscribers to a channel, and opens a stream for each.
func (u *system) streams(t transport, channel, prefix string, n int) streams {
	subscriber := func(i int) string { return prefix + strconv.Itoa(i) }
	u.repeat(n, func(i int) []byte { return load.Request(http.MethodPut, subscriberPath(channel, subscriber(i)), "") })
	all := make(streams, 0, n)
	for i := range n {
		s, err := t.open(u, channel, subscriber(i+1))
		if err != nil {
			all.close()
			u.Must(err)
		}
		all = append(all, s)
	}
	u.awaitIdle()
	return all
}

func (u *system) publish(channel string, n int, content string) {
	u.request(http.MethodPut, fmt.Sprintf("/v1/channels/%s/messages/m%d", channel, n), content)
}

// stream sends messages, each when all streams have the one before. It calls arrived with the time until each stream has
// each message.
func (u *system) stream(all streams, messages int, send func(n int), arrived func(after time.Duration)) {
	for n := range messages {
		started := time.Now()
		var readers errgroup.Group
		for _, s := range all {
			readers.Go(func() error {
				err := s.Await(u.Context())
				arrived(time.Since(started))
				return err
			})
		}
		send(n)
		u.Must(readers.Wait())
	}
}

// idleStreams measures idle streams, and one message to all.
func (b *bench) idleStreams(t transport) {
	var rounds []wakeUp
	for range b.rounds {
		rounds = append(rounds, b.wakeStreams(t))
	}
	slices.SortFunc(rounds, func(a, b wakeUp) int { return cmp.Compare(a.last, b.last) })
	w := rounds[len(rounds)/2]
	b.printf("| %d, %s | %.1f KB | ≤ %.0f KB | %s | %.0f | %.0f | %d ms | ≤ %d ms | %s |\n", idleStreams, t.name,
		w.bytes/1000, t.limit/1000, report.Verdict(w.bytes <= t.limit), w.notifications, w.scripts, w.last.Milliseconds(),
		streamsLast.Milliseconds(), report.Verdict(w.notifications == 1 && w.scripts == 1 && w.last <= streamsLast))
	progress("%d idle streams, %s: %.1f KB, %s", idleStreams, t.name, w.bytes/1000, w.last)
}

// wakeStreams uses a server of its own, so that only the streams add to its memory.
func (b *bench) wakeStreams(t transport) (w wakeUp) {
	u := b.start("--matchmaking", "off") // whose lease would count as scripts
	defer u.stop()
	before := u.server.resident()
	all := u.streams(t, "crowd", "s", idleStreams)
	defer all.close()
	w.bytes = (u.server.resident() - before) / idleStreams
	count := u.redis.numbers("commandstats")
	started := time.Now()
	u.stream(all, 1, func(n int) { u.publish("crowd", n, messageContent) }, func(time.Duration) {})
	w.last = time.Since(started)
	after := u.redis.numbers("commandstats")
	w.notifications = after["cmdstat_spublish"] - count["cmdstat_spublish"]
	w.scripts = after["cmdstat_evalsha"] - count["cmdstat_evalsha"]
	return w
}

// streamCost measures the CPU time of each message of each stream.
func (b *bench) streamCost(t transport) {
	u := b.start("--matchmaking", "off")
	defer u.stop()
	var floor streams
	defer func() { floor.close() }()
	for range activeStreams {
		s, err := load.OpenEvents(u.Context(), u.floor.HTTP, "/stream")
		u.Must(err)
		floor = append(floor, s)
	}
	event := "event: message\ndata: " + strings.Repeat("x", eventBytes) + "\n\n"
	var pairs []pair
	for round := range b.rounds {
		channel := fmt.Sprintf("crowd-%d", round)
		all := u.streams(t, channel, "s", activeStreams)
		pairs = append(pairs, pair{
			ours: u.server.cpuSeconds(activeStreams*sentMessages, func() {
				u.stream(all, sentMessages, func(n int) { u.publish(channel, n, messageContent) }, func(time.Duration) {})
			}),
			floor: u.floor.cpuSeconds(activeStreams*sentMessages, func() {
				u.stream(floor, sentMessages, func(int) { u.send(u.floor.HTTP, http.MethodPut, "/push", event) }, func(time.Duration) {})
			}),
		})
		all.close()
	}
	ours, bare, ratio := medians(pairs)
	b.printf("| %s | %.1f µs | %.1f µs | %.2f | ≤ %.0f µs | %s |\n", t.name, ours*1e6, bare*1e6, ratio,
		perMessage.Seconds()*1e6, report.Verdict(ours <= perMessage.Seconds()))
	progress("a message of a stream, %s: %.1f µs, %.2f of the floor", t.name, ours*1e6, ratio)
}

// slowStreams measures the latency of streams beside others that aren't read.
func (b *bench) slowStreams(t transport) {
	u := b.start("--matchmaking", "off")
	defer u.stop()
	content := `"` + strings.Repeat("x", slowBytes-2) + `"`
	latencies := func(channel string) (took []time.Duration) {
		readers := u.streams(t, channel, "s", activeStreams)
		defer readers.close()
		var mu sync.Mutex
		u.stream(readers, sentMessages, func(n int) { u.publish(channel, n, content) }, func(latency time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			took = append(took, latency)
		})
		slices.Sort(took)
		return took
	}
	alone := latencies("alone")
	before := u.server.resident()
	unread := u.streams(t, "beside", "slow", activeStreams)
	defer unread.close()
	beside := latencies("beside")
	memory := (u.server.resident() - before) / (2 * activeStreams)
	p99, limit := quantile(beside, 0.99), slowTimes*quantile(alone, 0.99)
	b.printf("| %s | %.1f ms | %.1f ms | %.1f ms | %.1f ms | ≤ %.1f ms | %s | %.0f KB |\n", t.name,
		ms(quantile(alone, 0.5)), ms(quantile(alone, 0.99)), ms(quantile(beside, 0.5)), ms(p99), ms(limit), report.Verdict(p99 <= limit), memory/1000)
	progress("streams beside slow ones, %s: p99 %s, alone %s", t.name, p99, limit/slowTimes)
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }
