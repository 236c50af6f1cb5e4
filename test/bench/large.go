package main

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// The large fetches while small publishes are timed: 300 subscribers, each with a backlog of 4 MiB.
const (
	largeChannels    = 10
	largeSubscribers = 300
	largeMessages    = 64
	largeBytes       = 64 << 10
	publishLimit     = 100 * time.Millisecond // p99 of a publish, from the project's goals
)

// largeFetches is the cost of many large fetches at the same time, for themselves and for other clients.
type largeFetches struct {
	all       time.Duration   // until the last subscriber has its backlog
	publishes []time.Duration // of a small publish each, meanwhile, one after the other
}

func (l largeFetches) p99() time.Duration { return report.Quantile(l.publishes, 0.99) }

// large lets many subscribers fetch a large backlog while small messages are published.
func large(b *bench) {
	var rounds []largeFetches
	for range min(b.rounds, 3) {
		rounds = append(rounds, b.fetchLarge())
	}
	l := medianRound(rounds, largeFetches.p99)
	b.printf("%d subscribers fetch %d MiB each at the same time, and the last one is done after %.1f s. Meanwhile one "+
		"client\npublishes messages of one byte, one after the other.\n\n",
		largeSubscribers, largeMessages*largeBytes>>20, l.all.Seconds())
	b.table("publishes: | p50: | p99: | goal: | ")
	b.row(len(l.publishes), report.Quantile(l.publishes, 0.5), l.p99(), atMost(publishLimit, report.Millis),
		l.p99() <= publishLimit)
}

func (b *bench) fetchLarge() (l largeFetches) {
	u := b.start("--matchmaking", "off")
	defer u.stop()
	content := `"` + strings.Repeat("x", largeBytes-2) + `"`
	u.subscribe(largeSubscribers, largePath)
	for i := range largeChannels * largeMessages {
		u.send(u.server.HTTP, publishRequest(fmt.Sprintf("large-%d", i%largeChannels), i, content))
	}
	var fetches errgroup.Group
	fetched := make(chan struct{})
	started := time.Now()
	for i := range largeSubscribers {
		fetches.Go(func() error { return u.fetchBacklog(i) })
	}
	var failed error
	go func() {
		failed = fetches.Wait()
		l.all = time.Since(started)
		close(fetched)
	}()
	var err error
	l.publishes, err = u.publishUntil(fetched)
	<-fetched
	u.Must(errors.Join(err, failed))
	return l
}

func largePath(i int) string {
	return subscriberPath(fmt.Sprintf("large-%d", i%largeChannels), subscriberName(i))
}

// fetchBacklog reads a subscriber's whole backlog and discards it. While many answers are under way an answer may have
// only the first messages: it acknowledges these with the request for the next ones. Each subscriber has an address of
// its own, and so its own share of the memory of answers.
func (u *system) fetchBacklog(i int) error {
	c, err := load.DialFrom(u.Context(), fmt.Sprintf("127.0.%d.%d", 1+i/200, 1+i%200), u.server.HTTP)
	if err != nil {
		return err
	}
	defer c.Close()
	body := fmt.Sprintf(`{"max":%d}`, largeMessages)
	for end := new(ending); end.size < (largeMessages-1)*largeBytes; {
		status, err := c.Copy(load.Request(http.MethodPost, largePath(i)+"/next", body), end)
		if err != nil {
			return err
		}
		receipt := receiptHandle.FindSubmatch(end.last)
		if receipt == nil {
			return fmt.Errorf("a large fetch was answered %d: %s", status, end.last)
		}
		body = fmt.Sprintf(`{"receiptHandle":"%s","max":%d}`, receipt[1], largeMessages)
	}
	return nil
}

// receiptHandle finds the receipt at the end of an answer.
var receiptHandle = regexp.MustCompile(`"receiptHandle":"([^"]+)"`)

// ending counts the bytes that are written to it, and keeps the last ones.
type ending struct {
	size int64
	last []byte
}

func (e *ending) Write(p []byte) (int, error) {
	const kept = 512
	e.size += int64(len(p))
	e.last = append(e.last, p[max(0, len(p)-kept):]...)
	e.last = e.last[max(0, len(e.last)-kept):]
	return len(p), nil
}

// publishUntil publishes small messages one after the other, and returns how long each took.
func (u *system) publishUntil(ended <-chan struct{}) (times []time.Duration, err error) {
	c, err := load.Dial(u.Context(), u.server.HTTP)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for i := 0; err == nil; i++ {
		select {
		case <-ended:
			return times, nil
		default:
		}
		started := time.Now()
		_, err = c.Do(publishRequest("small", i, "1"))
		times = append(times, time.Since(started))
	}
	return times, err
}
