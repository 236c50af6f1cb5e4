package main

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// The numbers of streams and messages that are measured.
const (
	idleStreams   = 5000
	mostStreams   = 100_000
	lastMessages  = 5 // to idle streams
	streamRounds  = 3
	activeStreams = 1000
	sentMessages  = 100 // fewer than a window
	sentPace      = time.Second / 20
	slowBytes     = 4096 // of a message beside slow readers
	bareBytes     = 490  // of a message of the bare handler, unless it is compared
)

// Limits of the cost of streams, from the project's goals.
const (
	idleLimit   = 8 * 1000 // bytes of an idle stream
	mostLimit   = 1e9      // bytes of 100,000 idle streams
	lastRatio   = 40. / 58 // of the time of Mercure
	lastAlone   = 40 * time.Millisecond
	costRatio   = 1.0 // times the CPU time of a bare handler
	slowTimes   = 2   // times the p99 without slow readers
	streamIntro = "\n## Streams\n\n%d subscribers of one channel, each with a stream of its own over HTTP/1.1, unless the " +
		"row says otherwise. Memory is the\ngrowth of the server's resident memory while nothing is sent, connections " +
		"included. Then %d messages of %d bytes are\npublished, each when all have the one before. The last one has a " +
		"message so long after the beginning of its publish. All\nservers take turns; the medians of %d rounds. The bare " +
		"handler has a goroutine and a Go channel for each stream, which\nnet/http serves. Peers keep the messages in memory, " +
		"or in a file of their own (Mercure). Goals: below both peers, and\nat most 0.69 of Mercure's time, or %d ms if " +
		"there is no Mercure.\n\n" +
		"| streams | memory each | goal | | last one has it after | goal | |\n|---|---:|---:|---|---:|---:|---|\n"
	costIntro = "\nCPU time of the server for each message of each of %d streams, while %d messages a second are " +
		"published. The bare\nhandler writes as many bytes to as many streams. All take turns; the medians of %d rounds.\n\n" +
		"| streams | bytes | server | bare handler | ratio | goal | |\n|---|---:|---:|---:|---:|---:|---|\n"
	slowIntro = "\n%d streams that are read, beside as many whose clients read nothing. %d messages of %d bytes are " +
		"published, each\nwhen all readers have the one before. Latency is the time from the beginning of the publish to a " +
		"reader.\n\n| streams | p50 | p99 | p50 beside slow ones | p99 | goal | | memory for each slow one |\n" +
		"|---|---:|---:|---:|---:|---:|---|---:|\n"
)

// crowdContent is a JSON string of 256 bytes that a crowd recognizes.
var crowdContent = markedContent(contentBytes)

// markedContent returns a JSON string of n bytes that a crowd recognizes.
func markedContent(n int) string { return `"` + marked(n-2) + `"` }

// marked returns a text of n bytes that a crowd recognizes.
func marked(n int) string { return strings.Repeat("x", n-len(load.Marker)) + load.Marker }

// audience is the streams of one server.
type audience struct {
	*system
	crowd     *load.Crowd
	process   *service
	publisher *load.Conn
	request   load.Maker // publishes the n-th message
	memory    float64    // bytes for each stream
}

// stage is a way to send messages on streams.
type stage struct {
	name string
	ours bool
	once bool // a stream ends with its first message
	open func(b *bench, n int) *audience
}

// stages returns those that can be measured.
func (b *bench) stages() []stage {
	all := []stage{
		{name: "server-sent events", ours: true, open: openEvents},
		{name: "WebSocket", ours: true, open: openSockets},
		{name: "bare handler, server-sent events", open: openBare(bareBytes)},
	}
	if b.centrifugoProgram() != "" {
		peer := func(steps func(int) []load.Step) func(b *bench, n int) *audience {
			return func(b *bench, n int) *audience {
				u := b.startAlone()
				return u.gather(u.startCentrifugo(), n, steps, centrifugoPublish)
			}
		}
		all = append(all, stage{name: "Centrifugo, server-sent events", open: peer(centrifugoEvents)},
			stage{name: "Centrifugo, WebSocket", open: peer(centrifugoSocket)})
	}
	if b.peers.mercure != "" {
		all = append(all, stage{name: "Mercure, server-sent events", open: func(b *bench, n int) *audience {
			u := b.startAlone()
			return u.gather(u.startMercure(), n, mercureEvents, b.mercurePublish())
		}})
	}
	return all
}

