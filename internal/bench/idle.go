package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/drive"
)

// What is idle while its cost is measured.
const (
	idleQueues   = 1000
	idleWaiters  = 10_000
	idleChannels = 1000 // of the waiters
	idleWindow   = 10 * time.Second
)

// What it may cost, from the project's goals.
const (
	idleBytesLimit    = 30 * 1000
	idleCommandsLimit = 5
)

// idle is what unused queues and waiting subscribers cost.
type idle struct {
	bytes       float64 // of the server's resident memory for each queue
	commands    float64 // a second, for all queues together
	connections [3]int  // to Redis: at the start, with the queues, and with waiters too
}

// idleCommands are those that queues can cost. Scripts run none of them.
var idleCommands = []string{"evalsha", "eval", "hgetall", "xread", "xtrim", "ssubscribe"}

func measureIdle(ctx context.Context, s settings, _ *setup, r *report) error {
	u, err := start(ctx, s, "--max-connections", fmt.Sprint(idleWaiters+100))
	if err != nil {
		return err
	}
	defer u.Stop()
	for _, step := range []func(context.Context, *idle) error{u.measureQueues, u.measureWaiters} {
		if err := step(ctx, &r.idle); err != nil {
			return fmt.Errorf("idle queues and waiters: %w", err)
		}
	}
	return nil
}

func (u *setup) measureQueues(ctx context.Context, found *idle) error {
	before, _, err := u.Memory(ctx)
	if err != nil {
		return err
	}
	if found.connections[0], err = u.Connections(ctx); err != nil {
		return err
	}
	if _, err := drive.Load(ctx, u.Server, idleQueues, func(n int) []byte {
		return drive.Request(http.MethodPut, fmt.Sprintf("/v1/queues/idle-%d", n), `{}`)
	}); err != nil {
		return err
	}
	if err := u.AwaitTopics(ctx, idleQueues); err != nil {
		return err
	}
	after, _, err := u.Memory(ctx)
	if err != nil {
		return err
	}
	found.bytes = (after - before) / idleQueues
	if found.connections[1], err = u.Connections(ctx); err != nil {
		return err
	}
	sent, err := u.Calls(ctx, idleCommands)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idleWindow):
	}
	since, err := u.Calls(ctx, idleCommands)
	found.commands = (since - sent) / idleWindow.Seconds()
	return err
}

// measureWaiters has subscribers of many channels wait.
func (u *setup) measureWaiters(ctx context.Context, found *idle) error {
	path := func(i int) string { return fmt.Sprintf("/v1/channels/idle-%d/subscribers/s%d", i%idleChannels, i) }
	if _, err := drive.Load(ctx, u.Server, idleWaiters, func(n int) []byte { return drive.Request(http.MethodPut, path(n-1), "") }); err != nil {
		return err
	}
	for i := range idleWaiters {
		c, err := drive.Dial(ctx, u.Server)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.Send(drive.Request(http.MethodGet, path(i)+"/messages?wait=60s", "")); err != nil {
			return err
		}
	}
	err := u.AwaitWaiting(ctx, idleWaiters)
	if err != nil {
		return err
	}
	found.connections[2], err = u.Connections(ctx)
	return err
}
