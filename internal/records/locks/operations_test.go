package locks_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records/locks"
)

// TestOperations: a site that names its operations has locks for these only, with their lives.
func TestOperations(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, _ *locks.Service) {
		s := locks.New(locks.Options{Store: f, MaxWait: time.Minute, Operations: locks.Operations{
			{Name: "resize", TTL: 2 * time.Minute, MaxTTL: 5 * time.Minute}, {Name: "mail", MaxTTL: 10 * time.Second},
			{Name: "sort"},
		}})
		for op, c := range map[string]struct{ ttl, limit time.Duration }{
			"resize": {2 * time.Minute, 5 * time.Minute}, "mail": {10 * time.Second, 10 * time.Second},
			"sort": {locks.DefaultTTL, locks.MaxTTL},
		} {
			n := locks.Name{Op: op, ID: "7"}
			l, err := s.Acquire(t.Context(), locks.Request{Name: n})
			require.NoError(t, err)
			require.Equal(t, c.ttl, time.Until(l.Until), op)
			_, err = s.Renew(t.Context(), locks.Request{Name: n, Token: l.Token, TTL: c.limit})
			require.NoError(t, err)
			_, err = s.Renew(t.Context(), locks.Request{Name: n, Token: l.Token, TTL: c.limit + 1})
			require.ErrorIs(t, err, is(fault.SlugInvalidLock))
			require.NoError(t, s.Release(t.Context(), n, l.Token))
		}
		grants := f.asked()
		for _, s := range []*locks.Service{s, locks.New(locks.Options{Store: f, Operations: locks.Operations{}})} {
			_, err := s.Acquire(t.Context(), locks.Request{Name: locks.Name{Op: "other", ID: "7"}})
			require.ErrorIs(t, err, locks.ErrNoOperation)
		}
		require.Equal(t, grants, f.asked(), "the store isn't asked")
	})
}

// TestRemovedOperation: a lock of an operation that the site doesn't have any more can be renewed and released.
func TestRemovedOperation(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fake, before *locks.Service) {
		n := locks.Name{Op: "resize", ID: "7"}
		l, err := before.Acquire(t.Context(), locks.Request{Name: n})
		require.NoError(t, err)
		after := locks.New(locks.Options{Store: f, Operations: locks.Operations{{Name: "sort", TTL: time.Second}}})
		l, err = after.Renew(t.Context(), locks.Request{Name: n, Token: l.Token})
		require.NoError(t, err)
		require.Equal(t, locks.DefaultTTL, time.Until(l.Until))
		_, err = after.Renew(t.Context(), locks.Request{Name: n, Token: l.Token, TTL: locks.MaxTTL + 1})
		require.ErrorIs(t, err, is(fault.SlugInvalidLock))
		h, err := after.Show(t.Context(), n)
		require.NoError(t, err)
		require.Equal(t, l.Until, h.Until)
		require.NoError(t, after.Release(t.Context(), n, l.Token))
	})
}

func TestRefusedOperations(t *testing.T) {
	t.Parallel()
	require.NoError(t, locks.Operations{{Name: "a b"}, {Name: "é", TTL: time.Hour, MaxTTL: time.Hour}}.Check())
	for want, all := range map[string]locks.Operations{
		"[0].name: name is empty":                             {{}},
		"[1].name: a is there twice":                          {{Name: "a"}, {Name: "a"}},
		"[0].name: name has 129 bytes":                        {{Name: strings.Repeat("a", 129)}},
		"[0].maxTTL: is 1h0m1s, it must be from 1s to 1h0m0s": {{Name: "a", MaxTTL: time.Hour + time.Second}},
		"[0].ttl: is 2s, it must be from 1s to 1s":            {{Name: "a", TTL: 2 * time.Second, MaxTTL: time.Second}},
		": has 101 operations, at most 100 are allowed":       make(locks.Operations, 101),
	} {
		require.ErrorContains(t, all.Check(), want)
	}
}
