package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	rediscache "github.com/tidemark-dev/tidemark/storage/redis/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/storage/storagetest"
)

// peer is one process.
type peer struct {
	*cache.Cache[int64]
	reads *tracked.Client
	alone *alone
}

// alone counts the loads that a process made without Redis, as Redis was too slow or the value could not be stored.
type alone struct{ atomic.Int64 }

func (a *alone) Count(_ *records.Kind, e cache.Event) {
	if e == cache.Unreachable || e == cache.NotStored {
		a.Add(1)
	}
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
		conn := storetest.Connect(t, o)
		reads, err := tracked.Open(t.Context(), conn, tracked.Options{})
		require.NoError(t, err)
		store := rediscache.New(conn, conn, reads)
		t.Cleanup(func() {
			store.Close()
			reads.Close()
		})
		unreachable := &alone{}
		w.peers = append(w.peers, peer{reads: reads, alone: unreachable, Cache: open(t, store, cache.Options[int64]{
			Kind: records.Shouts, Prefixes: true, LoadTimeout: storetest.Patience, Metrics: unreachable,
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

// round is one change of a row, while others load it. Loaders that begin before the change return their value only
// after it was answered; except for those without Redis, which the change doesn't reach.
type round struct {
	*world
	row      int
	began    chan struct{} // buffered: a loader has read the row
	begun    atomic.Bool   // the change
	answered chan struct{}
	readers  sync.WaitGroup
}

func (r *round) read(ctx context.Context, p peer) error {
	before := p.alone.Load()
	_, err := p.Load(ctx, idOf(r.row), func(context.Context) (int64, error) {
		value := r.rows[r.row].Load()
		if !r.begun.Load() {
			r.began <- struct{}{}
			if p.alone.Load() == before {
				<-r.answered
			}
		}
		return value, nil
	})
	return err
}

// requireLatest requires that a process returns the current row, after Redis's messages until now have arrived there.
func (w *world) requireLatest(t *testing.T, row int, about ...any) {
	t.Helper()
	for _, p := range w.peers {
		require.NoError(t, p.reads.Settle(t.Context(), "barrier:{"+idOf(row)+"}"))
		value, err := w.load(t.Context(), p, row)
		require.NoError(t, err)
		require.Equal(t, w.rows[row].Load(), value, about...)
	}
}

// The ways to invalidate a row.
const (
	byWrite = iota
	byID
	byTag
	byTagOfAll
	byPrefix
	ways
)

// change changes a row, and invalidates it in one of the ways.
func (w *world) change(ctx context.Context, p peer, row, how int) error {
	next := w.rows[row].Load() + 1
	if how == byWrite {
		return p.Write(ctx, idOf(row), next, func(context.Context) error {
			w.rows[row].Store(next)
			return nil
		})
	}
	w.rows[row].Store(next)
	var err error
	switch how {
	case byID:
		err = p.Invalidate(ctx, idOf(row))
	case byTag:
		_, err = p.InvalidateTag(ctx, "tag "+idOf(row))
	case byTagOfAll:
		_, err = p.InvalidateTag(ctx, "all")
	case byPrefix:
		_, err = p.InvalidatePrefix(ctx, "row:")
	}
	return err
}

// TestNoStaleValue: while many load, rows are changed in all ways. Once a change was answered, and Redis's messages
// before that have arrived at a process, that process answers no older value: neither one that it kept, nor one that a
// loader read before.
func TestNoStaleValue(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, k storagetest.Redis) {
		w := newWorld(t, redis.Options{URL: k.URL, KeyPrefix: redistest.Prefix(t)}, 3)
		for n := range 200 {
			w.changeOnce(t, n)
		}
	})
}

func (w *world) changeOnce(t *testing.T, n int) {
	t.Helper()
	r := &round{world: w, row: rand.IntN(len(w.rows)), began: make(chan struct{}, 100), answered: make(chan struct{})}
	answer := sync.OnceFunc(func() { close(r.answered) })
	defer r.readers.Wait()
	defer answer()
	loaded := n%4 != 0 // or the row is cached already
	if loaded {
		require.NoError(t, w.peers[n%3].Invalidate(t.Context(), idOf(r.row)))
	}
	for i := range 6 {
		r.readers.Go(func() {
			if err := r.read(t.Context(), w.peers[i%3]); err != nil {
				t.Error(err)
				r.began <- struct{}{}
			}
		})
	}
	if loaded {
		<-r.began
	}
	r.begun.Store(true)
	how := n % ways
	require.NoError(t, w.change(t.Context(), w.peers[rand.IntN(3)], r.row, how))
	if how != byTag && how != byTagOfAll { // a load whose tags aren't known yet is waited for, and repeated
		w.requireLatest(t, r.row, "round %d, way %d", n, how)
	}
	answer()
	w.requireLatest(t, r.row, "round %d, way %d", n, how)
	r.readers.Wait()
	w.requireLatest(t, r.row, "round %d, way %d, after late loaders", n, how)
}