// gather opens n streams of a server.
func (u *system) gather(process *service, n int, steps func(i int) []load.Step, publish load.Maker) *audience {
	before := process.Resident()
	a := &audience{system: u, process: process, request: publish, crowd: u.openCrowd(process, n, steps)}
	if u.server != nil {
		u.awaitIdle()
	}
	a.memory = float64(process.Resident()-before) / float64(n)
	var err error
	a.publisher, err = load.Dial(u.Context(), process.HTTP)
	u.Must(err)
	return a
}

func (u *system) openCrowd(process *service, n int, steps func(i int) []load.Step) *load.Crowd {
	crowd, err := load.NewCrowd(process.HTTP)
	u.Must(err)
	u.Cleanup(crowd.Close) // if the part fails
	u.Must(crowd.Open(u.Context(), n, steps))
	return crowd
}

func (a *audience) close() {
	a.publisher.Close()
	a.crowd.Close()
	a.stop()
}

// openEvents opens streams of server-sent events of this service.
func openEvents(b *bench, n int) *audience { return b.gatherOurs(n, eventSteps(wakeChannel)) }

// openSockets opens WebSockets with a subscription each.
func openSockets(b *bench, n int) *audience { return b.gatherOurs(n, socketSteps(wakeChannel)) }

// openPolls opens long polls.
func openPolls(b *bench, n int) *audience {
	return b.gatherOurs(n, func(i int) []load.Step {
		path := subscriberPath(wakeChannel, subscriberName(i))
		return []load.Step{{Send: load.Request(http.MethodGet, path+"/messages?wait=60s", "")}}
	})
}

func (b *bench) gatherOurs(n int, steps func(i int) []load.Step) *audience {
	u := b.start("--matchmaking", "off")
	u.subscribe(n, func(i int) string { return subscriberPath(wakeChannel, subscriberName(i)) })
	return u.gather(u.server, n, steps, func(n int) []byte { return publishRequest(wakeChannel, n, crowdContent) })
}

// openBare opens streams of a bare handler, which sends a number of bytes on each.
func openBare(bytes int) func(b *bench, n int) *audience {
	return func(b *bench, n int) *audience {
		const chunk = len("1ff\r\n\r\n") // around the bytes of a response without a length
		u := b.startAlone()
		u.startFloor()
		return u.gather(u.floor, n, func(int) []load.Step { return load.EventsSteps("/stream") }, func(int) []byte {
			return load.Request(http.MethodPut, "/push", marked(bytes-chunk))
		})
	}
}

func subscriberName(i int) string { return "s" + strconv.Itoa(i) }

func eventSteps(channel string) func(i int) []load.Step {
	return func(i int) []load.Step {
		return load.EventsSteps(subscriberPath(channel, subscriberName(i)) + "/stream")
	}
}

func socketSteps(channel string) func(i int) []load.Step {
	return func(i int) []load.Step { return load.SubscribeSteps(channel, subscriberName(i)) }
}

// publishRequest is a request that publishes the n-th message.
func publishRequest(channel string, n int, content string) []byte {
	return load.Request(http.MethodPut, fmt.Sprintf("/v1/channels/%s/messages/m%d", channel, n), content)
}

func (u *system) publish(channel string, n int, content string) {
	_, err := load.Once(u.Context(), u.server.HTTP, publishRequest(channel, n, content))
	u.Must(err)
}

// send publishes messages, at a pace, and returns how long each stream took to have the last one. It numbers them from
// first.
func (a *audience) send(first, messages int, every time.Duration) []time.Duration {
	took, err := a.crowd.Receive(a.Context(), messages, func() error {
		started := time.Now()
		for n := range messages {
			pace.Sleep(a.Context(), time.Until(started.Add(time.Duration(n)*every)))
			if _, err := a.publisher.Do(a.request(first + n)); err != nil {
				return err
			}
		}
		return nil
	})
	a.Must(err)
	return took
}

// measureStreams measures streams by each transport.
func measureStreams(b *bench) {
	b.printf(streamIntro, idleStreams, lastMessages, contentBytes, min(b.rounds, streamRounds), lastAlone.Milliseconds())
	stages := b.stages()
	b.idleStreams(stages)
	b.mostStreams()
	b.printf(costIntro, activeStreams, time.Second/sentPace, min(b.rounds, streamRounds))
	b.streamCosts(stages)
	b.unmeasured()
	b.printf(slowIntro, activeStreams, sentMessages, slowBytes)
	b.slowStreams("server-sent events", eventSteps)
	b.slowStreams("WebSocket", socketSteps)
}

