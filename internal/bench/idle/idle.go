// Package idle measures what unused queues and waiting subscribers cost, and what a hostile client can cost.
package idle

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/internal/bench/report"
	"github.com/tidemark-dev/tidemark/internal/bench/target"
	"github.com/tidemark-dev/tidemark/internal/load"
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

// Measure measures what idle queues, and then idle subscribers too, cost a server.
func Measure(ctx context.Context, s target.Settings, r *report.Report) error {
	u, err := target.Start(ctx, s.Binary, "--max-connections", fmt.Sprint(idleWaiters+100))
	if err != nil {
		return err
	}
	defer u.Stop()
	var found idle
	for _, step := range []func(context.Context, *target.Target, *idle) error{measureQueues, measureWaiters} {
		if err := step(ctx, u, &found); err != nil {
			return fmt.Errorf("idle queues and waiters: %w", err)
		}
	}
	c := found.connections
	good := found.bytes <= idleBytesLimit && found.commands <= idleCommandsLimit && c[1] <= c[0]+1
	r.Printf("\n## What is idle\n\n| idle | memory each | goal | commands a second | goal | connections to Redis before | with them | |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---|\n")
	r.Printf("| %d queues | %.1f KB | ≤ %d KB | %.1f | ≤ %d | %d | %d | %s |\n", idleQueues,
		found.bytes/1000, idleBytesLimit/1000, found.commands, idleCommandsLimit, c[0], c[1], report.Verdict(good))
	r.Printf("| and %d long polls on %d channels | | | | | %d | %d | %s |\n", idleWaiters, idleChannels, c[1], c[2], report.Verdict(c[2] <= c[1]+1))
	return nil
}

func measureQueues(ctx context.Context, u *target.Target, found *idle) error {
	before, _, err := u.Memory(ctx)
	if err != nil {
		return err
	}
	if found.connections[0], err = u.Redis.Connections(ctx); err != nil {
		return err
	}
	if _, err := load.Repeat(ctx, u.Server.Admin, idleQueues, func(n int) []byte {
		return load.Request(http.MethodPut, fmt.Sprintf("/v1/queues/idle-%d", n), `{}`)
	}); err != nil {
		return err
	}
	if err := u.Redis.AwaitTopics(ctx, idleQueues); err != nil {
		return err
	}
	after, _, err := u.Memory(ctx)
	if err != nil {
		return err
	}
	found.bytes = (after - before) / idleQueues
	if found.connections[1], err = u.Redis.Connections(ctx); err != nil {
		return err
	}
	sent, err := idleCalls(ctx, u)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idleWindow):
	}
	since, err := idleCalls(ctx, u)
	found.commands = (since - sent) / idleWindow.Seconds()
	return err
}

func idleCalls(ctx context.Context, u *target.Target) (sum float64, err error) {
	calls, err := u.Redis.Calls(ctx, idleCommands)
	for _, n := range calls {
		sum += n
	}
	return sum, err
}

// measureWaiters has subscribers of many channels wait.
func measureWaiters(ctx context.Context, u *target.Target, found *idle) error {
	path := func(i int) string { return fmt.Sprintf("/v1/channels/idle-%d/subscribers/s%d", i%idleChannels, i) }
	if _, err := load.Repeat(ctx, u.Server.HTTP, idleWaiters, func(n int) []byte { return load.Request(http.MethodPut, path(n-1), "") }); err != nil {
		return err
	}
	for i := range idleWaiters {
		c, err := load.Dial(ctx, u.Server.HTTP)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.Send(load.Request(http.MethodGet, path(i)+"/messages?wait=60s", "")); err != nil {
			return err
		}
	}
	err := u.AwaitWaiting(ctx, idleWaiters)
	if err != nil {
		return err
	}
	found.connections[2], err = u.Redis.Connections(ctx)
	return err
}
