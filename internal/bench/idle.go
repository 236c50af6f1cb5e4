package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
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

// idle is what queues cost that nobody uses, and subscribers who wait.
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
	defer u.stop()
	for _, step := range []func(context.Context, *idle) error{u.measureQueues, u.measureWaiters} {
		if err := step(ctx, &r.idle); err != nil {
			return fmt.Errorf("idle queues and waiters: %w", err)
		}
	}
	return nil
}

func (u *setup) measureQueues(ctx context.Context, found *idle) error {
	before, _, err := u.memory(ctx)
	if err != nil {
		return err
	}
	if found.connections[0], err = u.redisConnections(ctx); err != nil {
		return err
	}
	if _, err := load(ctx, u.server, idleQueues, func(n int) []byte {
		return httpRequest(http.MethodPut, fmt.Sprintf("/v1/queues/idle-%d", n), `{}`)
	}); err != nil {
		return err
	}
	if err := u.awaitTopics(ctx, idleQueues); err != nil {
		return err
	}
	after, _, err := u.memory(ctx)
	if err != nil {
		return err
	}
	found.bytes = (after - before) / idleQueues
	if found.connections[1], err = u.redisConnections(ctx); err != nil {
		return err
	}
	sent, err := u.calls(ctx, idleCommands)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idleWindow):
	}
	since, err := u.calls(ctx, idleCommands)
	found.commands = (since - sent) / idleWindow.Seconds()
	return err
}

// measureWaiters has subscribers of many channels wait.
func (u *setup) measureWaiters(ctx context.Context, found *idle) error {
	path := func(i int) string { return fmt.Sprintf("/v1/channels/idle-%d/subscribers/s%d", i%idleChannels, i) }
	if _, err := load(ctx, u.server, idleWaiters, func(n int) []byte { return httpRequest(http.MethodPut, path(n-1), "") }); err != nil {
		return err
	}
	for i := range idleWaiters {
		c, err := dial(ctx, u.server)
		if err != nil {
			return err
		}
		defer c.close()
		if _, err := c.conn.Write(httpRequest(http.MethodGet, path(i)+"/messages?wait=60s", "")); err != nil {
			return err
		}
	}
	err := u.awaitSleepers(ctx, idleWaiters)
	if err != nil {
		return err
	}
	found.connections[2], err = u.redisConnections(ctx)
	return err
}

// redisConnections counts the clients of Redis, this program not included.
func (u *setup) redisConnections(ctx context.Context) (int, error) {
	n, err := u.redisInfo(ctx, "clients", "connected_clients")
	return int(n) - 1, err
}

// awaitTopics returns when the server is subscribed to as many topics.
func (u *setup) awaitTopics(ctx context.Context, n int) error {
	for {
		topics, err := u.redis.Do(ctx, u.redis.B().PubsubShardchannels().Build()).AsStrSlice()
		if err != nil || len(topics) >= n {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
