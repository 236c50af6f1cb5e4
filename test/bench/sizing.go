package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/program/sizing"
	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/report"
)

// The ratios of an estimate of tidemark size and a measurement that docs/sizing.md states, either way.
const (
	memoryRatio  = 1.25
	trafficRatio = 1.5
	cpuRatio     = 2
)

const sizingIntro = "\n## Estimates\n\n`tidemark size`, which [sizing.md](sizing.md) describes, against a run: on each of %d " +
	"channels a subscriber waits, receives\neach message in a fetch of its own, and acknowledges it. CPU times and bytes are " +
	"those of a message.\n\n| contents of | figure | estimate | measured | ratio | goal | |\n|---:|---|---:|---:|---:|---|---|\n"

// measureSizing compares estimates of tidemark size with a run.
func measureSizing(b *bench) {
	b.printf(sizingIntro, channelCount)
	for _, bytes := range []int{contentBytes, 8 << 10} {
		b.compareSizing(bytes, b.requests/2/channelCount)
	}
}

// compareSizing publishes a number of messages on each channel to a subscriber that waits.
func (b *bench) compareSizing(bytes, each int) {
	u := b.start()
	defer u.stop()
	u.redis.empty()
	u.repeat(channelCount, func(n int) []byte {
		return load.Request(http.MethodPut, subscriberPath(sizingChannel(n-1), "s"), "")
	})
	n, content := channelCount*each, `"`+strings.Repeat("x", bytes-2)+`"`
	m := &meter{system: u, servers: []*service{u.server}}
	m.read()
	receiving, ctx := errgroup.WithContext(u.Context())
	for i := range channelCount {
		receiving.Go(func() error {
			c, err := load.Dial(ctx, u.server.HTTP)
			if err != nil {
				return err
			}
			defer c.Close()
			return receiveSingly(c, subscriberPath(sizingChannel(i), "s"), each)
		})
	}
	u.repeat(n, func(n int) []byte {
		return load.Request(http.MethodPost, "/v1/channels/"+sizingChannel(n%channelCount)+"/messages",
			`{"content":`+content+`}`)
	})
	u.Must(receiving.Wait())
	m.read()
	used, memory := m.perTicket(n), u.redis.memory()

	l := sizing.Load{
		Channels: channelCount, MessageBytes: bytes, TTL: time.Hour, Rate: float64(n) / time.Hour.Seconds(),
		Subscribers: channelCount, Waiters: channelCount, NameBytes: len(sizingChannel(0)), ServerCores: 4, Servers: 1,
	}
	e := sizing.Of(l)
	row := func(figure, form string, estimate, measured, limit float64) {
		ratio := estimate / measured
		b.printf("| %d bytes | %s | "+form+" | "+form+" | %.2f | %.2f to %.2f | %s |\n", bytes, figure, estimate, measured,
			ratio, 1/limit, limit, report.Verdict(ratio <= limit && ratio >= 1/limit))
		progress("sizing, %d bytes, %s: %.2f", bytes, figure, ratio)
	}
	row("Redis memory, all", "%.1f MB", e.RedisBytes/1e6, memory/1e6, memoryRatio)
	row("Redis receives", "%.0f B", e.RedisIn/l.Rate, used.in, trafficRatio)
	row("Redis sends", "%.0f B", e.RedisOut/l.Rate, used.out, trafficRatio)
	row("Redis CPU", "%.1f µs", e.RedisCores/l.Rate*1e6, used.redis.Seconds()*1e6, cpuRatio)
	row("server CPU", "%.1f µs", e.ServerCores/l.Rate*1e6, used.server.Seconds()*1e6, cpuRatio)
}

func sizingChannel(i int) string { return fmt.Sprintf("sizing-%08d", i) }

// receiveSingly receives and acknowledges a number of messages, one at a time.
func receiveSingly(c *load.Conn, subscriber string, n int) error {
	request := load.Request(http.MethodGet, subscriber+"/messages?max=1&wait=30s", "")
	for {
		a, err := c.Do(request)
		if err != nil {
			return err
		}
		var got struct {
			Messages      []json.RawMessage `json:"messages"`
			ReceiptHandle string            `json:"receiptHandle"`
		}
		if err := json.Unmarshal(a.Body, &got); err != nil {
			return err
		}
		if n -= len(got.Messages); n == 0 {
			_, err := c.Do(load.Request(http.MethodPost, subscriber+"/next",
				fmt.Sprintf(`{"receiptHandle":%q}`, got.ReceiptHandle)))
			return err
		}
		if len(got.Messages) > 0 {
			request = load.Request(http.MethodPost, subscriber+"/next",
				fmt.Sprintf(`{"receiptHandle":%q,"max":1,"wait":"30s"}`, got.ReceiptHandle))
		}
	}
}
