package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// waitingFetches is the number of waiting fetches whose memory is measured, if the process may open as many files.
const waitingFetches = 20_000

// manyWaits is the number of waiting fetches from many channels, each of which may have channels of its own.
const manyWaits = 500

// waiters describes a group of waiting fetches.
type waiters struct {
	name     string
	channels int     // that they wait on
	fetches  int     // together
	sources  int     // channels of each fetch; 0: one, by its own route
	limit    float64 // of resident memory; 0: there is no goal
}

// waitMemory is the memory of the server, in bytes.
type waitMemory struct {
	resident float64
	stacks   float64 // of these, stacks of goroutines
	limit    float64 // size of heap and stacks at which Go's garbage collector runs
}

// waiting lets subscribers wait on one channel, and as many on a channel each.
func waiting(b *bench) {
	n := min(waitingFetches, openFiles()-500)
	b.printf("The growth of the server's resident memory until the last fetch waits. It includes the connection of each " +
		"fetch and\nthe stacks of its goroutines. While fetches wait, the clocks of their channels are read every few " +
		"seconds, which\nleaves garbage: the last column is the size at which Go collects it. Go also collects it every two " +
		"minutes. GOGC and\nGOMEMLIMIT change this size.\n\n")
	b.table("fetches: | waiting | memory each: | goal: |  | stacks: | at most:")
	for _, w := range []waiters{
		{name: "on one channel", channels: 1, fetches: n, limit: 25 * 1000},
		{name: "on a channel of its own", channels: n, fetches: n, limit: 22 * 1000},
		{name: "on the same 32 channels", channels: 32, fetches: manyWaits, sources: 32},
		{name: "on 32 channels of its own", channels: 32 * manyWaits, fetches: manyWaits, sources: 32},
		{name: "on the same 256 channels", channels: 256, fetches: manyWaits, sources: 256},
		{name: "on 256 channels of its own", channels: 256 * manyWaits, fetches: manyWaits, sources: 256},
	} {
		m := w.measure(b)
		var goal, verdict any = "", ""
		if w.limit > 0 {
			goal, verdict = fmt.Sprintf("≤ %.0f KB", w.limit/1000), m.resident <= w.limit
		}
		b.row(w.fetches, w.name, kilobytes(m.resident), goal, verdict, kilobytes(m.stacks), kilobytes(m.limit))
	}
}

// measure returns the memory for each fetch. It uses a server of its own, so that only the fetches add to its memory.
// They wait so long that the first one still waits when the last one has begun.
func (w *waiters) measure(b *bench) waitMemory {
	u := b.start("--matchmaking", "off", "--max-connections", fmt.Sprint(w.fetches+100), "--max-wait", "10m")
	defer u.stop()
	each := max(w.sources, 1)
	u.subscribe(w.fetches*each, func(i int) string { return w.path(i/each, i%each) })
	before := u.waitMemory()
	defer u.poll(w.fetches, w.request).Close()
	after, n := u.waitMemory(), float64(w.fetches)
	return waitMemory{(after.resident - before.resident) / n, (after.stacks - before.stacks) / n,
		(after.limit - before.limit) / n}
}

// waitMemory returns the memory of the whole server.
func (u *system) waitMemory() waitMemory {
	m := waitMemory{resident: u.server.resident(), stacks: u.server.metric("go_memstats_stack_inuse_bytes")}
	m.limit = u.server.metric("go_memstats_next_gc_bytes") + m.stacks
	return m
}

// channel returns one of the channels that a fetch waits on.
func (w *waiters) channel(fetch, source int) string {
	return fmt.Sprintf("wait-%d", (fetch*max(w.sources, 1)+source)%w.channels)
}

func (w *waiters) path(fetch, source int) string {
	return subscriberPath(w.channel(fetch, source), fmt.Sprintf("s%d", fetch))
}

// request returns the request of a waiting fetch.
func (w *waiters) request(fetch int) []byte {
	if w.sources == 0 {
		return load.Request(http.MethodGet, w.path(fetch, 0)+"/messages?wait=10m", "")
	}
	from := make([]string, w.sources)
	for i := range from {
		from[i] = fmt.Sprintf(`{"channel":%q,"subscriber":"s%d"}`, w.channel(fetch, i), fetch)
	}
	return load.Request(http.MethodPost, "/v1/fetch", `{"wait":"10m","from":[`+strings.Join(from, ",")+`]}`)
}

