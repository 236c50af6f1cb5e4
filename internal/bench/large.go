package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/bench/drive"
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

func measureLarge(ctx context.Context, s settings, _ *setup, r *report) error {
	var rounds []large
	for range s.rounds {
		l, err := runLarge(ctx, s)
		if err != nil {
			return fmt.Errorf("large fetches: %w", err)
		}
		fmt.Fprintf(os.Stderr, "large fetches: all after %s, publish p99 %s\n", l.all, l.p99)
		rounds = append(rounds, l)
	}
	slices.SortFunc(rounds, func(a, b large) int { return int(a.p99 - b.p99) })
	r.large = rounds[len(rounds)/2]
	return nil
}

func runLarge(ctx context.Context, s settings) (large, error) {
	u, err := start(ctx, s, "--matchmaking", "off")
	if err != nil {
		return large{}, err
	}
	defer u.Stop()
	if err := u.fillBacklogs(ctx); err != nil {
		return large{}, err
	}
	var l large
	var fetches errgroup.Group
	fetched := make(chan struct{})
	started := time.Now()
	for i := range largeSubscribers {
		fetches.Go(func() error { return u.fetchBacklog(ctx, i) })
	}
	var failed error
	go func() {
		failed = fetches.Wait()
		l.all = time.Since(started)
		close(fetched)
	}()
	times, err := u.publishUntil(ctx, fetched)
	<-fetched
	if err := errors.Join(err, failed); err != nil {
		return l, err
	}
	slices.Sort(times)
	l.published, l.p50, l.p99 = len(times), times[len(times)/2], times[len(times)*99/100]
	return l, nil
}

func (u *setup) fillBacklogs(ctx context.Context) error {
	body := `"` + strings.Repeat("x", largeBytes-2) + `"`
	for i := range largeSubscribers {
		subscribe := fmt.Sprintf("/v1/channels/large-%d/subscribers/s%d", i%largeChannels, i)
		if _, err := drive.Once(ctx, u.Server, drive.Request(http.MethodPut, subscribe, "")); err != nil {
			return err
		}
	}
	for i := range largeChannels * largeMessages {
		publish := fmt.Sprintf("/v1/channels/large-%d/messages/m%d", i%largeChannels, i)
		if _, err := drive.Once(ctx, u.Server, drive.Request(http.MethodPut, publish, body)); err != nil {
			return err
		}
	}
	return nil
}

// fetchBacklog reads a subscriber's whole backlog and throws it away.
func (u *setup) fetchBacklog(ctx context.Context, i int) error {
	path := fmt.Sprintf("http://%s/v1/channels/large-%d/subscribers/s%d/messages?max=%d", u.Server, i%largeChannels, i, largeMessages)
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
func (u *setup) publishUntil(ctx context.Context, ended <-chan struct{}) ([]time.Duration, error) {
	c, err := drive.Dial(ctx, u.Server)
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
		if _, err := c.Do(drive.Request(http.MethodPut, fmt.Sprintf("/v1/channels/small/messages/m%d", i), "1")); err != nil {
			return times, err
		}
		times = append(times, time.Since(started))
	}
}
