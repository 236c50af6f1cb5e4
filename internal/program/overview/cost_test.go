package overview_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/internal/program/overview"
)

// BenchmarkHistory adds an hour of points, of a server without queues and of one with as many queues, kinds of caches
// and codes as a history has. It reports the memory that the points take.
func BenchmarkHistory(b *testing.B) {
	for _, limit := range []int{0, 64} {
		b.Run(fmt.Sprintf("%d queues", limit), func(b *testing.B) {
			registry := prometheus.NewRegistry()
			queues, err := metrics.NewQueues(registry)
			require.NoError(b, err)
			reads := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_cache_events_total"},
				[]string{"kind", "event"})
			requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_http_requests_total"},
				[]string{"code", "route", "method"})
			failures := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_redis_failures_total"},
				[]string{"redis", "code"})
			registry.MustRegister(reads, requests, failures)
			change := func() {
				for i := range limit {
					name := fmt.Sprint("queue-", i)
					queues.Created(name)
					queues.Queue(name).Matched([]time.Duration{time.Second})
					reads.WithLabelValues(name, "hit").Inc()
					requests.WithLabelValues(fmt.Sprint(400+i), "/", "GET").Inc()
					failures.WithLabelValues("channels", name).Inc()
				}
			}
			var before, after runtime.MemStats
			for b.Loop() {
				runtime.GC()
				runtime.ReadMemStats(&before)
				h, now := overview.NewHistory(registry, "server"), time.Now()
				for range 361 {
					change()
					now = now.Add(overview.Interval)
					h.Add(now)
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				runtime.KeepAlive(h)
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc), "B/hour")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/361, "µs/point")
		})
	}
}
