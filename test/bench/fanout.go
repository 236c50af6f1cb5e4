package main

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// Limits of the cost of waiting, from the project's goals.
const (
	lastLimit  = 150 * time.Millisecond
	bytesLimit = 25 * 1000
)

// fanOut lets many subscribers wait on one channel and publishes one message to it.
func fanOut(b *bench) {
	b.printf("\n## Many subscribers waiting on one channel\n\nOne message is published, and every waiting long " +
		"poll receives it.\n\n" +
		"| waiting | notifications | scripts, the publish included | last one answered after | goal | memory " +
		"each | goal | |\n" +
		"|---:|---:|---:|---:|---:|---:|---:|---|\n")
	for _, waiters := range []int{1000, 5000} {
		var rounds []wakeUp
		for range b.rounds {
			rounds = append(rounds, b.wake(waiters))
		}
		slices.SortFunc(rounds, func(a, b wakeUp) int { return cmp.Compare(a.last, b.last) })
		w := rounds[len(rounds)/2]
		good := w.notifications == 1 && w.scripts == 1 && w.last <= lastLimit && w.bytes <= bytesLimit
		b.printf("| %d | %.0f | %.0f | %d ms | ≤ %d ms | %.1f KB | ≤ %d KB | %s |\n", waiters, w.notifications, w.scripts,
			w.last.Milliseconds(), lastLimit.Milliseconds(), w.bytes/1000, bytesLimit/1000, report.Verdict(good))
	}
	b.printf("\nMemory is the growth of the server's resident memory, connection included, divided by the number " +
		"of subscribers.\nEach row is the round with the median time, which includes the work of the clients on " +
		"the same cores.\n")
}

// wakeUp is the cost of delivering one message to many waiting subscribers.
type wakeUp struct {
	notifications float64       // SPUBLISH calls
	scripts       float64       // EVALSHA calls, the publish itself included
	last          time.Duration // from the publish's start to the last subscriber's answer
	bytes         float64       // of the server's resident memory per waiting subscriber, its connection included
}

// wake uses a server of its own, so that only the waiters add to its memory.
func (b *bench) wake(waiters int) (w wakeUp) {
	u := b.start("--matchmaking", "off") // whose lease would count as scripts
	defer u.stop()
	path := func(i int) string { return fmt.Sprintf("/v1/channels/crowd/subscribers/s%d", i) }
	u.repeat(waiters, func(n int) []byte { return load.Request(http.MethodPut, path(n-1), "") })
	before := u.server.resident()
	polls := u.poll(waiters, func(i int) []byte { return load.Request(http.MethodGet, path(i)+"/messages?wait=60s", "") })
	defer polls.close()
	w.bytes = (u.server.resident() - before) / float64(waiters)
	u.notify(polls, &w)
	return w
}

// polls are connections, each with a request that waits.
type polls []*load.Conn

func (p polls) close() {
	for _, c := range p {
		c.Close()
	}
}

// pollGroups is the number of groups in which requests begin to wait. All at once, each from many channels, could take
// the server longer than it lets a request take.
const pollGroups = 20

// poll opens n connections, sends a request on each, and returns when all of them wait.
func (u *system) poll(n int, request func(i int) []byte) polls {
	opened, group := make(polls, 0, n), n/pollGroups+1
	for i := range n {
		c, err := load.Dial(u.Context(), u.server.HTTP)
		if err == nil {
			opened = append(opened, c)
			err = c.Send(request(i))
		}
		if err != nil {
			opened.close()
			u.Must(err)
		}
		if len(opened)%group == 0 {
			u.awaitWaiting(len(opened))
		}
	}
	u.awaitWaiting(n)
	u.awaitIdle()
	return opened
}

// notify publishes and waits until every subscriber has the message.
func (u *system) notify(polls polls, w *wakeUp) {
	before := u.redis.numbers("commandstats")
	var readers errgroup.Group
	started := time.Now()
	for _, c := range polls {
		readers.Go(func() error { return c.Await(`"m1"`) })
	}
	u.request(http.MethodPut, "/v1/channels/crowd/messages/m1", messageContent)
	u.Must(readers.Wait())
	w.last = time.Since(started)
	after := u.redis.numbers("commandstats")
	w.notifications = after["cmdstat_spublish"] - before["cmdstat_spublish"]
	w.scripts = after["cmdstat_evalsha"] - before["cmdstat_evalsha"]
}
