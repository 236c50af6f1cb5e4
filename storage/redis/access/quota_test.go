package access

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func TestQuota(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		conn := storetest.Connect(t, redis.Options{URL: r.URL, KeyPrefix: redistest.Prefix(t)})
		first, other := NewQuotas(conn), NewQuotas(conn)
		hourly := limits.Quota{Owner: "user:ann", Name: "requests", Rate: 1.0 / 3600, Burst: 10}
		take := func(q *Quotas, of limits.Quota, n int) limits.Taken {
			t.Helper()
			taken, err := q.Take(t.Context(), of, n)
			require.NoError(t, err)
			return taken
		}
		require.Equal(t, limits.Taken{OK: true, Left: 6}, take(first, hourly, 4))
		require.Equal(t, limits.Taken{OK: true, Left: 1}, take(other, hourly, 5), "servers count together")
		refused := take(first, hourly, 2)
		require.False(t, refused.OK)
		require.Equal(t, 1, refused.Left, "nothing was taken")
		require.InDelta(t, time.Hour, refused.Retry, float64(storetest.Patience))
		require.Equal(t, limits.Taken{OK: true}, take(first, hourly, 1))
		require.InDelta(t, 3*time.Hour, take(first, hourly, 3).Retry, float64(storetest.Patience))
		require.False(t, take(first, hourly, 11).OK, "more than the burst is never granted")

		bob := hourly
		bob.Owner = "user:bob"
		require.Equal(t, limits.Taken{OK: true, Left: 0}, take(first, bob, 10), "others have their own")
		bytes := hourly
		bytes.Name = "bytes"
		require.Equal(t, limits.Taken{OK: true, Left: 9}, take(first, bytes, 1), "and so have other quotas")

		fast := limits.Quota{Owner: "user:ann", Name: "fast", Rate: 1000, Burst: 5}
		require.True(t, take(first, fast, 5).OK)
		require.Eventually(t, func() bool { return take(first, fast, 5).OK }, storetest.Patience, time.Millisecond,
			"it fills")
	})
}

// The key of a quota expires when the quota is full again, and a value from another clock doesn't block a principal for
// longer.
func TestTheKeyOfAQuota(t *testing.T) {
	t.Parallel()
	l := storetest.NewLab(t)
	quotas, key := NewQuotas(l.Conn), quotaKey("", "key:a", "requests")
	of := limits.Quota{Owner: "key:a", Name: "requests", Rate: 0.1, Burst: 100}
	_, err := quotas.Take(t.Context(), of, 60)
	require.NoError(t, err)
	require.InDelta(t, 10*time.Minute, l.Life(t, key), float64(storetest.Patience))
	require.NoError(t, l.Node.Do(t, "SET", l.Conn.Prefix()+key, "9000000000000000").Error())
	taken, err := quotas.Take(t.Context(), of, 100)
	require.NoError(t, err)
	require.LessOrEqual(t, taken.Retry, 1000*time.Second)
}
