package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

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
	open  func(u *system, channel, subscriber string) (*load.Receiver, error)
}

var transports = []transport{
	{"server-sent events", eventsLimit, func(u *system, channel, subscriber string) (*load.Receiver, error) {
		return load.OpenEvents(u.Context(), u.server.HTTP, subscriberPath(channel, subscriber)+"/stream")
	}},
	{"WebSocket", socketLimit, func(u *system, channel, subscriber string) (*load.Receiver, error) {
		return load.OpenSocket(u.Context(), u.server.HTTP, channel, subscriber)
	}},
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

// streams subscribes n subscribers to a channel, and opens a stream for each.
func (u *system) streams(t transport, channel, prefix string, n int) receivers {
	subscriber := func(i int) string { return prefix + strconv.Itoa(i) }
	u.subscribe(n, func(i int) string { return subscriberPath(channel, subscriber(i)) })
	all := u.open(n, func(i int) (*load.Receiver, error) { return t.open(u, channel, subscriber(i)) })
	u.awaitIdle()
	return all
}

func (u *system) publish(channel string, n int, content string) {
	u.request(http.MethodPut, fmt.Sprintf("/v1/channels/%s/messages/m%d", channel, n), content)
}

// deliverAll sends messages, each when all receivers have the one before. It returns how long each took to each
// receiver.
func (u *system) deliverAll(all receivers, send func(n int)) (took []time.Duration) {
	for n := range sentMessages {
		took = append(took, u.deliver(all, func() { send(n) })...)
	}
	return took
}

// idleStreams measures idle streams, and one message to all.
func (b *bench) idleStreams(t transport) {
	w := b.wake(idleStreams, func(u *system, subscriber func(i int) string) receivers {
		all := u.open(idleStreams, func(i int) (*load.Receiver, error) { return t.open(u, wakeChannel, subscriber(i)) })
		u.awaitIdle()
		return all
	})
	b.printf("| %d, %s | %.1f KB | ≤ %.0f KB | %s | %.0f | %.0f | %d ms | ≤ %d ms | %s |\n", idleStreams, t.name,
		w.bytes/1000, t.limit/1000, report.Verdict(w.bytes <= t.limit), w.notifications, w.scripts, w.last.Milliseconds(),
		streamsLast.Milliseconds(), report.Verdict(w.notifications == 1 && w.scripts == 1 && w.last <= streamsLast))
	progress("%d idle streams, %s: %.1f KB, %s", idleStreams, t.name, w.bytes/1000, w.last)
}

// streamCost measures the CPU time of each message of each stream.
func (b *bench) streamCost(t transport) {
	u := b.start("--matchmaking", "off")
	defer u.stop()
	floor := u.open(activeStreams, func(int) (*load.Receiver, error) {
		return load.OpenEvents(u.Context(), u.floor.HTTP, "/stream")
	})
	defer floor.close()
	event := "event: message\ndata: " + strings.Repeat("x", eventBytes) + "\n\n"
	var pairs []pair
	for round := range b.rounds {
		channel := fmt.Sprintf("crowd-%d", round)
		all := u.streams(t, channel, "s", activeStreams)
		pairs = append(pairs, pair{
			ours: perCall(activeStreams*sentMessages, u.server.cpu, func() {
				u.deliverAll(all, func(n int) { u.publish(channel, n, messageContent) })
			}),
			floor: perCall(activeStreams*sentMessages, u.floor.cpu, func() {
				u.deliverAll(floor, func(int) { u.send(u.floor.HTTP, http.MethodPut, "/push", event) })
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
	latencies := func(channel string) []time.Duration {
		readers := u.streams(t, channel, "s", activeStreams)
		defer readers.close()
		return u.deliverAll(readers, func(n int) { u.publish(channel, n, content) })
	}
	alone := latencies("alone")
	before := u.server.resident()
	unread := u.streams(t, "beside", "slow", activeStreams)
	defer unread.close()
	beside := latencies("beside")
	memory := (u.server.resident() - before) / (2 * activeStreams)
	p99, limit := report.Quantile(beside, 0.99), slowTimes*report.Quantile(alone, 0.99)
	b.printf("| %s | %s | %s | %s | %s | ≤ %s | %s | %.0f KB |\n", t.name,
		report.Millis(report.Quantile(alone, 0.5)), report.Millis(report.Quantile(alone, 0.99)),
		report.Millis(report.Quantile(beside, 0.5)), report.Millis(p99), report.Millis(limit),
		report.Verdict(p99 <= limit), memory/1000)
	progress("streams beside slow ones, %s: p99 %s, alone %s", t.name, p99, limit/slowTimes)
}
