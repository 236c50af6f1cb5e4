package recordstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// CacheHarness is a store for a single case, seen by two processes.
type CacheHarness interface {
	Store() records.CacheStore
	Other() records.CacheStore
	// Kind returns a kind of a community site, with keys in the form that the store has.
	Kind(name string) *records.Kind
	// Meanwhile calls f once: before the next indexed value that Store puts is stored, when its entries are there.
	Meanwhile(f func())
}

const long = time.Minute

var cacheCases = []storagetest.Case[*cacheSubject]{
	{Name: "a value is read as it was put", Notice: "a cache returns other bytes", Run: keepsBytes},
	{Name: "an older value is gone before another is stored",
		Notice: "a process that dies in a put leaves a value that no index finds", Run: removesOlder},
	{Name: "an invalidation wins over a put that it overtakes", Notice: "a stale value stays until its TTL",
		Run: invalidationWins},
	{Name: "the last of two puts wins", Notice: "an older value replaces a newer one", Run: lastWins},
	{Name: "values end", Notice: "temporary values stay forever", Run: ends},
	{Name: "a tag finds its values", Notice: "a value outlives the change of what it is made of", Run: tags},
	{Name: "a prefix finds its values, and no others", Notice: "an invalidation removes the values of others",
		Run: prefixes},
	{Name: "names can't break out", Notice: "who chooses an ID reaches the values of another", Run: hostileNames},
	{Name: "an entry outlives a racing invalidation", Notice: "a later invalidation doesn't find a stale value",
		Run: entriesStay},
	{Name: "changes are reported", Notice: "another process answers old values", Run: reports},
	{Name: "the last report of a change says if this store made it", Run: reportsOwn,
		Notice: "a process answers what it has not stored while Redis hangs"},
}

// RunCache runs the cases of records.CacheStore.
func RunCache(t *testing.T, open func(t testing.TB) CacheHarness) {
	t.Helper()
	storagetest.Run(t, cacheCases, func(t testing.TB) *cacheSubject {
		t.Helper()
		h := open(t)
		return &cacheSubject{t: t, CacheStore: h.Store(), other: h.Other(), meanwhile: h.Meanwhile, kind: h.Kind("shouts"),
			second: h.Kind("search"), permanent: h.Kind("author")}
	})
}

type cacheSubject struct {
	records.CacheStore

	t         testing.TB
	other     records.CacheStore
	meanwhile func(f func())

	kind, second, permanent *records.Kind // searches are of the second kind
}

func (s *cacheSubject) key(id string) records.CacheKey { return records.CacheKey{Kind: s.kind, ID: id} }

// put puts a value that a prefix, and each of the tags, can invalidate.
func (s *cacheSubject) put(k records.CacheKey, data string, tags ...string) {
	s.t.Helper()
	s.putTo(s.CacheStore, k, data, tags...)
}

func (s *cacheSubject) putTo(store records.CacheStore, k records.CacheKey, data string, tags ...string) {
	s.t.Helper()
	require.NoError(s.t, store.Put(s.t.Context(),
		records.Value{Key: k, Bytes: []byte(data), TTL: long, Tags: tags, Prefixed: true}))
}

// plain puts a value that is in no index.
func (s *cacheSubject) plain(store records.CacheStore, k records.CacheKey, data string, ttl time.Duration) {
	s.t.Helper()
	require.NoError(s.t, store.Put(s.t.Context(), records.Value{Key: k, Bytes: []byte(data), TTL: ttl}))
}

// holds waits until both processes read those values of some IDs, as "id=value", and no others.
func (s *cacheSubject) holds(of *records.Kind, ids []string, want ...string) {
	s.t.Helper()
	require.EventuallyWithT(s.t, func(c *assert.CollectT) {
		for _, store := range []records.CacheStore{s.CacheStore, s.other} {
			assert.Equal(c, strings.Join(want, "\n"), strings.Join(s.read(store, of, ids), "\n"))
		}
	}, storagetest.Patience, time.Millisecond)
}

func (s *cacheSubject) read(store records.CacheStore, of *records.Kind, ids []string) (found []string) {
	s.t.Helper()
	entries, err := store.Read(s.t.Context(), of, ids)
	require.NoError(s.t, err)
	for i, e := range entries {
		if e.Found {
			found = append(found, ids[i]+"="+string(e.Bytes))
		}
	}
	return found
}

