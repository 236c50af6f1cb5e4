package channels

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"syscall"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/drive"
	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
)

// waitingFetches is how many fetches wait while their memory is measured, if the process may open as many files.
const waitingFetches = 20_000

// waitingLimit is how long they may wait.
const waitingLimit = 5 * time.Minute

// waiting is the memory of fetches that wait.
type waiting struct {
	name     string
	channels int     // that they wait on
	fetches  int     // together
	bytes    float64 // of the server's resident memory for each, its connection included
	limit    float64
}

// Waiting lets subscribers wait on one channel, and as many on a channel each.
func Waiting(ctx context.Context, s target.Settings, r *report.Report) error {
	n := min(waitingFetches, openFiles()-500)
	r.Printf("\n## Memory of fetches that wait\n\nEach waits on a connection of its own, which is included.\n\n" +
		"| fetches | waiting | memory each | goal | |\n|---:|---|---:|---:|---|\n")
	for _, w := range []waiting{
		{name: "on one channel", channels: 1, fetches: n, limit: 25 * 1000},
		{name: "on a channel of its own", channels: n, fetches: n, limit: 22 * 1000},
	} {
		if err := w.run(ctx, s); err != nil {
			return fmt.Errorf("%d fetches wait %s: %w", n, w.name, err)
		}
		r.Printf("| %d | %s | %.1f KB | ≤ %.0f KB | %s |\n", w.fetches, w.name, w.bytes/1000, w.limit/1000, report.Verdict(w.bytes <= w.limit))
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
	path := func(i int) string { return fmt.Sprintf("/v1/channels/wait-%d/subscribers/s%d", i%w.channels, i) }
	if _, err := drive.Load(ctx, u.Server.HTTP, w.fetches, func(n int) []byte { return drive.Request(http.MethodPut, path(n-1), "") }); err != nil {
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
		if err := c.Send(drive.Request(http.MethodGet, path(i)+"/messages?wait=10m", "")); err != nil {
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

// openFiles returns how many files this process may have open. The server inherits the limit.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) >= math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
