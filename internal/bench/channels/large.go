package channels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
)

// What is fetched while small publishes are timed: 300 subscribers, each with a backlog of 4 MiB.
const (
	largeChannels    = 10
	largeSubscribers = 300
	largeMessages    = 64
	largeBytes       = 64 << 10
	publishLimit     = 100 * time.Millisecond // p99 of a publish, from the project's goals
)

// large is what many large fetches at the same time cost, and what they cost others.
type large struct {
	all       time.Duration // until the last subscriber has its backlog
	published int           // small publishes meanwhile, one after the other
	p50, p99  time.Duration // of a publish
}

// Large lets many subscribers fetch a large backlog while small messages are published.
func Large(ctx context.Context, s target.Settings, r *report.Report) error {
	var rounds []large
	for range min(s.Rounds, 3) {
		l, err := runLarge(ctx, s)
		if err != nil {
			return fmt.Errorf("large fetches: %w", err)
		}
		report.Progress("large fetches: all after %s, publish p99 %s", l.all, l.p99)
		rounds = append(rounds, l)
	}
	slices.SortFunc(rounds, func(a, b large) int { return int(a.p99 - b.p99) })
	l := rounds[len(rounds)/2]
	r.Printf("\n## Small publishes beside large fetches\n\n%d subscribers fetch %d MiB each at the same time, and all have it after %.1f s. "+
		"Meanwhile one\nclient publishes messages of one byte, one after the other.\n\n", largeSubscribers, largeMessages*largeBytes>>20, l.all.Seconds())
	r.Printf("| publishes | p50 | p99 | goal | |\n|---:|---:|---:|---:|---|\n")
	r.Printf("| %d | %s | %s | %s | %s |\n", l.published, report.Millis(l.p50), report.Millis(l.p99), report.AtMost(publishLimit), report.Verdict(l.p99 <= publishLimit))
	return nil
}

func runLarge(ctx context.Context, s target.Settings) (large, error) {
	u, err := target.Start(ctx, s.Binary, "--matchmaking", "off")
	if err != nil {
		return large{}, err
	}
	defer u.Stop()
	if err := fillBacklogs(ctx, u); err != nil {
		return large{}, err
	}
	var l large
	var fetches errgroup.Group
	fetched := make(chan struct{})
	started := time.Now()
	for i := range largeSubscribers {
		fetches.Go(func() error { return fetchBacklog(ctx, u, i) })
	}
	var failed error
	go func() {
		failed = fetches.Wait()
		l.all = time.Since(started)
		close(fetched)
	}()
	times, err := publishUntil(ctx, u, fetched)
	<-fetched
	if err := errors.Join(err, failed); err != nil {
		return l, err
	}
	slices.Sort(times)
	l.published, l.p50, l.p99 = len(times), times[len(times)/2], times[len(times)*99/100]
	return l, nil
}

func fillBacklogs(ctx context.Context, u *target.Target) error {
	body := `"` + strings.Repeat("x", largeBytes-2) + `"`
	for i := range largeSubscribers {
		subscribe := fmt.Sprintf("/v1/channels/large-%d/subscribers/s%d", i%largeChannels, i)
		if _, err := load.Once(ctx, u.Server.HTTP, load.Request(http.MethodPut, subscribe, "")); err != nil {
			return err
		}
	}
	for i := range largeChannels * largeMessages {
		publish := fmt.Sprintf("/v1/channels/large-%d/messages/m%d", i%largeChannels, i)
		if _, err := load.Once(ctx, u.Server.HTTP, load.Request(http.MethodPut, publish, body)); err != nil {
			return err
		}
	}
	return nil
}

// fetchBacklog reads a subscriber's whole backlog and throws it away.
func fetchBacklog(ctx context.Context, u *target.Target, i int) error {
	path := fmt.Sprintf("http://%s/v1/channels/large-%d/subscribers/s%d/messages?max=%d", u.Server.HTTP, i%largeChannels, i, largeMessages)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	n, err := io.Copy(io.Discard, response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || n < (largeMessages-1)*largeBytes) {
		err = fmt.Errorf("a large fetch was answered %d with %d bytes", response.StatusCode, n)
	}
	return err
}

// publishUntil publishes small messages one after the other, and returns how long each took.
func publishUntil(ctx context.Context, u *target.Target, ended <-chan struct{}) ([]time.Duration, error) {
	c, err := load.Dial(ctx, u.Server.HTTP)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var times []time.Duration
	for i := 0; ; i++ {
		select {
		case <-ended:
			return times, nil
		default:
		}
		started := time.Now()
		if _, err := c.Do(load.Request(http.MethodPut, fmt.Sprintf("/v1/channels/small/messages/m%d", i), "1")); err != nil {
			return times, err
		}
		times = append(times, time.Since(started))
	}
}
