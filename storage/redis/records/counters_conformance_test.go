package records_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records/counters"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/storagetest"
	"github.com/tidemark-dev/tidemark/storage/storagetest/recordstest"
)

func TestCountersConformance(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		recordstest.RunCounters(t, func(t testing.TB) recordstest.CounterHarness {
			t.Helper()
			conn := storetest.Connect(t, redis.Options{URL: r.URL, KeyPrefix: redistest.Prefix(t)})
			return countersHarness{records.NewCounters(conn), conn}
		})
	})
}

// countersHarness spells keys out, so that it doesn't follow a mistake of the store.
type countersHarness struct {
	store *records.Counters
	conn  *redis.Conn
}

func (h countersHarness) Views() counters.ViewStore { return h.store }

func (h countersHarness) Stats() counters.StatsStore { return h.store }

func (h countersHarness) States() counters.StateStore { return h.store.States() }

func (h countersHarness) do(ctx context.Context, command, key string, args ...string) error {
	c := h.conn.Client()
	return c.Do(ctx, c.B().Arbitrary(command).Keys(h.conn.Prefix()+key).Args(args...).Build()).Error()
}

func (h countersHarness) SpoilViews(ctx context.Context, id string) error {
	return h.do(ctx, "RPUSH", "viewed:{"+id+"}", "x")
}

func (h countersHarness) Earlier(ctx context.Context, of counters.Series, start time.Time, value int64) error {
	window, n := ":"+of.Timeframe.Name+":"+strconv.FormatInt(start.Unix(), 10), strconv.FormatInt(value, 10)
	if of.Fields {
		return h.do(ctx, "HSET", "stats:{a%7D:%7Bb}"+window, "a", n)
	}
	return h.do(ctx, "SET", "metrics:{a%7D:%7Bb}"+window, n)
}
