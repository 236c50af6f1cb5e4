package main

import (
	"errors"
	"fmt"
	"io"
	"net"
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

// large lets many subscribers fetch a large backlog while small messages are published.
func large(b *bench) {
	var rounds []largeFetches
	for range min(b.rounds, 3) {
		l := b.fetchLarge()
		progress("large fetches: all after %s, publish p99 %s", l.all, report.Quantile(l.publishes, 0.99))
		rounds = append(rounds, l)
	}
	p99 := func(l largeFetches) time.Duration { return report.Quantile(l.publishes, 0.99) }
	l := medianRound(rounds, p99)
	b.printf("\n## Small publishes beside large fetches\n\n%d subscribers fetch %d MiB each at the same time, and "+
		"the last one is done after %.1f s. Meanwhile one client\npublishes messages of one byte, one after the "+
		"other.\n\n",
		largeSubscribers, largeMessages*largeBytes>>20, l.all.Seconds())
	b.printf("| publishes | p50 | p99 | goal | |\n|---:|---:|---:|---:|---|\n")
	b.printf("| %d | %s | %s | %s | %s |\n", len(l.publishes), report.Millis(report.Quantile(l.publishes, 0.5)),
		report.Millis(p99(l)), atMost(publishLimit, report.Millis), report.Verdict(p99(l) <= publishLimit))
}

func (b *bench) fetchLarge() (l largeFetches) {
	u := b.start("--matchmaking", "off")
	defer u.stop()
	u.fillBacklogs()
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

func (u *system) fillBacklogs() {
	body := `"` + strings.Repeat("x", largeBytes-2) + `"`
	u.subscribe(largeSubscribers, largePath)
	for i := range largeChannels * largeMessages {
		u.publish(fmt.Sprintf("large-%d", i%largeChannels), i, body)
	}
}

func largePath(i int) string {
	return subscriberPath(fmt.Sprintf("large-%d", i%largeChannels), fmt.Sprintf("s%d", i))
}

// fetchBacklog reads a subscriber's whole backlog and discards it. While many answers are under way an answer may have
// only the first messages: it acknowledges these with the request for the next ones. Each subscriber has an address of
// its own, and so its own share of the memory of answers.
func (u *system) fetchBacklog(i int) error {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1+byte(i/200), 1+byte(i%200))}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	url := "http://" + u.server.HTTP + largePath(i) + "/next"
	receipt := ""
	for read := int64(0); read < (largeMessages-1)*largeBytes; {
		n, next, err := u.fetchNext(client, url, receipt)
		if err != nil {
			return err
		}
		read, receipt = read+n, next
	}
	return nil
}

// receiptHandle finds the receipt at the end of an answer.
var receiptHandle = regexp.MustCompile(`"receiptHandle":"([^"]+)"`)

// ending keeps the last bytes that are written to it.
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

// fetchNext acknowledges a receipt, unless it is empty, and fetches the next messages. It returns the size of the
// answer and its receipt.
func (u *system) fetchNext(client *http.Client, url, receipt string) (size int64, next string, err error) {
	body := fmt.Sprintf(`{"max":%d}`, largeMessages)
	if receipt != "" {
		body = fmt.Sprintf(`{"receiptHandle":"%s","max":%d}`, receipt, largeMessages)
	}
	request, err := http.NewRequestWithContext(u.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	var end ending
	if _, err := io.Copy(&end, response.Body); err != nil {
		return 0, "", err
	}
	found := receiptHandle.FindSubmatch(end.last)
	if found == nil {
		return 0, "", fmt.Errorf("a large fetch was answered %d: %s", response.StatusCode, end.last)
	}
	return end.size, string(found[1]), nil
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
		_, err = c.Do(load.Request(http.MethodPut, fmt.Sprintf("/v1/channels/small/messages/m%d", i), "1"))
		times = append(times, time.Since(started))
	}
	return times, err
}
