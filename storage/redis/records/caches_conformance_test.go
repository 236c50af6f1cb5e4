package records_test

import (
	"context"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/recordstest"
)

// processes are two processes. The first one's store is interrupted as the suite demands.
type processes struct {
	first, other records.CacheStore
	changes      int    // until interrupt is called
	interrupt    func() // nil: nothing is interrupted
	plain        bool   // keys have no braces
}

func (p *processes) Store() records.CacheStore { return p.first }
func (p *processes) Other() records.CacheStore { return p.other }

func (p *processes) Kind(name string) *records.Kind { return site.Kind(name).In(p.plain) }

// Meanwhile implements recordstest.CacheHarness. An indexed value is loaded, and then stored.
func (p *processes) Meanwhile(f func()) { p.changes, p.interrupt = 2, f }

// Announce implements records.Announcer.
func (p *processes) Announce(ctx context.Context, _ []records.CacheKey, write func(context.Context) error) error {
	if p.changes--; p.changes == 0 {
		p.interrupt()
	}
	return write(ctx)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conform := func(t *testing.T, o redis.Options) {
		t.Helper()
		recordstest.RunCache(t, func(t testing.TB) recordstest.CacheHarness {
			t.Helper()
			o := o
			o.KeyPrefix = redistest.Prefix(t)
			store := newProcess(t, o)
			p := &processes{first: store, other: newProcess(t, o), plain: o.PlainKeys}
			store.Announce(p)
			return p
		})
	}
	storagetest.Each(t, func(t *testing.T, k storagetest.Redis) { conform(t, redis.Options{URL: k.URL}) })
	t.Run("plain keys", func(t *testing.T) {
		t.Parallel()
		conform(t, redis.Options{URL: redistest.Standalone(t).URL(), PlainKeys: true})
	})
}