// openFiles returns how many files this process may have open. The server inherits the limit.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) >= math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}

// lastLimit is until when the last one must have a message, from the project's goals.
const lastLimit = 150 * time.Millisecond

// fanOut lets many subscribers wait on one channel and publishes one message to it.
func fanOut(b *bench) {
	b.printf("One message is published, and every waiting long poll receives it.\n\n")
	b.table("waiting: | notifications: | scripts, the publish included: | last one answered after: | goal: | memory each: | " +
		"goal: | ")
	for _, waiters := range []int{1000, 5000} {
		var rounds []wakeUp
		for range b.rounds {
			rounds = append(rounds, b.wake(waiters))
		}
		w := medianRound(rounds, func(w wakeUp) time.Duration { return w.last })
		b.row(waiters, w.notifications, w.scripts, report.WholeMillis(w.last), atMost(lastLimit, report.WholeMillis),
			kilobytes(w.bytes), fmt.Sprintf("≤ %d KB", idleLimit/1000),
			w.notifications == 1 && w.scripts == 1 && w.last <= lastLimit && w.bytes <= idleLimit)
	}
	b.printf("\nMemory is the growth of the server's resident memory, connection included, divided by the number " +
		"of subscribers.\nEach row is the round with the median time, which includes the work of the clients on " +
		"the same cores.\n")
}

// wakeUp is the cost of delivering one message to many waiting subscribers.
type wakeUp struct {
	notifications float64       // SPUBLISH calls
	scripts       float64       // EVALSHA calls, the publish itself included
	last          time.Duration // from the publish's start until the last subscriber has the message
	bytes         float64       // of the server's resident memory per waiting subscriber, its connection included
}

// wakeChannel is the channel of the subscribers that wait.
const wakeChannel = "crowd"

// wake measures n long polls on one channel. It uses a server of its own, so that only these add to its memory.
func (b *bench) wake(n int) (w wakeUp) {
	a := openPolls(b, n)
	defer a.close()
	a.awaitWaiting(n)
	a.awaitIdle()
	w.bytes = a.memory
	w.notifications, w.scripts = -a.redis.calls("spublish"), -a.redis.calls("evalsha")
	w.last = slices.Max(a.send(1, 1, 0))
	w.notifications, w.scripts = w.notifications+a.redis.calls("spublish"), w.scripts+a.redis.calls("evalsha")
	return w
}

// pollGroups is the number of groups in which requests begin to wait. All at once, each from many channels, could take
// the server longer than it lets a request take.
const pollGroups = 20

// poll opens n connections, sends a request on each, and returns when all of them wait.
func (u *system) poll(n int, request func(i int) []byte) *load.Crowd {
	crowd := u.openCrowd(u.server, 0, nil)
	for crowd.Len() < n {
		u.Must(crowd.Open(u.Context(), min(n/pollGroups+1, n-crowd.Len()), func(i int) []load.Step {
			return []load.Step{{Send: request(i)}}
		}))
		u.awaitWaiting(crowd.Len())
	}
	u.awaitIdle()
	return crowd
}

// awaitWaiting returns when n fetches wait.
func (u *system) awaitWaiting(n int) {
	u.await(strconv.Itoa(n)+" fetches wait", func() bool { return int(u.server.metric("tidemark_waiting_fetches")) == n })
}

// The numbers of idle queues, waiters and channels whose cost is measured.
const (
	idleQueues   = 1000
	idleWaiters  = 10_000
	idleChannels = 1000 // of the waiters
	idleWindow   = 10 * time.Second
)

// Limits of their cost, from the project's goals.
const (
	idleServiceLimit  = 30 * 1000 * 1000
	idleBytesLimit    = 30 * 1000
	idleCommandsLimit = 5
)

// idleCommands are the commands that idle queues can cause. Scripts run none of them.
var idleCommands = []string{"evalsha", "eval", "hgetall", "xread", "xtrim", "ssubscribe"}

