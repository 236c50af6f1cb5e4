package records_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	domain "github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/test/process"
)

// writerEnv makes a process of this test binary write a value and kill itself: "<URL of Redis> <key prefix> <ID>
// <when>".
const writerEnv = "TIDEMARK_TEST_TIER_WRITER"

// tierKinds are the kinds that are read through the tier.
var tierKinds = []*records.Kind{site.Kind("author"), site.Kind("shouts")}

// newService returns the channels of a Redis.
func newService(conn *redis.Conn, rule channel.Rule) (*channel.Service, error) {
	policies, err := channel.NewPolicies(channel.Policy{TTL: time.Hour, MaxMessageBytes: 1 << 20}, []channel.Rule{rule})
	if err != nil {
		return nil, err
	}
	store, err := channels.New(conn, channels.Options{})
	if err != nil {
		return nil, err
	}
	ring, err := receipt.NewKeyring(make([]byte, receipt.MinKeyBytes))
	if err != nil {
		return nil, err
	}
	return channel.NewService(channel.Options{
		Store: store, Receipts: ring, Policies: policies, Limits: channel.DefaultLimits(),
		Logger: slog.New(slog.DiscardHandler),
	})
}

// runWriter is the program of a writer that kills itself between its announcements, before or after its write, or after
// it has removed the value to be replaced.
func runWriter() {
	ctx, arguments := context.Background(), strings.Fields(os.Getenv(writerEnv))
	conn, err := redis.Connect(ctx, redis.Options{URL: arguments[0], KeyPrefix: arguments[1],
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	service, err := newService(conn, domain.ChannelRule)
	if err != nil {
		panic(err)
	}
	reads, err := tracked.Open(ctx, conn, tracked.Options{})
	if err != nil {
		panic(err)
	}
	store := redisrecords.NewCaches(site.Community().Table, conn, conn, reads)
	v := records.Value{Key: records.CacheKey{Kind: site.Kind("author"), ID: arguments[2]}, Bytes: []byte("of one that died")}
	if arguments[3] == "loading" {
		v.Tags, v.TTL = []string{"t"}, time.Hour
	}
	store.Announce(&dying{Announcer: redisrecords.NewAnnouncer(service, tierKinds, conn.Timeout()), when: arguments[3]})
	panic(store.Put(ctx, v))
}

// dying is an announcer whose process dies: between its announcements, before or after the write; or when the load of
// an indexed value has begun, which has removed the older one, and announced.
type dying struct {
	*redisrecords.Announcer

	when    string
	loading bool
}

func (d *dying) Announce(ctx context.Context, keys []records.CacheKey, write func(context.Context) error) error {
	if d.when == "loading" {
		if !d.loading {
			d.loading = true
			return d.Announcer.Announce(ctx, keys, write)
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return d.Announcer.Announce(ctx, keys, func(ctx context.Context) error {
		if d.when == "after" {
			if err := write(ctx); err != nil {
				return err
			}
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	})
}

// world is a cache that is read through the tier.
type world struct {
	url            string
	values, others *redis.Conn // of the values, and of the channels
	channels       *gate
}

// newWorld returns a world with values in the Redis of o, and channels in that of others.
func newWorld(t testing.TB, o, others redis.Options, rule channel.Rule) *world {
	t.Helper()
	w := &world{url: o.URL, values: storetest.Connect(t, o), others: storetest.Connect(t, others)}
	service, err := newService(w.others, rule)
	require.NoError(t, err)
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() { _ = service.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	w.channels = &gate{Service: service}
	return w
}

// values are the values of a kind in the store of one process. Those that end are indexed.
type values struct {
	records.CacheStore

	kind *records.Kind
}

func (v values) indexed() bool { return v.kind.TTL > 0 }

func (v values) put(ctx context.Context, id, data string) error {
	value := records.Value{Key: records.CacheKey{Kind: v.kind, ID: id}, Bytes: []byte(data), TTL: v.kind.TTL}
	if v.indexed() {
		value.Prefixed, value.Tags = true, []string{"all", "last:" + id[len(id)-1:]}
	}
	return v.Put(ctx, value)
}

func (v values) invalidate(ctx context.Context, id string) error {
	return v.Invalidate(ctx, v.kind, []string{id})
}

// process returns the values of one process.
func (w *world) process(t testing.TB) (authors, shouts values) {
	t.Helper()
	reads, err := tracked.Open(t.Context(), w.values, tracked.Options{})
	require.NoError(t, err)
	store := redisrecords.NewCaches(site.Community().Table, w.values, w.values, reads)
	announcer := redisrecords.NewAnnouncer(w.channels, tierKinds, w.others.Timeout())
	store.Announce(announcer)
	t.Cleanup(func() {
		announcer.Close()
		store.Close()
		reads.Close()
	})
	return values{store, site.Kind("author")}, values{store, site.Kind("shouts")}
}

// kill runs a writer that dies.
func (w *world) kill(t *testing.T, id, when string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process.Process{
		Program: self, Dir: t.TempDir(), LogName: "writer.log",
		Env: append(os.Environ(), writerEnv+"="+strings.Join([]string{w.url, w.values.Prefix(), id, when}, " ")),
	}
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { _ = p.End(syscall.SIGKILL) })
	<-p.Exited()
}

// gate blocks nodes: their fetches wait while it is closed.
type gate struct {
	*channel.Service

	closed sync.RWMutex
}

func (g *gate) Next(ctx context.Context, q channel.Query, handle string) (channel.Delivery, error) {
	g.closed.RLock()
	defer g.closed.RUnlock()
	q.Wait = min(q.Wait, 100*time.Millisecond) // so that the gate can be closed
	return g.Service.Next(ctx, q, handle)
}

// node follows one interval of a kind, under the rules of shard.Node.
type node struct {
	kind *records.Kind
	in   shard.Interval

	mu   sync.Mutex
	read shard.Reader[string, string, []byte]
	gaps int // runs that ended
}

func (w *world) follow(t testing.TB, kind *records.Kind, in shard.Interval) *node {
	t.Helper()
	n := &node{kind: kind, in: in}
	source := domain.NewSource(domain.SourceOptions{
		Kind: kind, Values: redisrecords.NewValues(w.values), Channels: w.channels,
		Life: func(ctx context.Context) (string, error) { return redisrecords.Life(ctx, w.others) },
	})
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() {
		for ctx.Err() == nil {
			if err := source.Run(ctx, in, n.serve); errors.Is(err, domain.ErrGap) {
				n.count()
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return n
}

func (n *node) serve(r shard.Reader[string, string, []byte]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.read = r
}

func (n *node) count() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gaps++
}

func (n *node) hadGap() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.gaps > 0
}

// answer returns the node's values of IDs.
func (n *node) answer(t testing.TB, ids []string) map[string]string {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	found := map[string]string{}
	if n.read == nil {
		return found
	}
	entries, err := n.read(t.Context(), ids)
	require.NoError(t, err)
	for _, e := range entries {
		found[e.ID] = string(e.Value)
	}
	return found
}

// inRedis returns Redis's values of a kind in an interval.
func (w *world) inRedis(t *testing.T, kind *records.Kind, in shard.Interval) map[string]string {
	t.Helper()
	values, found := redisrecords.NewValues(w.values), map[string]string{}
	for walk := values.Walk(kind); ; {
		ids, _, err := walk.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		for _, id := range ids {
			read, err := values.Read(t.Context(), kind, []string{id})
			require.NoError(t, err)
			if read[0].Found && in.Contains(shard.HashString(id)) {
				found[id] = string(read[0].Bytes)
			}
		}
	}
}

// requireEqual waits until nodes have exactly Redis's values of IDs in their intervals. There are no writes meanwhile.
func (w *world) requireEqual(t *testing.T, ids []string, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		want, got := w.inRedis(t, n.kind, n.in), map[string]string{}
		storetest.WaitFor(t, "a node to have what Redis has: "+fmt.Sprint(want), func() bool {
			got = n.answer(t, ids)
			return fmt.Sprint(got) == fmt.Sprint(want)
		})
	}
}
