package channels

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
)

// waitingFetches is how many fetches wait while their memory is measured, if the process may open as many files.
const waitingFetches = 20_000

// manyWaits is how many fetches from many channels wait, each of which may have channels of its own.
const manyWaits = 500

// waitingLimit is how long they may wait.
const waitingLimit = 5 * time.Minute

// waiting is the memory of fetches that wait.
type waiting struct {
	name     string
	channels int // that they wait on
	fetches  int // together
	sources  int // channels of each fetch; 0: one, by its own route
	memory   memory
	limit    float64 // of resident memory; 0: there is no goal
}

// memory is bytes of the server, for each fetch.
type memory struct {
	resident float64 // when the last one has begun to wait; its connection included
	stacks   float64 // of these, stacks of goroutines
	most     float64 // to which the heap and the stacks may grow before Go's garbage collector runs
}

// Waiting lets subscribers wait on one channel, and as many on a channel each.
func Waiting(ctx context.Context, s target.Settings, r *report.Report) error {
	n := min(waitingFetches, openFiles()-500)
	r.Printf("\n## Memory of fetches that wait\n\nThe growth of the server's resident memory until the last fetch waits. Each\n" +
		"has a connection of its own, which is included, and so are the stacks of its goroutines. While fetches wait, the clocks of their channels\n" +
		"are read every few seconds, which leaves garbage: the last column is the size at which Go collects it, which it also does every two\n" +
		"minutes. GOGC and GOMEMLIMIT change that.\n\n" +
		"| fetches | waiting | memory each | goal | | stacks | at most |\n|---:|---|---:|---:|---|---:|---:|\n")
	for _, w := range []waiting{
		{name: "on one channel", channels: 1, fetches: n, limit: 25 * 1000},
		{name: "on a channel of its own", channels: n, fetches: n, limit: 22 * 1000},
		{name: "on the same 32 channels", channels: 32, fetches: manyWaits, sources: 32},
		{name: "on 32 channels of its own", channels: 32 * manyWaits, fetches: manyWaits, sources: 32},
		{name: "on the same 256 channels", channels: 256, fetches: manyWaits, sources: 256},
		{name: "on 256 channels of its own", channels: 256 * manyWaits, fetches: manyWaits, sources: 256},
	} {
		if err := w.run(ctx, s); err != nil {
			return fmt.Errorf("%d fetches wait %s: %w", n, w.name, err)
		}
		goal, verdict := "", ""
		if w.limit > 0 {
			goal, verdict = fmt.Sprintf("≤ %.0f KB", w.limit/1000), report.Verdict(w.memory.resident <= w.limit)
		}
		r.Printf("| %d | %s | %.1f KB | %s | %s | %.1f KB | %.1f KB |\n", w.fetches, w.name, w.memory.resident/1000, goal, verdict,
			w.memory.stacks/1000, w.memory.most/1000)
	}
	return nil
}

// run uses a server of its own, so that its memory is that of the fetches. They wait for so long that the first ones still do
// when the last one has begun.
func (w *waiting) run(ctx context.Context, s target.Settings) error {
	ctx, cancel := context.WithTimeout(ctx, waitingLimit)
	defer cancel()
	u, err := target.Start(ctx, s.Binary, "--matchmaking", "off", "--max-connections", fmt.Sprint(w.fetches+100), "--max-wait", "10m")
	if err != nil {
		return err
	}
	defer u.Stop()
	each := max(w.sources, 1)
	if _, err := load.Repeat(ctx, u.Server.HTTP, w.fetches*each, func(n int) []byte {
		return load.Request(http.MethodPut, w.path((n-1)/each, (n-1)%each), "")
	}); err != nil {
		return err
	}
	before, err := memoryOf(ctx, u.Server)
	if err != nil {
		return err
	}
	for i := range w.fetches {
		c, err := load.Dial(ctx, u.Server.HTTP)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.Send(w.request(i)); err != nil {
			return err
		}
	}
	if err := u.AwaitWaiting(ctx, w.fetches); err != nil {
		return err
	}
	after, err := memoryOf(ctx, u.Server)
	n := float64(w.fetches)
	w.memory = memory{(after.resident - before.resident) / n, (after.stacks - before.stacks) / n, (after.most - before.most) / n}
	return err
}

// memoryOf returns the memory of a whole process.
func memoryOf(ctx context.Context, p *target.Process) (m memory, err error) {
	var heap float64
	for name, value := range map[string]*float64{
		"process_resident_memory_bytes": &m.resident, "go_memstats_stack_inuse_bytes": &m.stacks, "go_memstats_next_gc_bytes": &heap,
	} {
		if *value, err = p.Metric(ctx, name); err != nil {
			return m, err
		}
	}
	m.most = heap + m.stacks
	return m, nil
}

// channel returns one of the channels that a fetch waits on.
func (w *waiting) channel(fetch, source int) string {
	return fmt.Sprintf("wait-%d", (fetch*max(w.sources, 1)+source)%w.channels)
}

func (w *waiting) path(fetch, source int) string {
	return fmt.Sprintf("/v1/channels/%s/subscribers/s%d", w.channel(fetch, source), fetch)
}

// request returns what waits.
func (w *waiting) request(fetch int) []byte {
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
