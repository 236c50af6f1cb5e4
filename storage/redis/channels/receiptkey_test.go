package channels

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// keyServer is the part of a server that maintains receipt keys.
type keyServer struct {
	*ReceiptKeys
	node    *redistest.Node
	logs    *strings.Builder
	metrics *prometheus.Registry
}

// openKeyServers opens servers that share a Redis and its receipt keys.
func openKeyServers(t *testing.T, n int) []keyServer {
	t.Helper()
	first := openKeyServer(t, redistest.Standalone(t), redistest.Prefix(t))
	servers := []keyServer{first}
	for range n - 1 {
		servers = append(servers, openKeyServer(t, first.node, first.store.conn.Prefix()))
	}
	return servers
}

func openKeyServer(t *testing.T, node *redistest.Node, prefix string) keyServer {
	t.Helper()
	k := keyServer{node: node, logs: new(strings.Builder), metrics: prometheus.NewRegistry()}
	s := open(t, redis.Options{URL: node.URL(), KeyPrefix: prefix, Metrics: k.metrics,
		Logger: slog.New(slog.NewTextHandler(k.logs, nil))})
	var err error
	k.ReceiptKeys, err = s.ReceiptKeys(t.Context())
	require.NoError(t, err)
	return k
}

// restart is a server that starts on the same Redis.
func (k keyServer) restart(t *testing.T) keyServer {
	t.Helper()
	return openKeyServer(t, k.node, k.store.conn.Prefix())
}

// lose deletes the keys in Redis.
func (k keyServer) lose(t *testing.T) {
	t.Helper()
	require.NoError(t, k.node.Do(t, "DEL", receiptKey(k.store.conn.Prefix())).Error())
}

func (k keyServer) stored(t *testing.T) string {
	t.Helper()
	text, err := k.node.Do(t, "GET", receiptKey(k.store.conn.Prefix())).ToString()
	require.NoError(t, err)
	return text
}

func (k keyServer) handle() string {
	return k.Keyring.Sign(receipt.Receipt{Channel: "c", Subscriber: "s", Clock: 1})
}

func (k keyServer) verify(handle string) error {
	_, err := k.Keyring.Verify(handle, "c", "s")
	return err
}

func (k keyServer) changed(change string) float64 {
	return label(k.metrics, "tidemark_redis_receipt_key_changes_total", change)
}

// settle lets each server check its keys twice: the last one may add keys that the first one must read.
func settle(t *testing.T, servers ...keyServer) {
	t.Helper()
	for range 2 {
		for _, k := range servers {
			require.NoError(t, k.check(t.Context()))
		}
	}
}

// TestReceiptKeyIsShared starts many servers at once: all use the key of the first one.
func TestReceiptKeyIsShared(t *testing.T) {
	t.Parallel()
	first, node := openStandalone(t)
	o := redis.Options{URL: node.URL(), KeyPrefix: first.conn.Prefix()}
	stores := []*Store{first, open(t, o), open(t, o)}
	found := make([]*ReceiptKeys, 3*len(stores))
	var g errgroup.Group
	for i := range found {
		g.Go(func() (err error) {
			found[i], err = stores[i%len(stores)].ReceiptKeys(t.Context())
			return err
		})
	}
	require.NoError(t, g.Wait())
	for _, k := range found {
		require.Equal(t, found[0].keys, k.keys)
	}
	other, _ := openStandalone(t)
	k, err := other.ReceiptKeys(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, found[0].keys, k.keys, "another installation has another key")
}

// TestReceiptKeyIsPutBack loses the key while servers run.
func TestReceiptKeyIsPutBack(t *testing.T) {
	t.Parallel()
	servers := openKeyServers(t, 2)
	a, b := servers[0], servers[1]
	before, handle := a.stored(t), a.handle()
	a.lose(t)
	settle(t, a, b)
	require.Equal(t, before, a.stored(t))
	require.Equal(t, 1, strings.Count(a.logs.String(), `level=WARN msg="receipt keys were missing in redis, put back"`),
		a.logs)
	require.NotContains(t, b.logs.String(), "WARN", "one server had something to do")
	require.EqualValues(t, 1, a.changed("restored"))
	require.NoError(t, a.restart(t).verify(handle))
}

