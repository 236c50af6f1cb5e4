package cache_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
)

// BenchmarkHotRead reads an entity that is kept in the process, through a proxy that counts the commands to Redis.
func BenchmarkHotRead(b *testing.B) {
	type author struct{ Name, Slug string }
	proxy := redistest.NewProxy(b, redistest.Standalone(b))
	conn := storetest.Connect(b, redis.Options{URL: proxy.Addr(), KeyPrefix: redistest.Prefix(b)})
	c := open(b, processOf(b, conn), cache.Options[author]{Kind: records.Author})
	require.NoError(b, c.Put(b.Context(), "7", author{"Ann", "ann"}))
	load := func(context.Context) (author, error) { return author{}, cache.ErrNotFound }
	for _, read := range []struct {
		name string
		do   func() (author, error)
	}{
		{"Get", func() (author, error) { return c.Get(b.Context(), "7") }},
		{"Load", func() (author, error) { return c.Load(b.Context(), "7", load) }},
	} {
		b.Run(read.name, func(b *testing.B) {
			_, err := read.do()
			require.NoError(b, err)
			sent := proxy.Count()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := read.do(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(proxy.Count()-sent), "commands")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
		})
	}
}

// BenchmarkLoadMissing measures 1,000 callers on three processes that load one missing key.
func BenchmarkLoadMissing(b *testing.B) {
	o := redis.Options{URL: redistest.Standalone(b).URL(), KeyPrefix: redistest.Prefix(b)}
	var caches []*cache.Cache[string]
	for range 3 {
		caches = append(caches, open(b, newProcess(b, o), cache.Options[string]{Kind: records.Author}))
	}
	var loads atomic.Int64
	n := 0
	for b.Loop() {
		n++
		var callers sync.WaitGroup
		for i := range 1000 {
			callers.Go(func() {
				_, err := caches[i%3].Load(b.Context(), fmt.Sprint(n), func(context.Context) (string, error) {
					loads.Add(1)
					return "value", nil
				})
				if err != nil {
					b.Error(err)
				}
			})
		}
		callers.Wait()
	}
	b.ReportMetric(float64(loads.Load())/float64(n), "loads/key")
}
