package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/program/sizing"
	"github.com/tidemark-dev/tidemark/test/load"
)

// The ratios of an estimate of tidemark size and a measurement that docs/sizing.md states, either way.
const (
	memoryRatio  = 1.25
	trafficRatio = 1.5
	cpuRatio     = 2
)

// measureSizing compares estimates of tidemark size with a run.
func measureSizing(b *bench) {
	b.printf("`tidemark size`, which [sizing.md](sizing.md) describes, against a run: on each of %d channels a subscriber "+
		"waits, receives\neach message in a fetch of its own, and acknowledges it. CPU times and bytes are those of a "+
		"message.\n\n", channelCount)
	b.table("contents of: | figure | estimate: | measured: | ratio: | goal | ")
	for _, bytes := range []int{contentBytes, 8 << 10} {
		b.compareSizing(bytes, b.requests/2/channelCount)
	}
}

// compareSizing publishes a number of messages on each channel to a subscriber that waits.
func (b *bench) compareSizing(bytes, each int) {
	u := b.start()
	defer u.stop()
	u.redis.empty()
	path := func(i int) string { return subscriberPath(sizingChannel(i), "s") }
	u.subscribe(channelCount, path)
	n, content := channelCount*each, `"`+strings.Repeat("x", bytes-2)+`"`
	m := meter{system: u, servers: []*service{u.server}}
	used := m.during(n, func() {
		receiving, ctx := errgroup.WithContext(u.Context())
		for i := range channelCount {
			receiving.Go(func() error { return u.consume(ctx, path(i), each, 1, "30s") })
		}
		u.repeat(n, func(n int) []byte {
			return load.Request(http.MethodPost, "/v1/channels/"+sizingChannel(n%channelCount)+"/messages",
				`{"content":`+content+`}`)
		})
		u.Must(receiving.Wait())
	})
	memory := u.redis.memory()

	l := sizing.Load{
		Channels: channelCount, MessageBytes: bytes, TTL: time.Hour, Rate: float64(n) / time.Hour.Seconds(),
		Subscribers: channelCount, Waiters: channelCount, NameBytes: len(sizingChannel(0)), ServerCores: 4, Servers: 1,
	}
	e := sizing.Of(l)
	row := func(figure, form string, estimate, measured, limit float64) {
		ratio := estimate / measured
		b.row(fmt.Sprintf("%d bytes", bytes), figure, fmt.Sprintf(form, estimate), fmt.Sprintf(form, measured),
			fmt.Sprintf("%.2f", ratio), fmt.Sprintf("%.2f to %.2f", 1/limit, limit), ratio <= limit && ratio >= 1/limit)
	}
	row("Redis memory, all", "%.1f MB", e.RedisBytes/1e6, memory/1e6, memoryRatio)
	row("Redis receives", "%.0f B", e.RedisIn/l.Rate, used.in, trafficRatio)
	row("Redis sends", "%.0f B", e.RedisOut/l.Rate, used.out, trafficRatio)
	row("Redis CPU", "%.1f µs", e.RedisCores/l.Rate*1e6, used.redis.Seconds()*1e6, cpuRatio)
	row("server CPU", "%.1f µs", e.ServerCores/l.Rate*1e6, used.server.Seconds()*1e6, cpuRatio)
}

func sizingChannel(i int) string { return fmt.Sprintf("sizing-%08d", i) }
