package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
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

// fanOut is what it took to tell many waiting subscribers of one message.
type fanOut struct {
	waiters       int
	notifications float64       // SPUBLISH calls
	scripts       float64       // EVALSHA calls, the publish itself included
	last          time.Duration // from the publish's start to the last subscriber's answer
	bytes         float64       // of the server's resident memory per waiting subscriber, its connection included
}

// runFanOut uses a server of its own, so that its memory is that of the waiters.
func runFanOut(ctx context.Context, s settings, waiters int) (fanOut, error) {
	f := fanOut{waiters: waiters}
	u, err := start(ctx, s, "--matchmaking", "off") // whose lease would count as scripts
	if err != nil {
		return f, err
	}
	defer u.stop()
	if err := subscribeAll(ctx, u, waiters); err != nil {
		return f, err
	}
	before, err := metric(ctx, u.server, "process_resident_memory_bytes")
	if err != nil {
		return f, err
	}
	polls, err := pollAll(ctx, u, waiters)
	if err != nil {
		return f, err
	}
	defer func() {
		for _, c := range polls {
			c.close()
		}
	}()
	after, err := metric(ctx, u.server, "process_resident_memory_bytes")
	if err != nil {
		return f, err
	}
	f.bytes = (after - before) / float64(waiters)
	return f, u.tellAll(ctx, polls, &f)
}

func subscribeAll(ctx context.Context, u *setup, waiters int) error {
	_, err := load(ctx, u.server, waiters, func(n int) []byte {
		return httpRequest(http.MethodPut, fmt.Sprintf("/v1/channels/crowd/subscribers/s%d", n-1), "")
	})
	return err
}

// pollAll opens a connection for each subscriber and returns when all of them wait.
func pollAll(ctx context.Context, u *setup, waiters int) ([]*connection, error) {
	var polls []*connection
	for i := range waiters {
		c, err := dial(ctx, u.server)
		if err != nil {
			return polls, err
		}
		polls = append(polls, c)
		poll := httpRequest(http.MethodGet, fmt.Sprintf("/v1/channels/crowd/subscribers/s%d/messages?wait=60s", i), "")
		if _, err := c.conn.Write(poll); err != nil {
			return polls, err
		}
	}
	return polls, u.awaitSleepers(ctx, waiters)
}

// awaitSleepers returns when as many fetches wait, and none of them is still asking Redis.
func (u *setup) awaitSleepers(ctx context.Context, waiters int) error {
	var asked float64
	for {
		n, err := metric(ctx, u.server, "tidemark_waiting_fetches")
		if err != nil {
			return err
		}
		scripts, err := u.redisInfo(ctx, "commandstats", "cmdstat_evalsha")
		if err != nil || (int(n) == waiters && scripts == asked) {
			return err
		}
		asked = scripts
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// tellAll publishes and waits until everyone has been told.
func (u *setup) tellAll(ctx context.Context, polls []*connection, f *fanOut) error {
	calls := func() (notifications, scripts float64, err error) {
		if notifications, err = u.redisInfo(ctx, "commandstats", "cmdstat_spublish"); err == nil {
			scripts, err = u.redisInfo(ctx, "commandstats", "cmdstat_evalsha")
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
		readers.Go(func() error { return c.await(`"m1"`) })
	}
	if _, err := once(ctx, u.server, httpRequest(http.MethodPut, "/v1/channels/crowd/messages/m1", content)); err != nil {
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
