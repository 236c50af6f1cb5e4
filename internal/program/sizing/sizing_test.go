package sizing_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/program/sizing"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// accuracy is the ratio of the estimated and the measured memory that docs/sizing.md states, either way.
const accuracy = 1.25

// TestMemory fills a Redis, and compares the memory that it uses with the estimate.
func TestMemory(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]sizing.Load{
		"small messages":      {Channels: 100, MaxMessages: 150, MessageBytes: 20, Subscribers: 100},
		"messages of 256":     {Channels: 1000, MaxMessages: 20, MessageBytes: 256, Subscribers: 2000},
		"messages of 3 KiB":   {Channels: 10, MaxMessages: 1000, MessageBytes: 3000, Subscribers: 10},
		"channels":            {Channels: 10000, MaxMessages: 1, MessageBytes: 100, Subscribers: 10000},
		"subscribers":         {Channels: 20, MaxMessages: 10, MessageBytes: 100, Subscribers: 20000},
		"slots of a Cluster":  {Channels: 300, MaxMessages: 50, MessageBytes: 200, Subscribers: 300, Cluster: true},
		"messages of 100 KiB": {Channels: 5, MaxMessages: 60, MessageBytes: 100 << 10, Subscribers: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l.NameBytes, l.TTL, l.ServerCores = len(channelName(0)), time.Hour, 4
			l.Rate = float64(l.Channels*l.MaxMessages) / l.TTL.Seconds()
			measured, estimated := fill(t, l), sizing.Of(l).RedisBytes
			t.Logf("measured %.0f, estimated %.0f, ratio %.2f", measured, estimated, estimated/measured)
			require.InDelta(t, 1, max(estimated/measured, measured/estimated), accuracy-1)
		})
	}
}

func channelName(i int) string { return fmt.Sprintf("channel-%08d", i) }

// fill writes what a load has in Redis at the same time, and returns the memory of Redis.
func fill(t *testing.T, l sizing.Load) (bytes float64) {
	t.Helper()
	var nodes []*redistest.Node
	if l.Cluster {
		nodes = redistest.StartCluster(t, redistest.Options{Primaries: 3, Replicas: -1}).Nodes()
	} else {
		nodes = []*redistest.Node{redistest.Start(t, redistest.Options{})}
	}
	before := used(t, nodes)
	conn, err := redis.Connect(t.Context(), redis.Options{URL: nodes[0].URL(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	store, err := channels.New(conn, channels.Options{})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	policy := channel.Policy{TTL: l.TTL, MaxMessageBytes: l.MessageBytes}
	content := []byte(`"` + strings.Repeat("x", l.MessageBytes-2) + `"`)
	for i := range l.Channels {
		for n := range l.Subscribers / l.Channels {
			_, err := store.Subscribe(t.Context(), channel.SubscribeRequest{Channel: channelName(i),
				Subscriber: fmt.Sprintf("sub-%08d", n), Policy: policy})
			require.NoError(t, err)
		}
		for remaining := l.MaxMessages; remaining > 0; remaining -= 100 {
			drafts := make([]channel.Draft, min(remaining, 100))
			for n := range drafts {
				drafts[n] = channel.Draft{ID: ulid.Make().String(), Content: content}
			}
			_, err := store.Publish(t.Context(), channel.PublishRequest{Channel: channelName(i), Drafts: drafts, Policy: policy})
			require.NoError(t, err)
		}
	}
	if l.Cluster { // each of the nodes has the memory of an empty Redis and of its connections
		return used(t, nodes) - before + before/float64(len(nodes))
	}
	return used(t, nodes)
}

// used returns the memory that Redis uses.
func used(t *testing.T, nodes []*redistest.Node) (sum float64) {
	t.Helper()
	for _, n := range nodes {
		sum += n.Number(t, "memory", "used_memory")
	}
	return sum
}

// TestLoads: more of anything never needs less of anything, and what is idle costs no CPU time.
func TestLoads(t *testing.T) {
	t.Parallel()
	base := sizing.Load{Channels: 100, Rate: 50, MessageBytes: 500, TTL: time.Hour, Subscribers: 300, Waiters: 200,
		NameBytes: 16, ServerCores: 4}
	least := sizing.Of(base)
	for name, change := range map[string]func(*sizing.Load){
		"rate": func(l *sizing.Load) { l.Rate *= 2 }, "bytes": func(l *sizing.Load) { l.MessageBytes *= 2 },
		"ttl": func(l *sizing.Load) { l.TTL *= 2 }, "subscribers": func(l *sizing.Load) { l.Subscribers *= 2 },
		"waiters": func(l *sizing.Load) { l.Waiters = l.Subscribers }, "cluster": func(l *sizing.Load) { l.Cluster = true },
	} {
		l := base
		change(&l)
		more := sizing.Of(l)
		for _, pair := range [][2]float64{
			{least.RedisBytes, more.RedisBytes}, {least.RedisIn, more.RedisIn}, {least.RedisOut, more.RedisOut},
			{least.ClientsIn, more.ClientsIn}, {least.ClientsOut, more.ClientsOut}, {least.RedisCores, more.RedisCores},
			{least.ServerCores, more.ServerCores}, {least.ServerBytes, more.ServerBytes},
			{float64(least.Servers), float64(more.Servers)}, {float64(least.Primaries), float64(more.Primaries)},
		} {
			require.GreaterOrEqual(t, pair[1], pair[0], name)
		}
	}
	idle := base
	idle.Rate = 0
	require.Zero(t, sizing.Of(idle).RedisCores+sizing.Of(idle).ServerCores+sizing.Of(idle).ClientsOut)
	limited := base
	limited.MaxMessages = 1
	require.InDelta(t, 100, sizing.Of(limited).Messages, 0)
}
