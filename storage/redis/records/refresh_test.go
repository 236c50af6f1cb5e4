package records_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records/site"
	domain "github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// A node that was cut off from Redis until its claim ended doesn't answer again before it has read what was changed
// meanwhile, however late it reads the announcements.
func TestANodeThatWasCutOff(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	options := redis.Options{URL: server.URL(), KeyPrefix: redistest.Prefix(t)}
	w := newWorld(t, options, options, domain.ChannelRule)
	authors, _ := w.process(t)
	require.NoError(t, authors.put(t.Context(), "1", "old"))

	cut := redistest.NewProxy(t, server)
	throughCut := options
	throughCut.URL, throughCut.Timeout = cut.Addr(), time.Second
	claims := shards.New(storetest.Connect(t, throughCut))
	layouts := shards.New(w.values)
	_, err := layouts.SetLayout(t.Context(), "author", "a", 0, shard.Even(1))
	require.NoError(t, err)
	d, err := domain.Describe(site.Kind("author"))
	require.NoError(t, err)
	source := domain.NewSource(domain.SourceOptions{
		Kind: site.Kind("author"), Values: redisrecords.NewValues(w.values), Channels: w.channels,
		Life: func(ctx context.Context) (string, error) { return redisrecords.Life(ctx, w.others) },
	})
	n, err := shard.NewNode(d, source, shard.NodeOptions{Claims: claims, PingPeriod: 50 * time.Millisecond,
		TTL: time.Second, Member: shard.Member{DC: "a", Host: "h", Address: "h:1"}})
	require.NoError(t, err)
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() { _ = n.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	asked, err := d.Keys.Append(nil, []string{"1"})
	require.NoError(t, err)
	answer := func() (value string, ok bool) {
		got, err := n.Get(t.Context(), &shard.Request{Cache: "author", Keys: []uint64{shard.HashString("1")},
			Payload: asked})
		require.NoError(t, err)
		if !got.Assigned {
			return "", false
		}
		entries, err := d.Values.Decode(got.Payload)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		return string(entries[0].Value), true
	}
	ready := func() bool { return n.Ready() == nil }
	storetest.WaitFor(t, "the node to answer", ready)

	w.channels.closed.Lock()
	openGate := sync.OnceFunc(w.channels.closed.Unlock)
	t.Cleanup(openGate)
	cut.Refuse(true)
	cut.Cut()
	storetest.WaitFor(t, "the claim to end", func() bool { return !ready() })
	require.NoError(t, authors.put(t.Context(), "1", "new"))
	cut.Refuse(false)
	storetest.WaitFor(t, "the shard to be claimed again", func() bool {
		return ready() || strings.Contains(fmt.Sprint(n.Ready()), "missed")
	})
	_, ok := answer()
	require.False(t, ok, "it would be the old value")
	dcs, err := layouts.Status(t.Context(), "author")
	require.NoError(t, err)
	require.False(t, dcs[0].Whole(), "the shard isn't reported as loaded")
	openGate()
	storetest.WaitFor(t, "the node to answer", func() bool {
		value, ok := answer()
		require.True(t, !ok || value == "new")
		return ok
	})
}
