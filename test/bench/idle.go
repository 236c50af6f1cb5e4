package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// The numbers of idle queues, waiters and channels whose cost is measured.
const (
	idleQueues   = 1000
	idleWaiters  = 10_000
	idleChannels = 1000 // of the waiters
	idleWindow   = 10 * time.Second
)

// Limits of their cost, from the project's goals.
const (
	idleServiceLimit  = 30 * 1000 * 1000
	idleBytesLimit    = 30 * 1000
	idleCommandsLimit = 5
)

// idleCommands are the commands that idle queues can cause. Scripts run none of them.
var idleCommands = []string{"evalsha", "eval", "hgetall", "xread", "xtrim", "ssubscribe"}

// idle measures what unused queues, and then waiting subscribers too, cost a server.
func idle(b *bench) {
	u := b.start("--max-connections", fmt.Sprint(idleWaiters+100))
	defer u.stop()
	u.sleep(idleWindow)
	alone := u.server.resident()
	bytes, connections := alone, u.redis.connections()
	u.repeatAt(u.server.Admin, idleQueues, func(n int) []byte {
		return load.Request(http.MethodPut, fmt.Sprintf("/v1/queues/idle-%d", n), `{}`)
	})
	u.await("the server listens to all queues", func() bool {
		topics, err := u.redis.do("PUBSUB", "SHARDCHANNELS").AsStrSlice()
		u.Must(err)
		return len(topics) >= idleQueues
	})
	bytes = (u.server.resident() - bytes) / idleQueues
	withQueues := u.redis.connections()
	calls := u.redis.calls(idleCommands...)
	u.sleep(idleWindow)
	commands := (u.redis.calls(idleCommands...) - calls) / idleWindow.Seconds()

	path := func(i int) string {
		return subscriberPath(fmt.Sprintf("idle-%d", i%idleChannels), fmt.Sprintf("s%d", i))
	}
	u.subscribe(idleWaiters, path)
	polls := u.poll(idleWaiters, func(i int) []byte {
		return load.Request(http.MethodGet, path(i)+"/messages?wait=60s", "")
	})
	defer polls.Close()
	withWaiters := u.redis.connections()

	good := bytes <= idleBytesLimit && commands <= idleCommandsLimit && withQueues <= connections+1
	b.printf("\n## What is idle\n\n" +
		"| idle | memory each | goal | commands a second | goal | connections to Redis before | with them | |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---|\n")
	b.printf("| the service itself | %.1f MB | ≤ %d MB | | | | | %s |\n", alone/1e6, idleServiceLimit/1_000_000,
		report.Verdict(alone <= idleServiceLimit))
	progress("the idle service: %.1f MB", alone/1e6)
	b.printf("| %d queues | %.1f KB | ≤ %d KB | %.1f | ≤ %d | %d | %d | %s |\n", idleQueues, bytes/1000,
		idleBytesLimit/1000, commands, idleCommandsLimit, connections, withQueues, report.Verdict(good))
	b.printf("| and %d long polls on %d channels | | | | | %d | %d | %s |\n", idleWaiters, idleChannels, withQueues,
		withWaiters, report.Verdict(withWaiters <= withQueues+1))
}
