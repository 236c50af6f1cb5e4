package channels

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
)

// What waiting may cost, from the project's goals.
const (
	lastLimit  = 150 * time.Millisecond
	bytesLimit = 25 * 1000
)

// FanOut lets many subscribers wait on one channel and publishes one message to it.
func FanOut(ctx context.Context, s target.Settings, r *report.Report) error {
	r.Printf("\n## Many subscribers waiting on one channel\n\nOne message is published; every waiting long poll gets it.\n\n" +
		"| waiting | notifications | scripts, the publish included | last one answered after | goal | memory each | goal | |\n" +
		"|---:|---:|---:|---:|---:|---:|---:|---|\n")
	for _, waiters := range []int{1000, 5000} {
		var rounds []fanOut
		for range s.Rounds {
			f, err := runFanOut(ctx, s, waiters)
			if err != nil {
				return fmt.Errorf("fan-out to %d: %w", waiters, err)
			}
			rounds = append(rounds, f)
		}
		slices.SortFunc(rounds, func(a, b fanOut) int { return cmp.Compare(a.last, b.last) })
		f := rounds[len(rounds)/2]
		good := f.notifications == 1 && f.scripts == 1 && f.last <= lastLimit && f.bytes <= bytesLimit
		r.Printf("| %d | %.0f | %.0f | %d ms | ≤ %d ms | %.1f KB | ≤ %d KB | %s |\n", f.waiters, f.notifications, f.scripts,
			f.last.Milliseconds(), lastLimit.Milliseconds(), f.bytes/1000, bytesLimit/1000, report.Verdict(good))
	}
	r.Printf("\nMemory is the growth of the server's resident memory, connection included, divided by the number of subscribers.\n" +
		"Each row is the round with the median time, which includes that of the clients on the same cores.\n")
	return nil
}

// fanOut is what it took to deliver one message to many waiting subscribers.
type fanOut struct {
	waiters       int
	notifications float64       // SPUBLISH calls
	scripts       float64       // EVALSHA calls, the publish itself included
	last          time.Duration // from the publish's start to the last subscriber's answer
	bytes         float64       // of the server's resident memory per waiting subscriber, its connection included
}

// runFanOut uses a server of its own, so that its memory is that of the waiters.
func runFanOut(ctx context.Context, s target.Settings, waiters int) (fanOut, error) {
	f := fanOut{waiters: waiters}
	u, err := target.Start(ctx, s.Binary, "--matchmaking", "off") // whose lease would count as scripts
	if err != nil {
		return f, err
	}
	defer u.Stop()
	if err := subscribeAll(ctx, u, waiters); err != nil {
		return f, err
	}
	before, err := u.Server.Metric(ctx, "process_resident_memory_bytes")
	if err != nil {
		return f, err
	}
	polls, err := pollAll(ctx, u, waiters)
	if err != nil {
		return f, err
	}
	defer func() {
		for _, c := range polls {
			c.Close()
		}
	}()
	after, err := u.Server.Metric(ctx, "process_resident_memory_bytes")
	if err != nil {
		return f, err
	}
	f.bytes = (after - before) / float64(waiters)
	return f, notifyAll(ctx, u, polls, &f)
}

func subscribeAll(ctx context.Context, u *target.Target, waiters int) error {
	_, err := load.Repeat(ctx, u.Server.HTTP, waiters, func(n int) []byte {
		return load.Request(http.MethodPut, fmt.Sprintf("/v1/channels/crowd/subscribers/s%d", n-1), "")
	})
	return err
}

// pollAll opens a connection for each subscriber and returns when all of them wait.
func pollAll(ctx context.Context, u *target.Target, waiters int) ([]*load.Conn, error) {
	var polls []*load.Conn
	for i := range waiters {
		c, err := load.Dial(ctx, u.Server.HTTP)
		if err != nil {
			return polls, err
		}
		polls = append(polls, c)
		poll := load.Request(http.MethodGet, fmt.Sprintf("/v1/channels/crowd/subscribers/s%d/messages?wait=60s", i), "")
		if err := c.Send(poll); err != nil {
			return polls, err
		}
	}
	return polls, u.AwaitWaiting(ctx, waiters)
}

// notifyAll publishes and waits until every subscriber has it.
func notifyAll(ctx context.Context, u *target.Target, polls []*load.Conn, f *fanOut) error {
	calls := func() (notifications, scripts float64, err error) {
		if notifications, err = u.Redis.Info(ctx, "commandstats", "cmdstat_spublish"); err == nil {
			scripts, err = u.Redis.Info(ctx, "commandstats", "cmdstat_evalsha")
		}
		return notifications, scripts, err
	}
	notifications, scripts, err := calls()
	if err != nil {
		return err
	}
	var readers errgroup.Group
	started := time.Now()
	for _, c := range polls {
		readers.Go(func() error { return c.Await(`"m1"`) })
	}
	if _, err := load.Once(ctx, u.Server.HTTP, load.Request(http.MethodPut, "/v1/channels/crowd/messages/m1", content)); err != nil {
		return err
	}
	if err := readers.Wait(); err != nil {
		return err
	}
	f.last = time.Since(started)
	f.notifications, f.scripts, err = calls()
	f.notifications -= notifications
	f.scripts -= scripts
	return err
}