// TestServersAgreeOnReceiptKeys loses the key, and a server starts before another one notices, and creates a new key.
// In the end all servers sign with that key, and accept the receipts of all.
func TestServersAgreeOnReceiptKeys(t *testing.T) {
	t.Parallel()
	servers := openKeyServers(t, 3)
	a, b := servers[0], servers[1]
	handles := []string{a.handle()}
	a.lose(t)
	c := a.restart(t)
	handles = append(handles, c.handle())
	require.ErrorIs(t, a.verify(handles[1]), receipt.ErrForged, "they are split")
	require.ErrorIs(t, c.verify(handles[0]), receipt.ErrForged)

	settle(t, a, b, c)
	for _, k := range []keyServer{a, b, c, a.restart(t)} {
		require.Equal(t, handles[1], k.handle(), "the new key signs")
		require.NoError(t, k.verify(handles[0]))
		require.NoError(t, k.verify(handles[1]))
	}
	for _, k := range []keyServer{a, b, c} {
		require.Equal(t, 1,
			strings.Count(k.logs.String(), `level=WARN msg="other receipt keys found in redis, adopted"`), k.logs)
		require.EqualValues(t, 1, k.changed("adopted"))
	}
	require.Contains(t, a.logs.String(), "another_signs=true accepted=2")
	require.Contains(t, c.logs.String(), "another_signs=false accepted=2")
	for _, key := range strings.Split(a.stored(t), ",") {
		require.NotContains(t, a.logs.String(), key)
	}
}

// TestServersAgreeWhereAllDiffer starts with a different key on each server, and more servers than keys are kept.
func TestServersAgreeWhereAllDiffer(t *testing.T) {
	t.Parallel()
	servers := openKeyServers(t, 1)
	for range receiptKeysKept + 1 {
		servers[0].lose(t)
		servers = append(servers, servers[0].restart(t))
	}
	settle(t, servers...)
	last := servers[len(servers)-1]
	for _, k := range servers {
		require.Equal(t, last.keys, k.keys)
		require.Len(t, k.keys, receiptKeysKept)
	}
	stored, adopted := last.stored(t), servers[0].changed("adopted")
	settle(t, servers...)
	require.Equal(t, stored, last.stored(t))
	require.Equal(t, adopted, servers[0].changed("adopted"), "then nothing changes any more")
}

// TestUnreadableReceiptKeys are neither used nor replaced.
func TestUnreadableReceiptKeys(t *testing.T) {
	t.Parallel()
	a := openKeyServers(t, 1)[0]
	before, handle := a.stored(t), a.handle()
	for _, text := range []string{"what?", before + ",", ""} {
		require.NoError(t, a.node.Do(t, "SET", receiptKey(a.store.conn.Prefix()), text).Error())
		err := a.check(t.Context())
		require.ErrorContains(t, err, receiptKey(a.store.conn.Prefix()))
		require.NotContains(t, err.Error(), "what?", "a key doesn't get into a log")
		_, err = a.store.ReceiptKeys(t.Context())
		require.ErrorContains(t, err, receiptKey(a.store.conn.Prefix()))
		require.Equal(t, text, a.stored(t))
		require.Equal(t, handle, a.handle())
		a.compare(t.Context())
	}
	require.Equal(t, 1,
		strings.Count(a.logs.String(), `level=WARN msg="cannot compare the receipt keys with those in redis"`), a.logs)
	require.NoError(t, a.node.Do(t, "HSET", a.store.conn.Prefix()+"hash", "a", "b").Error())
	require.NoError(t, a.node.Do(t, "RENAME", a.store.conn.Prefix()+"hash", receiptKey(a.store.conn.Prefix())).Error())
	require.ErrorContains(t, a.check(t.Context()), "WRONGTYPE")
	a.lose(t)
	require.NoError(t, a.check(t.Context()))
	require.Equal(t, before, a.stored(t))
}

