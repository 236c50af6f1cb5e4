package records_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	domain "github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// BenchmarkPut measures concurrent writes of a kind with a tier and of one without.
func BenchmarkPut(b *testing.B) {
	for _, kind := range []*records.Kind{site.Kind("topic"), site.Kind("author")} {
		b.Run(kind.Name, func(b *testing.B) {
			o := redis.Options{URL: redistest.Standalone(b).URL(), KeyPrefix: redistest.Prefix(b)}
			w := newWorld(b, o, o, domain.ChannelRule)
			reads, err := tracked.Open(b.Context(), w.values, tracked.Options{})
			require.NoError(b, err)
			defer reads.Close()
			store, announcer := redisrecords.NewCaches(site.Community().Table, w.values, w.values, reads),
				redisrecords.NewAnnouncer(w.channels, []*records.Kind{site.Kind("author")}, w.values.Timeout())
			defer store.Close()
			defer announcer.Close()
			store.Announce(announcer)
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					ctx := context.Background() //nolint:usetesting // RunParallel has no other
					v := records.Value{Key: records.CacheKey{Kind: kind, ID: fmt.Sprint(i % 1000)}, Bytes: []byte("value")}
					if err := store.Put(ctx, v); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkLoad measures the load of 100,000 values of 200 bytes by a node, without a rate limit.
func BenchmarkLoad(b *testing.B) {
	o := redis.Options{URL: redistest.Standalone(b).URL(), KeyPrefix: redistest.Prefix(b)}
	w := newWorld(b, o, o, domain.ChannelRule)
	const entries = 100_000
	value, client := strings.Repeat("x", 200), w.values.Client()
	for i := 0; i < entries; i += 1000 {
		var commands rueidis.Commands
		for j := range 1000 {
			key := o.KeyPrefix + site.Kind("author").Key(fmt.Sprint(i+j))
			commands = append(commands, client.B().Set().Key(key).Value(value).Build())
		}
		for _, reply := range client.DoMulti(b.Context(), commands...) {
			require.NoError(b, reply.Error())
		}
	}
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		source := domain.NewSource(domain.SourceOptions{
			Kind: site.Kind("author"), Values: redisrecords.NewValues(w.values), Channels: w.channels, Rate: 1 << 30,
			Life: func(ctx context.Context) (string, error) { return redisrecords.Life(ctx, w.others) },
		})
		_ = source.Run(ctx, shard.All, func(shard.Reader[string, string, []byte]) { cancel() })
		require.EqualValues(b, entries, source.Stats().Entries)
	}
	b.ReportMetric(entries*float64(b.N)/b.Elapsed().Seconds(), "values/s")
}

// BenchmarkFollow measures the time from the beginning of a write until a node returns the new value.
func BenchmarkFollow(b *testing.B) {
	o := redis.Options{URL: redistest.Standalone(b).URL(), KeyPrefix: redistest.Prefix(b)}
	w := newWorld(b, o, o, domain.ChannelRule)
	authors, _ := w.process(b)
	n := w.follow(b, site.Kind("author"), shard.All)
	follow := func(value string) {
		require.NoError(b, authors.put(b.Context(), "1", value))
		for n.answer(b, []string{"1"})["1"] != value {
			runtime.Gosched()
		}
	}
	follow("loaded")
	for i := 0; b.Loop(); i++ {
		follow(fmt.Sprint(i))
	}
}
