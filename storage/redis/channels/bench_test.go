package channels

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
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
		_, err := s.Fetch(b.Context(), channel.FetchRequest{Channel: "ch", Subscriber: "s", Max: 10, MaxBytes: 1 << 20, Policy: policy})
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
