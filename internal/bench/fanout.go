package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/bench/drive"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
)

// measureFanOut lets many subscribers wait on one channel and publishes one message to it.
func measureFanOut(ctx context.Context, s settings, _ *setup, r *report) error {
	for _, waiters := range []int{1000, 5000} {
		var rounds []fanOut
		for range s.rounds {
			f, err := runFanOut(ctx, s, waiters)
			if err != nil {
				return fmt.Errorf("fan-out to %d: %w", waiters, err)
			}
			rounds = append(rounds, f)
		}
		slices.SortFunc(rounds, func(a, b fanOut) int { return cmp.Compare(a.last, b.last) })
		r.fanOuts = append(r.fanOuts, rounds[len(rounds)/2])
	}
	return nil
}

// fanOut is what it took to deliver one message to many waiting subscribers.
type fanOut struct {
	waiters       int
	notifications float64       // SPUBLISH calls
	scripts       float64       // EVALSHA calls, the publish itself included
	last          time.Duration // from the publish's start to the last subscriber's drive.Answer
	bytes         float64       // of the server's resident memory per waiting subscriber, its connection included
}

// runFanOut uses a server of its own, so that its memory is that of the waiters.
func runFanOut(ctx context.Context, s settings, waiters int) (fanOut, error) {
	f := fanOut{waiters: waiters}
	u, err := start(ctx, s, "--matchmaking", "off") // whose lease would count as scripts
	if err != nil {
		return f, err
	}
	defer u.Stop()
	if err := subscribeAll(ctx, u, waiters); err != nil {
		return f, err
	}
	before, err := target.Metric(ctx, u.Server, "process_resident_memory_bytes")
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
	after, err := target.Metric(ctx, u.Server, "process_resident_memory_bytes")
	if err != nil {
		return f, err
	}
	f.bytes = (after - before) / float64(waiters)
	return f, u.notifyAll(ctx, polls, &f)
}

func subscribeAll(ctx context.Context, u *setup, waiters int) error {
	_, err := drive.Load(ctx, u.Server, waiters, func(n int) []byte {
		return drive.Request(http.MethodPut, fmt.Sprintf("/v1/channels/crowd/subscribers/s%d", n-1), "")
	})
	return err
}

// pollAll opens a connection for each subscriber and returns when all of them wait.
func pollAll(ctx context.Context, u *setup, waiters int) ([]*drive.Connection, error) {
	var polls []*drive.Connection
	for i := range waiters {
		c, err := drive.Dial(ctx, u.Server)
		if err != nil {
			return polls, err
		}
		polls = append(polls, c)
		poll := drive.Request(http.MethodGet, fmt.Sprintf("/v1/channels/crowd/subscribers/s%d/messages?wait=60s", i), "")
		if err := c.Send(poll); err != nil {
			return polls, err
		}
	}
	return polls, u.AwaitWaiting(ctx, waiters)
}

// notifyAll publishes and waits until every subscriber has it.
func (u *setup) notifyAll(ctx context.Context, polls []*drive.Connection, f *fanOut) error {
	calls := func() (notifications, scripts float64, err error) {
		if notifications, err = u.RedisInfo(ctx, "commandstats", "cmdstat_spublish"); err == nil {
			scripts, err = u.RedisInfo(ctx, "commandstats", "cmdstat_evalsha")
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
	if _, err := drive.Once(ctx, u.Server, drive.Request(http.MethodPut, "/v1/channels/crowd/messages/m1", content)); err != nil {
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
