package channels

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/drive"
	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
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
	channels int     // that they wait on
	fetches  int     // together
	sources  int     // channels of each fetch; 0: one, by its own route
	bytes    float64 // of the server's resident memory for each, its connection included
	limit    float64 // 0: there is no goal
}

// Waiting lets subscribers wait on one channel, and as many on a channel each.
func Waiting(ctx context.Context, s target.Settings, r *report.Report) error {
	n := min(waitingFetches, openFiles()-500)
	r.Printf("\n## Memory of fetches that wait\n\nEach waits on a connection of its own, which is included.\n\n" +
		"| fetches | waiting | memory each | goal | |\n|---:|---|---:|---:|---|\n")
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
			goal, verdict = fmt.Sprintf("≤ %.0f KB", w.limit/1000), report.Verdict(w.bytes <= w.limit)
		}
		r.Printf("| %d | %s | %.1f KB | %s | %s |\n", w.fetches, w.name, w.bytes/1000, goal, verdict)
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
	if _, err := drive.Load(ctx, u.Server.HTTP, w.fetches*each, func(n int) []byte {
		return drive.Request(http.MethodPut, w.path((n-1)/each, (n-1)%each), "")
	}); err != nil {
		return err
	}
	before, _, err := u.Memory(ctx)
	if err != nil {
		return err
	}
	for i := range w.fetches {
		c, err := drive.Dial(ctx, u.Server.HTTP)
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
	after, _, err := u.Memory(ctx)
	w.bytes = (after - before) / float64(w.fetches)
	return err
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
		return drive.Request(http.MethodGet, w.path(fetch, 0)+"/messages?wait=10m", "")
	}
	from := make([]string, w.sources)
	for i := range from {
		from[i] = fmt.Sprintf(`{"channel":%q,"subscriber":"s%d"}`, w.channel(fetch, i), fetch)
	}
	return drive.Request(http.MethodPost, "/v1/fetch", `{"wait":"10m","from":[`+strings.Join(from, ",")+`]}`)
}

// openFiles returns how many files this process may have open. The server inherits the limit.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) >= math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