// unmeasured names the peers that were not measured.
func (b *bench) unmeasured() {
	if b.peers.centrifugo == "" {
		b.printf("\nCentrifugo was not measured: its modules could not be downloaded.\n")
	}
	if b.peers.mercure == "" {
		b.printf("\nMercure was not measured: there is no program of it (option `-mercure`).\n")
	}
}

// idled is the cost of idle streams, and how long the last of them took to have a message.
type idled struct {
	bytes float64
	last  time.Duration
}

// idleStreams measures idle streams, and messages to all.
func (b *bench) idleStreams(stages []stage) {
	stages = append(slices.Clone(stages), stage{name: "long poll", ours: true, once: true, open: openPolls})
	rounds := make(map[string][]idled)
	for range min(b.rounds, streamRounds) {
		for _, s := range stages {
			rounds[s.name] = append(rounds[s.name], b.idleOnce(s))
		}
	}
	limit := time.Duration(math.MaxInt64)
	if b.peers.mercure == "" {
		limit = lastAlone
	}
	for _, s := range stages {
		last := median(rounds[s.name], func(i idled) time.Duration { return i.last })
		switch {
		case strings.HasPrefix(s.name, "Mercure"):
			limit = min(limit, time.Duration(float64(last)*lastRatio))
		case strings.HasPrefix(s.name, "Centrifugo"):
			limit = min(limit, last)
		}
	}
	for _, s := range stages {
		bytes := median(rounds[s.name], func(i idled) float64 { return i.bytes })
		last := median(rounds[s.name], func(i idled) time.Duration { return i.last })
		goals := [4]string{}
		if s.ours {
			goals[0], goals[1] = fmt.Sprintf("≤ %d KB", idleLimit/1000), report.Verdict(bytes <= idleLimit)
		}
		if s.ours && !s.once {
			goals[2], goals[3] = "≤ "+report.Millis(limit), report.Verdict(last <= limit)
		}
		b.printf("| %s | %.1f KB | %s | %s | %s | %s | %s |\n", s.name, bytes/1000, goals[0], goals[1],
			report.Millis(last), goals[2], goals[3])
		progress("%d idle streams, %s: %.1f KB, %s", idleStreams, s.name, bytes/1000, report.Millis(last))
	}
	b.printf("| server-sent events over HTTP/2, 100 on a connection | %.1f KB | | | | | |\n", b.multiplexed()/1000)
}

func (b *bench) idleOnce(s stage) (found idled) {
	a := s.open(b, idleStreams)
	defer a.close()
	messages := lastMessages
	if s.once {
		messages = 1
	}
	var lasts []time.Duration
	for n := range messages {
		lasts = append(lasts, slices.Max(a.send(n, 1, 0)))
	}
	found = idled{bytes: a.memory, last: report.Quantile(lasts, 0.5)}
	progress("%s: %.1f KB, %s", s.name, found.bytes/1000, lasts)
	return found
}

// multiplexed returns the memory of an idle stream of server-sent events over HTTP/2.
func (b *bench) multiplexed() float64 {
	const connections = idleStreams / 100
	u := b.start("--matchmaking", "off")
	defer u.stop()
	u.subscribe(idleStreams, func(i int) string { return subscriberPath(wakeChannel, subscriberName(i)) })
	before := u.server.Resident()
	for i := range connections {
		c, err := load.DialFlood(u.Context(), u.server.HTTP, true)
		u.Must(err)
		defer c.Close()
		for n := range idleStreams / connections {
			u.Must(c.Gets(subscriberPath(wakeChannel, subscriberName(i*100+n))+"/stream", 1))
		}
		u.await("streams are open", func() bool {
			return int(u.server.labelled("tidemark_streams", "transport")["sse"]) == (i+1)*100
		})
	}
	u.awaitIdle()
	bytes := float64(u.server.Resident()-before) / idleStreams
	progress("HTTP/2: %.1f KB", bytes/1000)
	return bytes
}

