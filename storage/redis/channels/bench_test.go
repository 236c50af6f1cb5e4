package channels

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// BenchmarkPublish publishes messages of 256 bytes from 32 goroutines. cpu-us/op is the CPU time of this process
// for one publish, without Redis's.
func BenchmarkPublish(b *testing.B) {
	s, _ := openStandalone(b)
	content := []byte(`"` + strings.Repeat("x", 254) + `"`)
	policy := channel.Policy{TTL: time.Hour, MaxMessageBytes: 1 << 20}
	var n atomic.Int64
	benchmark(b, func() error {
		i := n.Add(1)
		_, err := s.Publish(b.Context(), channel.PublishRequest{
			Channel: fmt.Sprintf("bench-%d", i%100), Policy: policy,
			Drafts: []channel.Draft{{ID: fmt.Sprintf("m%d", i), Content: content}},
		})
		return err
	})
}

// BenchmarkFetch reads ten messages of 256 bytes.
func BenchmarkFetch(b *testing.B) {
	s, _ := openStandalone(b)
	policy := channel.Policy{TTL: time.Hour, MaxMessageBytes: 1 << 20}
	_, err := s.Subscribe(b.Context(), channel.SubscribeRequest{Channel: "ch", Subscriber: "s", Policy: policy})
	require.NoError(b, err)
	for i := range 10 {
		_, err := s.Publish(b.Context(), channel.PublishRequest{
			Channel: "ch", Policy: policy,
			Drafts: []channel.Draft{{ID: fmt.Sprintf("m%d", i), Content: []byte(`"` + strings.Repeat("x", 254) + `"`)}},
		})
		require.NoError(b, err)
	}
	benchmark(b, func() error {
		_, err := s.Fetch(b.Context(), channel.FetchRequest{Channel: "ch", Subscriber: "s", Max: 10, MaxBytes: 1 << 20,
			Policy: policy})
		return err
	})
}

func benchmark(b *testing.B, op func() error) {
	b.Helper()
	b.ReportAllocs()
	b.SetParallelism(16)
	before := cpuTime(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := op(); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkPublishEach publishes assignments on channels that don't exist, 64 in one call. All figures are for one of
// them: cpu-us/op as above, redis-us/op is Redis's CPU time.
func BenchmarkPublishEach(b *testing.B) {
	const together = 64
	node := redistest.Start(b, redistest.Options{})
	s := open(b, redis.Options{URL: node.URL()})
	policy := channel.Policy{TTL: 11 * time.Minute, MaxMessageBytes: 1 << 20}
	content := []byte(`{"ticketId":"` + strings.Repeat("x", 31) + `","matchId":"` + strings.Repeat("x", 31) +
		`","queue":"duel","connection":"127.0.0.1:7777","team":0}`)
	n := 0
	b.ReportAllocs()
	mine, redisBefore := cpuTime(b), node.CPU(b)
	for b.Loop() {
		requests := make([]channel.PublishRequest, together)
		for i := range requests {
			n++
			requests[i] = channel.PublishRequest{
				Channel: fmt.Sprintf("ticket.01ARZ3NDEKTSV4RRFF%08d.duel", n), Subscriber: "player", Policy: policy,
				Drafts: []channel.Draft{{ID: "assignment-01ARZ3NDEKTSV4RRFFQ69G5FAV.duel", Content: content}},
			}
		}
		for _, r := range s.PublishEach(b.Context(), requests) {
			require.NoError(b, r.Err)
		}
	}
	per := func(total time.Duration) float64 { return float64(total.Nanoseconds()) / 1000 / float64(n) }
	b.ReportMetric(per(cpuTime(b)-mine), "cpu-us/op")
	b.ReportMetric(per(node.CPU(b)-redisBefore), "redis-us/op")
}

// BenchmarkPositions reads the positions of 256 channels, as the backstop of waiting does. All figures are for one
// channel.
func BenchmarkPositions(b *testing.B) {
	const together = 256
	s, _ := openStandalone(b)
	names := make([]string, together)
	for i := range names {
		names[i] = fmt.Sprintf("ticket.01ARZ3NDEKTSV4RRFF%08d.duel", i)
		_, err := s.Subscribe(b.Context(), channel.SubscribeRequest{
			Channel: names[i], Subscriber: "s", Policy: channel.Policy{TTL: time.Hour, MaxMessageBytes: 1 << 20},
		})
		require.NoError(b, err)
		b.Cleanup(s.Listen(names[i], func(channel.Event) {}))
	}
	n := 0
	mine := cpuTime(b)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		n += together
		for _, r := range s.Positions(b.Context(), names) {
			require.NoError(b, r.Err)
		}
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64((cpuTime(b)-mine).Nanoseconds())/1000/float64(n), "cpu-us/channel")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(n), "B/channel")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(n), "allocs/channel")
}
