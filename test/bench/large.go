package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
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
	all       time.Duration // until the last subscriber has its backlog
	published int           // small publishes meanwhile, one after the other
	p50, p99  time.Duration // of a publish
}

// large lets many subscribers fetch a large backlog while small messages are published.
func large(b *bench) {
	var rounds []largeFetches
	for range min(b.rounds, 3) {
		l := b.fetchLarge()
		progress("large fetches: all after %s, publish p99 %s", l.all, l.p99)
		rounds = append(rounds, l)
	}
	slices.SortFunc(rounds, func(a, b largeFetches) int { return cmp.Compare(a.p99, b.p99) })
	l := rounds[len(rounds)/2]
	b.printf("\n## Small publishes beside large fetches\n\n%d subscribers fetch %d MiB each at the same time, and "+
		"the last one is done after %.1f s. Meanwhile one client\npublishes messages of one byte, one after the "+
		"other.\n\n",
		largeSubscribers, largeMessages*largeBytes>>20, l.all.Seconds())
	b.printf("| publishes | p50 | p99 | goal | |\n|---:|---:|---:|---:|---|\n")
	b.printf("| %d | %s | %s | %s | %s |\n", l.published, report.Millis(l.p50), report.Millis(l.p99), atMost(publishLimit),
		report.Verdict(l.p99 <= publishLimit))
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
	times, err := u.publishUntil(fetched)
	<-fetched
	u.Must(errors.Join(err, failed))
	slices.Sort(times)
	l.published, l.p50, l.p99 = len(times), times[len(times)/2], times[len(times)*99/100]
	return l
}

func (u *system) fillBacklogs() {
	body := `"` + strings.Repeat("x", largeBytes-2) + `"`
	for i := range largeSubscribers {
		u.request(http.MethodPut, fmt.Sprintf("/v1/channels/large-%d/subscribers/s%d", i%largeChannels, i), "")
	}
	for i := range largeChannels * largeMessages {
		u.request(http.MethodPut, fmt.Sprintf("/v1/channels/large-%d/messages/m%d", i%largeChannels, i), body)
	}
}

// fetchBacklog reads a subscriber's whole backlog and discards it. While many answers are under way an answer may have
// only the first messages: it acknowledges these with the request for the next ones. Each subscriber has an address of
// its own, and so its own share of the memory of answers.
func (u *system) fetchBacklog(i int) error {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1+byte(i/200), 1+byte(i%200))}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	url := fmt.Sprintf("http://%s/v1/channels/large-%d/subscribers/s%d/next", u.server.HTTP, i%largeChannels, i)
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

// fetchNext acknowledges a receipt, unless it is empty, and fetches the next messages. It returns the size of the answer
// and its receipt.
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
	c := u.dial()
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