func keepsBytes(s *cacheSubject) {
	for id, data := range map[string]string{"a": "", "b": "\x00\xff", "c:d": `{"x":1}`} {
		s.plain(s.CacheStore, s.key(id), data, long)
		s.holds(s.kind, []string{id}, id+"="+data)
		s.put(s.key(id), data, "t")
		s.holds(s.kind, []string{id}, id+"="+data)
	}
	s.holds(s.kind, []string{"a", "none", "b"}, "a=", "b=\x00\xff")
	for _, ttl := range []time.Duration{0, records.MaxTaggedTTL + 1} {
		require.Error(s.t, s.Put(s.t.Context(), records.Value{Key: s.key("a"), TTL: ttl, Tags: []string{"t"}}),
			"its entry could end before it")
	}
}

func removesOlder(s *cacheSubject) {
	s.plain(s.CacheStore, s.key("a"), "old", long)
	s.holds(s.kind, []string{"a"}, "a=old")
	s.meanwhile(func() { s.holds(s.kind, []string{"a"}) })
	s.put(s.key("a"), "new")
	s.holds(s.kind, []string{"a"}, "a=new")
}

func invalidationWins(s *cacheSubject) {
	require.NoError(s.t, s.Invalidate(s.t.Context(), s.kind, nil))
	for name, invalidate := range map[string]func() error{
		"ID":     func() error { return s.other.Invalidate(s.t.Context(), s.kind, []string{"none", "a"}) },
		"tag":    func() error { return storagetest.ErrorOf(s.other.InvalidateTag(s.t.Context(), "t")) },
		"prefix": func() error { return storagetest.ErrorOf(s.other.InvalidatePrefix(s.t.Context(), s.kind, "a")) },
	} {
		for _, older := range []bool{true, false} {
			if older {
				s.put(s.key("a"), "old", "t")
			}
			s.meanwhile(func() { require.NoError(s.t, invalidate(), name) })
			s.put(s.key("a"), "stale", "another", "t")
			s.holds(s.kind, []string{"a"})
		}
		s.put(s.key("a"), "fresh", "t")
		s.holds(s.kind, []string{"a"}, "a=fresh")
		require.NoError(s.t, invalidate(), name)
		s.holds(s.kind, []string{"a"})
	}
}

func lastWins(s *cacheSubject) {
	for name, newer := range map[string]func(){
		"indexed": func() { s.putTo(s.other, s.key("a"), "newer", "t") },
		"plain":   func() { s.plain(s.other, s.key("a"), "newer", long) },
	} {
		s.meanwhile(newer)
		s.put(s.key("a"), "older", "t")
		s.holds(s.kind, []string{"a"}, "a=newer")
		s.plain(s.CacheStore, s.key("a"), "newest "+name, long)
		s.holds(s.kind, []string{"a"}, "a=newest "+name)
	}
}

func ends(s *cacheSubject) {
	s.plain(s.CacheStore, s.key("a"), "x", 20*time.Millisecond)
	s.holds(s.kind, []string{"a"})
	s.plain(s.CacheStore, records.CacheKey{Kind: s.permanent, ID: "a"}, "x", 0)
	s.holds(s.permanent, []string{"a"}, "a=x")
}

func tags(s *cacheSubject) {
	for i := range 1200 { // several pages
		s.put(s.key(fmt.Sprint(i)), "x", "all", fmt.Sprintf("mod %d", i%2))
	}
	s.put(records.CacheKey{Kind: s.second, ID: "q"}, "x", "all")
	n, err := s.InvalidateTag(s.t.Context(), "mod 1")
	require.NoError(s.t, err)
	require.Equal(s.t, 600, n)
	s.holds(s.kind, []string{"0", "1", "1198", "1199"}, "0=x", "1198=x")
	n, err = s.InvalidateTag(s.t.Context(), "mod 1")
	require.NoError(s.t, err)
	require.Zero(s.t, n, "entries are removed")
	_, err = s.InvalidateTag(s.t.Context(), "all")
	require.NoError(s.t, err)
	s.holds(s.kind, []string{"0", "1198"})
	s.holds(s.second, []string{"q"}) // a tag is for all kinds
}

func prefixes(s *cacheSubject) {
	ids := []string{"a", "a:1", "a:2", "ab", "b", "b\u00ff", "é"}
	put := func() {
		for _, id := range ids {
			s.put(s.key(id), "x")
		}
		s.put(records.CacheKey{Kind: s.second, ID: "a:1"}, "x")
	}
	for prefix, kept := range map[string][]string{
		"a:": {"a=x", "ab=x", "b=x", "b\u00ff=x", "é=x"}, "b": {"a=x", "a:1=x", "a:2=x", "ab=x", "é=x"},
		"\u00e9": {"a=x", "a:1=x", "a:2=x", "ab=x", "b=x", "b\u00ff=x"},
		"":       nil,
	} {
		put()
		n, err := s.InvalidatePrefix(s.t.Context(), s.kind, prefix)
		require.NoError(s.t, err)
		require.Equal(s.t, len(ids)-len(kept), n, "%q", prefix)
		s.holds(s.kind, ids, kept...)
		s.holds(s.second, []string{"a:1"}, "a:1=x") // the other kind is not concerned
	}
	for i := range 1200 {
		s.put(s.key(fmt.Sprint("p", i)), "x")
	}
	n, err := s.InvalidatePrefix(s.t.Context(), s.kind, "p")
	require.NoError(s.t, err)
	require.Equal(s.t, 1200, n)
}

