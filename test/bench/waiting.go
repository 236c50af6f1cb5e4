package main

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"syscall"

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
	b.printf("\n## Memory of fetches that wait\n\nThe growth of the server's resident memory until the last fetch " +
		"waits. It includes the connection of each fetch and\nthe stacks of its goroutines. While fetches wait, " +
		"the clocks of their channels are read every few seconds, which\nleaves garbage: the last column is the " +
		"size at which Go collects it. Go also collects it every two minutes. GOGC and\nGOMEMLIMIT change this " +
		"size.\n\n" +
		"| fetches | waiting | memory each | goal | | stacks | at most |\n" +
		"|---:|---|---:|---:|---|---:|---:|\n")
	for _, w := range []waiters{
		{name: "on one channel", channels: 1, fetches: n, limit: 25 * 1000},
		{name: "on a channel of its own", channels: n, fetches: n, limit: 22 * 1000},
		{name: "on the same 32 channels", channels: 32, fetches: manyWaits, sources: 32},
		{name: "on 32 channels of its own", channels: 32 * manyWaits, fetches: manyWaits, sources: 32},
		{name: "on the same 256 channels", channels: 256, fetches: manyWaits, sources: 256},
		{name: "on 256 channels of its own", channels: 256 * manyWaits, fetches: manyWaits, sources: 256},
	} {
		m := w.measure(b)
		goal, verdict := "", ""
		if w.limit > 0 {
			goal, verdict = fmt.Sprintf("≤ %.0f KB", w.limit/1000), report.Verdict(m.resident <= w.limit)
		}
		b.printf("| %d | %s | %.1f KB | %s | %s | %.1f KB | %.1f KB |\n",
			w.fetches, w.name, m.resident/1000, goal, verdict, m.stacks/1000, m.limit/1000)
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
