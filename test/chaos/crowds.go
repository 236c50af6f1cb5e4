package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/report"
)

const (
	largeChannels = 10
	largeReaders  = 30 // of each channel
	largeMessages = 16 // of each channel, 4 MiB together
	largeBytes    = 256<<10 - 64
	largeLimit    = 30 * time.Second
	retryPause    = 500 * time.Millisecond // minimum pause after a refused fetch

	manySubscribers = 256 // of a channel, each in every fetch of many
	manyFetches     = 300
	manyBytes       = 250 << 10

	queueCount       = 1000
	queueClients     = 16 // that create and delete queues concurrently
	queueConnections = 40 // additional connections to Redis that the queues may need, for all services
)

// fetchLargely fills channels, and lets all their subscribers fetch at the same time.
func fetchLargely(s *stage) {
	content := `"` + strings.Repeat("x", largeBytes) + `"`
	for c := range largeChannels {
		for r := range largeReaders {
			s.Must(s.expect(http.MethodPut, "http://"+s.services[0].HTTP+fmt.Sprintf("/v1/channels/large-%d/subscribers/r%d",
				c, r), `{"from":"earliest"}`))
		}
		for m := range largeMessages {
			s.Must(s.expect(http.MethodPut, "http://"+s.services[0].HTTP+fmt.Sprintf("/v1/channels/large-%d/messages/m%d", c,
				m), content))
		}
	}
	var answered, refused, received atomic.Int64
	started := time.Now()
	s.attack(largeChannels*largeReaders, largeLimit, func(ctx context.Context, number int) error {
		path := fmt.Sprintf("/v1/channels/large-%d/subscribers/r%d/messages", number%largeChannels, number/largeChannels)
		for ctx.Err() == nil {
			n, err := s.readAll(ctx, http.MethodGet, "http://"+s.services[0].HTTP+path, "")
			if err == nil {
				answered.Add(1)
				received.Add(n)
				return nil
			}
			refused.Add(1)
			pace.Sleep(ctx, retryPause+rand.N(retryPause)) //nolint:gosec // no secret; the loop checks ctx
		}
		return nil
	})
	s.note("%d of %d large fetches returned %d MiB in %s, after %d that were refused or broke",
		answered.Load(), largeChannels*largeReaders, received.Load()/miB, report.Seconds(time.Since(started)), refused.Load())
	if answered.Load() < largeChannels*largeReaders {
		s.complain("%d of %d large fetches had no response after %s", largeChannels*largeReaders-answered.Load(),
			largeChannels*largeReaders, largeLimit)
	}
}

// fetchManyLargely fills a channel, and fetches for all of its subscribers together, many times at the same time.
func fetchManyLargely(s *stage) {
	base := "http://" + s.services[0].HTTP
	var from []string
	for i := range manySubscribers {
		s.Must(s.expect(http.MethodPut, fmt.Sprintf("%s/v1/channels/many/subscribers/r%d", base, i), `{"from":"earliest"}`))
		from = append(from, fmt.Sprintf(`{"channel":"many","subscriber":"r%d"}`, i))
	}
	content := `"` + strings.Repeat("x", manyBytes-2) + `"`
	for i := range largeMessages {
		s.Must(s.expect(http.MethodPut, fmt.Sprintf("%s/v1/channels/many/messages/m%d", base, i), content))
	}
	body := `{"from":[` + strings.Join(from, ",") + `]}`
	var answered, refused atomic.Int64
	started := time.Now()
	s.attack(manyFetches, largeLimit, func(ctx context.Context, _ int) error {
		if _, err := s.readAll(ctx, http.MethodPost, base+"/v1/fetch", body); err != nil {
			refused.Add(1)
		} else {
			answered.Add(1)
		}
		return nil
	})
	s.note("%d of %d fetches of many were answered in %s, %d were refused or broke", answered.Load(), manyFetches,
		report.Seconds(time.Since(started)), refused.Load())
}

// readAll sends a request, reads the whole response, and returns its size.
func (s *stage) readAll(ctx context.Context, method, url, body string) (int64, error) {
	response, err := s.request(ctx, method, url, body)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, response.Body)
	err = errors.Join(err, response.Body.Close())
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", response.StatusCode)
	}
	return n, err
}

// expect sends a request that must succeed.
func (s *stage) expect(method, url, body string) error {
	response, err := s.request(s.Context(), method, url, body)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: status %d: %s", method, url, response.StatusCode, text)
	}
	return err
}

// putQueues creates queues, measures their cost, and deletes them.
func putQueues(s *stage) {
	before := s.redisClients()
	put := s.eachQueue(http.MethodPut, `{}`)
	s.pause(5 * time.Second) // all servers know the queues within about two seconds
	during, memory := s.redisClients(), s.resident()
	s.eachQueue(http.MethodDelete, "")
	s.pause(3 * time.Second)
	lines, err := s.metricLines(`queue="crowd-`)
	s.Must(err)
	s.note("%d queues: %d connections to Redis before, %d with them; %d MB of memory; %d lines of metrics left after "+
		"their deletion",
		put, before, during, memory/miB, lines)
	if during-before > queueConnections {
		s.complain("%d queues needed %d connections to Redis", put, during-before)
	}
	if lines > 0 {
		s.complain("%d lines of metrics of deleted queues are left", lines)
	}
}

// eachQueue sends a request for each queue, and returns how many succeeded.
func (s *stage) eachQueue(method, body string) int64 {
	var next, done atomic.Int64
	var failure atomic.Pointer[string]
	s.attack(queueClients, largeLimit, func(ctx context.Context, _ int) error {
		for i := next.Add(1); i <= queueCount && ctx.Err() == nil; i = next.Add(1) {
			if err := s.expect(method, fmt.Sprintf("http://%s/v1/queues/crowd-%d", s.services[0].Admin, i), body); err != nil {
				text := err.Error()
				failure.Store(&text)
				continue
			}
			done.Add(1)
		}
		return nil
	})
	if n := done.Load(); n < queueCount {
		s.complain("%s of queues: %d of %d succeeded; the last failure: %s", method, n, queueCount, *failure.Load())
	}
	return done.Load()
}

// redisClients returns how many connections Redis has.
func (s *stage) redisClients() int {
	info, err := s.node.Do(s, "INFO", "clients").ToString()
	s.Must(err)
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "connected_clients:"); ok {
			n, err := strconv.Atoi(value)
			s.Must(err)
			return n
		}
	}
	s.Fatalf("INFO has no connected_clients")
	return 0
}

// metricLines returns how many lines of a service's metrics contain a text.
func (s *stage) metricLines(text string) (int, error) {
	var g errgroup.Group
	lines := make([]int, len(s.services))
	for i, service := range s.services {
		g.Go(func() (err error) {
			lines[i], err = service.MetricLines(s.Context(), text)
			return err
		})
	}
	err := g.Wait()
	return slices.Max(lines), err
}
