package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/test/report"
)

const (
	largeChannels = 10
	largeReaders  = 30 // of each channel
	largeMessages = 16 // of each channel, 4 MiB together
	largeBytes    = 256<<10 - 62
	largeLimit    = 30 * time.Second
	retryPause    = 500 * time.Millisecond // minimum pause after a refused fetch

	manySubscribers = 256 // of a channel, each in every fetch of many
	manyFetches     = 300
	manyBytes       = 250 << 10

	queueCount       = 1000
	queueConnections = 40 // additional connections to Redis that the queues may need, for all services
)

// fetchLargely fills channels, and lets all their subscribers fetch at the same time.
func fetchLargely(s *stage) {
	for n := range largeChannels {
		s.prepareChannel(fmt.Sprintf("large-%d", n), largeReaders, largeMessages, largeBytes)
	}
	var answered, refused, received atomic.Int64
	started := time.Now()
	s.attack(largeChannels*largeReaders, largeLimit, func(ctx context.Context, number int) error {
		path := fmt.Sprintf("/v1/channels/large-%d/subscribers/r%d/messages", number%largeChannels, number/largeChannels)
		for ctx.Err() == nil {
			a, err := s.send(ctx, s.public(http.MethodGet, path, ""))
			if err == nil {
				answered.Add(1)
				received.Add(a.size)
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
	s.prepareChannel("many", manySubscribers, largeMessages, manyBytes)
	from := make([]string, manySubscribers)
	for i := range from {
		from[i] = fmt.Sprintf(`{"channel":"many","subscriber":"r%d"}`, i)
	}
	body := `{"from":[` + strings.Join(from, ",") + `]}`
	var answered, refused atomic.Int64
	started := time.Now()
	s.attack(manyFetches, largeLimit, func(ctx context.Context, _ int) error {
		if _, err := s.send(ctx, s.public(http.MethodPost, "/v1/fetch", body)); err != nil {
			refused.Add(1)
		} else {
			answered.Add(1)
		}
		return nil
	})
	s.note("%d of %d fetches of many were answered in %s, %d were refused or broke", answered.Load(), manyFetches,
		report.Seconds(time.Since(started)), refused.Load())
}

// putQueues creates queues, measures their cost, and deletes them.
func putQueues(s *stage) {
	before := s.redisClients()
	each := func(method, body string) {
		s.prepare(queueCount, func(n int) request { return s.admin(method, fmt.Sprintf("/v1/queues/crowd-%d", n), body) })
	}
	each(http.MethodPut, `{}`)
	s.pause(5 * time.Second) // all servers know the queues within about two seconds
	during, memory := s.redisClients(), s.resident()
	each(http.MethodDelete, "")
	s.pause(3 * time.Second)
	lines := 0
	for _, service := range s.services {
		n, err := service.MetricLines(s.Context(), `queue="crowd-`)
		s.Must(err)
		lines = max(lines, n)
	}
	s.note("%d queues: %d connections to Redis before, %d with them; %d MB of memory; %d lines of metrics left after "+
		"their deletion", queueCount, before, during, memory/miB, lines)
	if during-before > queueConnections {
		s.complain("%d queues needed %d connections to Redis", queueCount, during-before)
	}
	if lines > 0 {
		s.complain("%d lines of metrics of deleted queues are left", lines)
	}
}

// redisClients returns how many connections Redis has.
func (s *stage) redisClients() int {
	info, err := s.node.Do(s, "INFO", "clients").ToString()
	s.Must(err)
	_, text, _ := strings.Cut(info, "connected_clients:")
	text, _, _ = strings.Cut(text, "\r\n")
	n, err := strconv.Atoi(text)
	s.Must(err)
	return n
}