// idle measures what unused queues, and then waiting subscribers too, cost a server.
func idle(b *bench) {
	u := b.start("--max-connections", fmt.Sprint(idleWaiters+100))
	defer u.stop()
	u.sleep(idleWindow)
	alone := u.server.resident()
	bytes, connections := alone, u.redis.connections()
	u.repeatAt(u.server.Admin, idleQueues, func(n int) []byte {
		return load.Request(http.MethodPut, fmt.Sprintf("/v1/queues/idle-%d", n), `{}`)
	})
	u.await("the server listens to all queues", func() bool {
		topics, err := u.redis.do("PUBSUB", "SHARDCHANNELS").AsStrSlice()
		u.Must(err)
		return len(topics) >= idleQueues
	})
	bytes = (u.server.resident() - bytes) / idleQueues
	withQueues := u.redis.connections()
	calls := u.redis.calls(idleCommands...)
	u.sleep(idleWindow)
	commands := (u.redis.calls(idleCommands...) - calls) / idleWindow.Seconds()

	path := func(i int) string {
		return subscriberPath(fmt.Sprintf("idle-%d", i%idleChannels), fmt.Sprintf("s%d", i))
	}
	u.subscribe(idleWaiters, path)
	polls := u.poll(idleWaiters, func(i int) []byte {
		return load.Request(http.MethodGet, path(i)+"/messages?wait=60s", "")
	})
	defer polls.Close()
	withWaiters := u.redis.connections()

	b.table("idle | memory each: | goal: | commands a second: | goal: | connections to Redis before: | with them: | ")
	b.row("the service itself", fmt.Sprintf("%.1f MB", alone/1e6), fmt.Sprintf("≤ %d MB", idleServiceLimit/1_000_000),
		"", "", "", "", alone <= idleServiceLimit)
	b.row(fmt.Sprintf("%d queues", idleQueues), kilobytes(bytes), fmt.Sprintf("≤ %d KB", idleBytesLimit/1000),
		fmt.Sprintf("%.1f", commands), fmt.Sprintf("≤ %d", idleCommandsLimit), connections, withQueues,
		bytes <= idleBytesLimit && commands <= idleCommandsLimit && withQueues <= connections+1)
	b.row(fmt.Sprintf("and %d long polls on %d channels", idleWaiters, idleChannels), "", "", "", "", withQueues,
		withWaiters, withWaiters <= withQueues+1)
}

// The abuse of the server: the number of HTTP/2 connections that open long polls and reset them, and its duration.
const (
	resetConnections = 8
	resetTime        = 8 * time.Second
	resetLimit       = 150e6 // bytes of the server's memory
)

// abuse measures the memory of a server whose clients open requests and reset them, while another client publishes.
func abuse(b *bench) {
	u := b.start()
	defer u.stop()
	u.request(http.MethodPut, "/v1/channels/abuse/subscribers/s", "")
	before := u.server.resident()
	attack, cancel := context.WithTimeout(b.Context(), resetTime)
	defer cancel()
	var attackers errgroup.Group
	var resets atomic.Int64
	for range resetConnections {
		attackers.Go(func() error { return resetStreams(attack, u.server.HTTP, &resets) })
	}
	highest, published := 0.0, 0
	for ; attack.Err() == nil; published++ {
		a := u.request(http.MethodPut, fmt.Sprintf("/v1/channels/bystander/messages/m%d", published), `"x"`)
		if a.Status != http.StatusCreated {
			b.Fatalf("a publish beside resets was answered %d", a.Status)
		}
		highest = max(highest, u.server.resident())
	}
	b.Must(attackers.Wait())
	b.printf("%d HTTP/2 connections open long polls and reset them for %.0f seconds, while another client publishes.\n\n",
		resetConnections, resetTime.Seconds())
	b.table("resets: | memory before: | at most: | goal: | publishes, all answered 201: | ")
	mb := func(bytes float64) string { return fmt.Sprintf("%.0f MB", bytes/1e6) }
	b.row(resets.Load(), mb(before), mb(highest), "≤ "+mb(resetLimit), published, highest <= resetLimit)
}

// resetStreams opens and resets streams until ctx ends, on a new connection whenever the server has closed the last.
func resetStreams(ctx context.Context, address string, resets *atomic.Int64) error {
	for ctx.Err() == nil {
		c, err := load.DialFlood(ctx, address, true)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for err == nil && ctx.Err() == nil {
			if err = c.Resets("/v1/channels/abuse/subscribers/s/messages?wait=1m", 100); err == nil {
				resets.Add(100)
			}
		}
		c.Close()
	}
	return nil
}
