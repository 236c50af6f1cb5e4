package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
	rediscache "github.com/tidemark-dev/tidemark/storage/redis/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/storage/storagetest/kinds"
)

// peer is what one process has.
type peer struct {
	*cache.Cache[int64]
	reads *tracked.Client
}

// world is a source of truth, and processes that cache it.
type world struct {
	rows  [6]atomic.Int64
	peers []peer
}

func newWorld(t *testing.T, o redis.Options, processes int) *world {
	t.Helper()
	w := &world{}
	for range processes {
		conn := rig.Connect(t, o)
		reads, err := tracked.Open(t.Context(), conn, tracked.Options{})
		require.NoError(t, err)
		store := rediscache.New(conn, conn, reads)
		t.Cleanup(func() {
			store.Close()
			reads.Close()
		})
		w.peers = append(w.peers, peer{reads: reads, Cache: open(t, store, cache.Options[int64]{
			Kind: records.Shouts, Prefixes: true,
			Tags: func(id string, _ int64) []string { return []string{"all", "tag " + id} },
		})})
	}
	return w
}

func idOf(row int) string { return fmt.Sprint("row:", row) }

// load loads a row.
func (w *world) load(ctx context.Context, p peer, row int) (int64, error) {
	return p.Load(ctx, idOf(row), func(context.Context) (int64, error) { return w.rows[row].Load(), nil })
}

// round is one change, while others load.
type round struct {
	*world
	begun    atomic.Bool
	answered chan struct{}
	readers  sync.WaitGroup
}

// read loads rows. Loaders that begin before the change return what they have read after it was answered.
func (r *round) read(t *testing.T, p peer) {
	for range 5 {
		row := rand.IntN(len(r.rows))
		_, err := p.Load(t.Context(), idOf(row), func(context.Context) (int64, error) {
			value := r.rows[row].Load()
			if !r.begun.Load() {
				<-r.answered
			}
			return value, nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// requireLatest expects a process to answer the row as it is, after Redis's messages until now have arrived there.
func (w *world) requireLatest(t *testing.T, row int, about ...any) {
	t.Helper()
	for _, p := range w.peers {
		require.NoError(t, p.reads.Settle(t.Context(), records.Shouts.Key(idOf(row)), records.CacheLoad.Key(idOf(row), "shouts")))
		value, err := w.load(t.Context(), p, row)
		require.NoError(t, err)
		require.Equal(t, w.rows[row].Load(), value, about...)
	}
}

// change changes a row, and makes the caches forget it in one of the ways that there are.
func (w *world) change(ctx context.Context, p peer, row, how int) error {
	next := w.rows[row].Load() + 1
	if how == 0 {
		return p.Write(ctx, idOf(row), next, func(context.Context) error {
			w.rows[row].Store(next)
			return nil
		})
	}
	w.rows[row].Store(next)
	var err error
	switch how {
	case 1:
		err = p.Invalidate(ctx, idOf(row))
	case 2:
		_, err = p.InvalidateTag(ctx, "tag "+idOf(row))
	case 3:
		_, err = p.InvalidateTag(ctx, "all")
	case 4:
		_, err = p.InvalidatePrefix(ctx, "row:")
	}
	return err
}

// TestNoStaleValue: while many load, rows are changed in all ways. Once a change was answered, and Redis's messages before that
// have arrived at a process, that process answers no older value: neither what it kept, nor what a loader read before that.
func TestNoStaleValue(t *testing.T) {
	t.Parallel()
	kinds.Each(t, func(t *testing.T, k kinds.Redis) {
		w := newWorld(t, redis.Options{URL: k.URL, KeyPrefix: redistest.Prefix(t)}, 3)
		for n := range 300 {
			r := &round{world: w, answered: make(chan struct{})}
			for i := range 6 {
				r.readers.Go(func() { r.read(t, w.peers[i%3]) })
			}
			for range rand.IntN(50) {
				runtime.Gosched()
			}
			r.begun.Store(true)
			row, how := rand.IntN(len(w.rows)), n%5
			require.NoError(t, w.change(t.Context(), w.peers[rand.IntN(3)], row, how))
			w.requireLatest(t, row, "round %d, way %d", n, how)
			close(r.answered)
			r.readers.Wait()
			w.requireLatest(t, row, "round %d, way %d, after late loaders", n, how)
		}
	})
}
