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
	maxStreams    = 100_000
	settleTime    = 5 * time.Second // before memory is read, in which processes return what they don't need
	lastMessages  = 5               // to idle streams
	streamRounds  = 3
	activeStreams = 1000
	sentMessages  = 100 // fewer than a window
	sentPace      = time.Second / 20
	slowBytes     = 4096 // of a message beside slow readers
	bareBytes     = 490  // of a message of the bare handler, unless it is compared
)

// Limits of the cost of streams, from the project's goals.
const (
	idleLimit = 8 * 1000 // bytes of an idle stream
	maxLimit  = 1e9      // bytes of 100,000 idle streams
	lastRatio = 40. / 58 // of the time of Mercure
	lastAlone = 40 * time.Millisecond
	costRatio = 1.0 // times the CPU time of a bare handler
	slowTimes = 2   // times the p99 without slow readers
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
	name  string
	ours  bool
	once  bool    // a stream ends with its first message
	limit float64 // the time until the last stream has a message, as a multiple of that of this peer; 0: it is none
	open  func(b *bench, n int) *audience
}

// stages returns those that can be measured.
func (b *bench) stages() []stage {
	all := []stage{
		{name: "server-sent events", ours: true, open: openEvents},
		{name: "WebSocket", ours: true, open: openSockets},
		{name: "bare handler, server-sent events", open: openBare(bareBytes)},
	}
	peer := func(start func(u *system) *service, steps func(int) []load.Step, publish load.Maker) func(*bench, int) *audience {
		return func(b *bench, n int) *audience {
			u := b.startAlone(&redisServers{bench: b})
			return u.gather(start(u), n, steps, publish)
		}
	}
	if b.centrifugoProgram() != "" {
		all = append(all,
			stage{name: "Centrifugo, server-sent events", limit: 1,
				open: peer((*system).startCentrifugo, centrifugoEvents, centrifugoPublish)},
			stage{name: "Centrifugo, WebSocket", limit: 1,
				open: peer((*system).startCentrifugo, centrifugoSocket, centrifugoPublish)})
	}
	if b.peers.mercure != "" {
		all = append(all, stage{name: "Mercure, server-sent events", limit: lastRatio,
			open: peer((*system).startMercure, mercureEvents, b.mercurePublish())})
	}
	return all
}

// gather opens n streams of a server.
func (u *system) gather(process *service, n int, steps func(i int) []load.Step, publish load.Maker) *audience {
	u.sleep(settleTime)
	before := process.resident()
	a := &audience{system: u, process: process, request: publish, crowd: u.openCrowd(process, n, steps)}
	if u.server != nil {
		u.awaitIdle()
	}
	u.sleep(settleTime)
	a.memory = (process.resident() - before) / float64(n)
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
		u := b.startAlone(&redisServers{bench: b})
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
	stages := b.stages()
	b.idleStreams(append(slices.Clone(stages), stage{name: "long poll", ours: true, once: true, open: openPolls}))
	b.manyStreams()
	b.streamCosts(slices.DeleteFunc(stages, func(s stage) bool { return strings.HasPrefix(s.name, "bare") }))
	if b.peers.centrifugo == "" {
		b.printf("\nCentrifugo was not measured: its modules could not be downloaded.\n")
	}
	if b.peers.mercure == "" {
		b.printf("\nMercure was not measured: there is no program of it (option `-mercure`).\n")
	}
	b.printf("\n%d streams that are read, beside as many whose clients read nothing. %d messages of %d bytes are "+
		"published, each\nwhen all readers have the one before. Latency is the time from the beginning of the publish to a "+
		"reader.\n\n", activeStreams, sentMessages, slowBytes)
	b.table("streams | p50: | p99: | p50 beside slow ones: | p99: | goal: |  | memory for each slow one:")
	b.slowStreams("server-sent events", eventSteps)
	b.slowStreams("WebSocket", socketSteps)
}

// idled is the cost of idle streams, and how long the last of them took to have a message.
type idled struct {
	bytes float64
	last  time.Duration
}