// mostStreams measures the memory of as many idle streams as one server may have here.
func (b *bench) mostStreams() {
	n := min(mostStreams, openFiles()-500)
	a := openEvents(b, n)
	defer a.close()
	all, why := a.memory*mostStreams, ""
	if n < mostStreams {
		why = fmt.Sprintf(", in proportion to %d, since a process may have only %d files here", n, openFiles())
	}
	b.printf("\n%d idle streams of server-sent events use %.2f GB%s (goal ≤ %.0f GB, %s).\n", mostStreams, all/1e9, why,
		mostLimit/1e9, report.Verdict(all <= mostLimit))
	progress("%d idle streams: %.1f KB each", n, a.memory/1000)
}

// cost is the CPU time for a message of a stream, and its size.
type cost struct {
	pair
	bytes float64
}

// streamCosts measures the CPU time of each message of each stream.
func (b *bench) streamCosts(stages []stage) {
	rounds := make(map[string][]cost)
	for range min(b.rounds, streamRounds) {
		for _, s := range stages {
			if strings.HasPrefix(s.name, "bare") {
				continue
			}
			c := b.streamCost(s.open)
			if s.ours {
				c.floor = b.streamCost(openBare(int(c.bytes))).ours
			}
			rounds[s.name] = append(rounds[s.name], c)
		}
	}
	for _, s := range stages {
		found := rounds[s.name]
		if found == nil {
			continue
		}
		var pairs []pair
		for _, c := range found {
			pairs = append(pairs, c.pair)
		}
		ours, bare, ratio := medians(pairs)
		against := " | | | "
		if s.ours {
			against = fmt.Sprintf("%.1f µs | %.2f | ≤ %.1f | %s", bare*1e6, ratio, costRatio, report.Verdict(ratio <= costRatio))
		}
		bytes := median(found, func(c cost) float64 { return c.bytes })
		b.printf("| %s | %.0f | %.1f µs | %s |\n", s.name, bytes, ours*1e6, against)
		progress("a message of a stream, %s: %.0f bytes, %.1f µs%s", s.name, bytes, ours*1e6, strings.TrimRight(against, "| "))
	}
}

// streamCost measures one round.
func (b *bench) streamCost(open func(b *bench, n int) *audience) (c cost) {
	a := open(b, activeStreams)
	defer a.close()
	a.send(0, 1, 0)
	a.crowd.Bytes = 0
	c.ours = perCall(activeStreams*sentMessages, a.process.cpu, func() { a.send(1, sentMessages, sentPace) })
	c.bytes = float64(a.crowd.Bytes) / (activeStreams * sentMessages)
	return c
}

// slowStreams measures the latency of streams beside others that aren't read.
func (b *bench) slowStreams(name string, steps func(channel string) func(i int) []load.Step) {
	u := b.start("--matchmaking", "off")
	defer u.stop()
	content := markedContent(slowBytes)
	open := func(channel string) *load.Crowd {
		u.subscribe(activeStreams, func(i int) string { return subscriberPath(channel, subscriberName(i)) })
		crowd := u.openCrowd(u.server, activeStreams, steps(channel))
		u.awaitIdle()
		return crowd
	}
	latencies := func(readers *load.Crowd, channels ...string) (all []time.Duration) {
		for n := range sentMessages {
			took, err := readers.Receive(u.Context(), 1, func() error {
				for _, channel := range channels {
					if _, err := load.Once(u.Context(), u.server.HTTP, publishRequest(channel, n, content)); err != nil {
						return err
					}
				}
				return nil
			})
			u.Must(err)
			all = append(all, took...)
		}
		return all
	}
	first := open("alone")
	alone := latencies(first, "alone")
	first.Close()
	before := u.server.resident()
	defer open("unread").Close()
	readers := open("beside")
	defer readers.Close()
	beside := latencies(readers, "beside", "unread")
	memory := (u.server.resident() - before) / (2 * activeStreams)
	p99, limit := report.Quantile(beside, 0.99), slowTimes*report.Quantile(alone, 0.99)
	b.printf("| %s | %s | %s | %s | %s | ≤ %s | %s | %.0f KB |\n", name,
		report.Millis(report.Quantile(alone, 0.5)), report.Millis(report.Quantile(alone, 0.99)),
		report.Millis(report.Quantile(beside, 0.5)), report.Millis(p99), report.Millis(limit),
		report.Verdict(p99 <= limit), memory/1000)
	progress("streams beside slow ones, %s: p99 %s, alone %s", name, p99, limit/slowTimes)
}