// TestReceiptKeysWhileRedisIsFull can't be put back, but are used all the same.
func TestReceiptKeysWhileRedisIsFull(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	a := openKeyServer(t, n, "")
	handle := a.handle()
	a.lose(t)
	storetest.FillUp(t, n)
	require.ErrorIs(t, a.check(t.Context()), fault.ErrStorageFull)
	require.Equal(t, handle, a.handle())
	storetest.Set(t, n, "maxmemory", "0")
	require.NoError(t, a.check(t.Context()))
	require.NoError(t, a.restart(t).verify(handle))
}

// TestReceiptKeysAreLookedUp loses the key, after which a server starts with a new one. A running server adopts that at
// once, for a receipt of it, and adds its own. The new server finds it in the same way.
func TestReceiptKeysAreLookedUp(t *testing.T) {
	t.Parallel()
	old := openKeyServers(t, 1)[0]
	early := old.handle()
	old.lose(t)
	fresh := old.restart(t)
	require.ErrorIs(t, old.verify(fresh.handle()), receipt.ErrForged)
	require.NoError(t, old.LookUp(t.Context()))
	require.NoError(t, old.verify(fresh.handle()))
	require.InDelta(t, 1, old.changed("adopted"), 0)
	require.ErrorIs(t, fresh.verify(early), receipt.ErrForged)
	require.NoError(t, fresh.LookUp(t.Context()))
	require.NoError(t, fresh.verify(early))
}

// TestReceiptKeysAreAnnounced: servers that compare their keys once an hour learn at once of a key that a starting
// server has made, and that server of theirs.
func TestReceiptKeysAreAnnounced(t *testing.T) {
	t.Parallel()
	old := openKeyServers(t, 1)[0]
	early := old.handle()
	run(t, old)
	old.lose(t)
	fresh := old.restart(t)
	require.Eventually(t, func() bool { return old.verify(fresh.handle()) == nil }, storagetest.Patience,
		time.Millisecond)
	run(t, fresh)
	old.lose(t)
	other := old.restart(t)
	for _, k := range []keyServer{old, fresh} {
		require.Eventually(t, func() bool { return k.verify(other.handle()) == nil && k.verify(early) == nil },
			storagetest.Patience, time.Millisecond)
	}
}

// run runs a server that compares its keys once an hour, and returns when it listens for announcements and has compared
// them since.
func run(t *testing.T, k keyServer) {
	t.Helper()
	k.every = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, k.Run(ctx)) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	require.Eventually(t, func() bool {
		k.turn <- struct{}{}
		defer func() { <-k.turn }()
		return !k.began.IsZero()
	}, storagetest.Patience, time.Millisecond)
}

// TestLookUpsAreShared: many receipts of unknown keys at once cost a few reads. A read that fails is an error, and keys
// that can't be read aren't.
func TestLookUpsAreShared(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Standalone(t))
	var reads atomic.Int64
	proxy.Fail(func(command []string) string {
		if command[0] == "GET" {
			reads.Add(1)
		}
		return ""
	})
	s := open(t, redis.Options{URL: proxy.Addr(), KeyPrefix: redistest.Prefix(t), Timeout: time.Second})
	k, err := s.ReceiptKeys(t.Context())
	require.NoError(t, err)
	reads.Store(0)
	var g errgroup.Group
	const lookups = 500
	for range lookups {
		g.Go(func() error { return k.LookUp(t.Context()) })
	}
	require.NoError(t, g.Wait())
	require.Positive(t, reads.Load())
	require.Less(t, reads.Load(), int64(lookups/10))

	key := receiptKey(s.conn.Prefix())
	require.NoError(t, s.conn.Client().Do(t.Context(), s.conn.Client().B().Set().Key(key).Value("?").Build()).Error())
	require.NoError(t, k.LookUp(t.Context()))
	proxy.Fail(func([]string) string { return "LOADING Redis is loading the dataset in memory" })
	require.ErrorIs(t, k.LookUp(t.Context()), fault.ErrUnavailable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, k.LookUp(ctx), context.Canceled)
}
