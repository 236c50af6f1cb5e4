package main

import (
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// Limits of the cost of waiting, from the project's goals.
const (
	lastLimit  = 150 * time.Millisecond
	bytesLimit = idleLimit
)

// fanOut lets many subscribers wait on one channel and publishes one message to it.
func fanOut(b *bench) {
	b.printf("\n## Many subscribers waiting on one channel\n\nOne message is published, and every waiting long " +
		"poll receives it.\n\n" +
		"| waiting | notifications | scripts, the publish included | last one answered after | goal | memory " +
		"each | goal | |\n" +
		"|---:|---:|---:|---:|---:|---:|---:|---|\n")
	for _, waiters := range []int{1000, 5000} {
		w := b.wake(waiters)
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
	last          time.Duration // from the publish's start until the last subscriber has the message
	bytes         float64       // of the server's resident memory per waiting subscriber, its connection included
}

// wakeChannel is the channel of the subscribers that wait.
const wakeChannel = "crowd"

// wake measures n long polls on one channel. It returns the round with the median time.
func (b *bench) wake(n int) wakeUp {
	var rounds []wakeUp
	for range b.rounds {
		rounds = append(rounds, b.wakeOnce(n))
	}
	return medianRound(rounds, func(w wakeUp) time.Duration { return w.last })
}

// wakeOnce uses a server of its own, so that only the waiters add to its memory.
func (b *bench) wakeOnce(n int) (w wakeUp) {
	a := openPolls(b, n)
	defer a.close()
	a.awaitWaiting(n)
	a.awaitIdle()
	w.bytes = a.memory
	w.notifications, w.scripts = -a.redis.calls("spublish"), -a.redis.calls("evalsha")
	w.last = slices.Max(a.send(1, 1, 0))
	w.notifications, w.scripts = w.notifications+a.redis.calls("spublish"), w.scripts+a.redis.calls("evalsha")
	return w
}

// pollGroups is the number of groups in which requests begin to wait. All at once, each from many channels, could take
// the server longer than it lets a request take.
const pollGroups = 20

// poll opens n connections, sends a request on each, and returns when all of them wait.
func (u *system) poll(n int, request func(i int) []byte) *load.Crowd {
	crowd := u.openCrowd(u.server, 0, nil)
	for crowd.Len() < n {
		u.Must(crowd.Open(u.Context(), min(n/pollGroups+1, n-crowd.Len()), func(i int) []load.Step {
			return []load.Step{{Send: request(i)}}
		}))
		u.awaitWaiting(crowd.Len())
	}
	u.awaitIdle()
	return crowd
}

// awaitWaiting returns when n fetches wait.
func (u *system) awaitWaiting(n int) {
	u.await(strconv.Itoa(n)+" fetches wait", func() bool { return int(u.server.metric("tidemark_waiting_fetches")) == n })
}
