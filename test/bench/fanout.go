package main

import (
	"net/http"
	"slices"
	"strconv"
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
		w := b.wake(waiters, func(u *system, subscriber func(i int) string) receivers {
			return u.poll(waiters, func(i int) []byte {
				return load.Request(http.MethodGet, subscriberPath(wakeChannel, subscriber(i))+"/messages?wait=60s", "")
			})
		})
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

// wake measures n subscribers of one channel, which open lets wait. It returns the round with the median time.
func (b *bench) wake(n int, open func(u *system, subscriber func(i int) string) receivers) wakeUp {
	var rounds []wakeUp
	for range b.rounds {
		rounds = append(rounds, b.wakeOnce(n, open))
	}
	return medianRound(rounds, func(w wakeUp) time.Duration { return w.last })
}

// wakeOnce uses a server of its own, so that only the waiters add to its memory.
func (b *bench) wakeOnce(n int, open func(u *system, subscriber func(i int) string) receivers) (w wakeUp) {
	u := b.start("--matchmaking", "off") // whose lease would count as scripts
	defer u.stop()
	subscriber := func(i int) string { return "s" + strconv.Itoa(i) }
	u.subscribe(n, func(i int) string { return subscriberPath(wakeChannel, subscriber(i)) })
	before := u.server.resident()
	all := open(u, subscriber)
	defer all.close()
	w.bytes = (u.server.resident() - before) / float64(n)
	w.notifications, w.scripts = -u.redis.calls("spublish"), -u.redis.calls("evalsha")
	w.last = slices.Max(u.deliver(all, func() { u.publish(wakeChannel, 1, messageContent) }))
	w.notifications, w.scripts = w.notifications+u.redis.calls("spublish"), w.scripts+u.redis.calls("evalsha")
	return w
}

// receivers are long polls and streams of the subscribers of a channel.
type receivers []*load.Receiver

func (all receivers) close() {
	for _, r := range all {
		r.Close()
	}
}

// deliver calls send, and returns how long after that each of all had a message.
func (u *system) deliver(all receivers, send func()) []time.Duration {
	started, took := time.Now(), make([]time.Duration, len(all))
	var waiting errgroup.Group
	for i, r := range all {
		waiting.Go(func() error {
			err := r.Await(u.Context())
			took[i] = time.Since(started)
			return err
		})
	}
	send()
	u.Must(waiting.Wait())
	return took
}

// pollGroups is the number of groups in which requests begin to wait. All at once, each from many channels, could take
// the server longer than it lets a request take.
const pollGroups = 20

// poll opens n connections, sends a request on each, and returns when all of them wait.
func (u *system) poll(n int, request func(i int) []byte) receivers {
	group := n/pollGroups + 1
	all := u.open(n, func(i int) (*load.Receiver, error) {
		if i%group == 0 {
			u.awaitWaiting(i)
		}
		return load.OpenPoll(u.Context(), u.server.HTTP, request(i))
	})
	u.awaitWaiting(n)
	u.awaitIdle()
	return all
}

// awaitWaiting returns when n fetches wait.
func (u *system) awaitWaiting(n int) {
	u.await(strconv.Itoa(n)+" fetches wait", func() bool { return int(u.server.metric("tidemark_waiting_fetches")) == n })
}

// open opens n receivers.
func (u *system) open(n int, open func(i int) (*load.Receiver, error)) receivers {
	all := make(receivers, 0, n)
	for i := range n {
		r, err := open(i)
		if err != nil {
			all.close()
			u.Must(err)
		}
		all = append(all, r)
	}
	return all
}