func hostileNames(s *cacheSubject) {
	hostile := []string{"a}", "{a}", "a}:shouts", "a:b", "a%7D", "a b", "*", "a*", "[a]", "absent", "\\"}
	var all, others []string
	for _, id := range hostile {
		s.put(s.key(id), "x", id)
		all = append(all, id+"=x")
		others = append(others, id+"2")
		s.put(s.key(id+"2"), "x", id+"2")
	}
	for i, id := range hostile {
		n, err := s.InvalidateTag(s.t.Context(), id)
		require.NoError(s.t, err)
		require.Equal(s.t, 1, n, "%q", id)
		s.holds(s.kind, hostile, all[i+1:]...)
	}
	require.Len(s.t, s.read(s.CacheStore, s.kind, others), len(others))
}

// entriesStay: if a value is stored during an invalidation of its tag, the next invalidation finds it.
func entriesStay(s *cacheSubject) {
	for range 20 {
		s.put(s.key("a"), "1", "t")
		done := make(chan error, 1)
		go func() { done <- storagetest.ErrorOf(s.other.InvalidateTag(s.t.Context(), "t")) }()
		s.put(s.key("a"), "2", "t")
		require.NoError(s.t, <-done)
		_, err := s.InvalidateTag(s.t.Context(), "t")
		require.NoError(s.t, err)
		s.holds(s.kind, []string{"a"})
	}
}

func reports(s *cacheSubject) {
	mine, others := make(chan string, 100), make(chan string, 100)
	defer s.Listen(s.kind, func(id string, _ bool) { mine <- id })()
	stop := s.other.Listen(s.kind, func(id string, own bool) {
		assert.False(s.t, own)
		others <- id
	})
	s.becomes(s.other, "a", "")
	s.put(s.key("a"), "1")
	require.Equal(s.t, "a", <-mine, "before the method returns")
	require.Equal(s.t, "a", awaitText(s.t, others))
	s.becomes(s.other, "a", "1")
	drain(others)
	require.NoError(s.t, s.Invalidate(s.t.Context(), s.kind, []string{"a"}))
	require.Equal(s.t, "a", awaitText(s.t, others))
	stop()
	s.becomes(s.other, "a", "")
	drain(others)
	s.put(s.key("a"), "2")
	s.becomes(s.other, "a", "2")
	require.Empty(s.t, others)
}

func reportsOwn(s *cacheSubject) {
	reported := make(chan bool, 100)
	defer s.Listen(s.kind, func(id string, own bool) {
		assert.Equal(s.t, "a", id)
		reported <- own
	})()
	last := func() (own bool) {
		for len(reported) > 0 {
			own = <-reported
		}
		return own
	}
	for range 2 { // the second time the value was read before
		s.plain(s.CacheStore, s.key("a"), "1", long)
		require.True(s.t, last(), "put")
		s.put(s.key("a"), "2", "t")
		require.True(s.t, last(), "put with indexes")
		s.holds(s.kind, []string{"a"}, "a=2")
		require.NoError(s.t, s.Invalidate(s.t.Context(), s.kind, []string{"a"}))
		require.True(s.t, last(), "removed")
		s.put(s.key("a"), "3", "t")
		require.NoError(s.t, storagetest.ErrorOf(s.InvalidateTag(s.t.Context(), "t")))
		require.False(s.t, last(), "removed by its tag")
		s.meanwhile(func() { require.NoError(s.t, s.other.Invalidate(s.t.Context(), s.kind, []string{"a"})) })
		s.put(s.key("a"), "4", "t")
		require.False(s.t, last(), "overtaken, and not stored")
	}
}

// becomes waits until a process reads a value; empty: none.
func (s *cacheSubject) becomes(store records.CacheStore, id, data string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		found := s.read(store, s.kind, []string{id})
		return slices.Equal(found, []string{id + "=" + data}) || data == "" && len(found) == 0
	}, storagetest.Patience, time.Millisecond)
}

func drain(c chan string) {
	for len(c) > 0 {
		<-c
	}
}

func awaitText(t testing.TB, c <-chan string) string {
	t.Helper()
	select {
	case text := <-c:
		return text
	case <-time.After(storagetest.Patience):
		require.FailNow(t, "the change is not reported")
		return ""
	}
}