// idleStreams measures idle streams, and messages to all.
func (b *bench) idleStreams(stages []stage) {
	rounds := min(b.rounds, streamRounds)
	b.printf("%d subscribers of one channel, each with a stream of its own over HTTP/1.1, unless the row says otherwise. "+
		"Memory is the\ngrowth of the server's resident memory, connections included, %.0f seconds after the last one has "+
		"opened its stream. Then\n%d messages of %d bytes are published, each when all have the one before. The last one has a message so long after the "+
		"beginning of its publish. All\nservers take turns; the medians of %d rounds. The bare handler has a goroutine and a "+
		"Go channel for each stream, which\nnet/http serves. Peers keep the messages in memory, or in a file of their own "+
		"(Mercure). Goals: below both peers, and\nat most 0.69 of Mercure's time, or %d ms if there is no Mercure.\n\n",
		idleStreams, settleTime.Seconds(), lastMessages, contentBytes, rounds, lastAlone.Milliseconds())
	b.table("streams | memory each: | goal: |  | last one has it after: | goal: | ")
	found := turns(rounds, stages, func(_ int, s stage) idled { return b.idleOnce(s) })
	last := func(i int) time.Duration { return median(found[i], func(r idled) time.Duration { return r.last }) }
	limit := time.Duration(math.MaxInt64)
	if b.peers.mercure == "" {
		limit = lastAlone
	}
	for i, s := range stages {
		if s.limit > 0 {
			limit = min(limit, time.Duration(float64(last(i))*s.limit))
		}
	}
	for i, s := range stages {
		bytes := median(found[i], func(r idled) float64 { return r.bytes })
		goals := [4]any{"", "", "", ""}
		if s.ours {
			goals[0], goals[1] = fmt.Sprintf("≤ %d KB", idleLimit/1000), bytes <= idleLimit
		}
		if s.ours && !s.once {
			goals[2], goals[3] = atMost(limit, report.Millis), last(i) <= limit
		}
		b.row(s.name, kilobytes(bytes), goals[0], goals[1], last(i), goals[2], goals[3])
	}
	b.row("server-sent events over HTTP/2, 100 on a connection", kilobytes(b.multiplexed()), "", "", "", "", "")
}

func (b *bench) idleOnce(s stage) idled {
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
	return idled{bytes: a.memory, last: report.Quantile(lasts, 0.5)}
}

// multiplexed returns the memory of an idle stream of server-sent events over HTTP/2.
func (b *bench) multiplexed() float64 {
	const connections = idleStreams / 100
	u := b.start("--matchmaking", "off")
	defer u.stop()
	u.subscribe(idleStreams, func(i int) string { return subscriberPath(wakeChannel, subscriberName(i)) })
	before := u.server.resident()
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
	return (u.server.resident() - before) / idleStreams
}

// manyStreams measures the memory of as many idle streams as one server may have here.
func (b *bench) manyStreams() {
	n := min(maxStreams, openFiles()-500)
	a := openEvents(b, n)
	defer a.close()
	all, why := a.memory*maxStreams, ""
	if n < maxStreams {
		why = fmt.Sprintf(", in proportion to %d, since a process may have only %d files here", n, openFiles())
	}
	b.printf("\n%d idle streams of server-sent events use %.2f GB%s (goal ≤ %.0f GB, %s).\n", maxStreams, all/1e9, why,
		maxLimit/1e9, report.Verdict(all <= maxLimit))
}

// cost is the CPU time for a message of a stream, and its size.
type cost struct {
	pair
	bytes float64
}

// streamCosts measures the CPU time of each message of each stream.
func (b *bench) streamCosts(stages []stage) {
	rounds := min(b.rounds, streamRounds)
	b.printf("\nCPU time of the server for each message of each of %d streams, while %d messages a second are published. The "+
		"bare\nhandler writes as many bytes to as many streams. All take turns; the medians of %d rounds.\n\n", activeStreams,
		time.Second/sentPace, rounds)
	b.table("streams | bytes: | server: | bare handler: | ratio: | goal: | ")
	costs := turns(rounds, stages, func(_ int, s stage) cost {
		c := b.streamCost(s.open)
		if s.ours {
			c.floor = b.streamCost(openBare(int(c.bytes))).ours
		}
		return c
	})
	for i, s := range stages {
		bytes := median(costs[i], func(c cost) float64 { return c.bytes })
		pairs := make([]pair, len(costs[i]))
		for round, c := range costs[i] {
			pairs[round] = c.pair
		}
		if s.ours {
			b.compared(fmt.Sprintf("%s | %.0f", s.name, bytes), pairs, costRatio)
			continue
		}
		b.row(s.name, bytes, report.Tenths(median(pairs, func(p pair) time.Duration { return p.ours })), "", "", "", "")
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
	b.row(name, report.Quantile(alone, 0.5), report.Quantile(alone, 0.99), report.Quantile(beside, 0.5), p99,
		atMost(limit, report.Millis), p99 <= limit, fmt.Sprintf("%.0f KB", memory/1000))
}
