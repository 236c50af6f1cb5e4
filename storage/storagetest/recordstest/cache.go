package recordstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/storagetest"
)

// CacheHarness is a store for a single case, seen by two processes.
type CacheHarness interface {
	Store() cache.Store
	Other() cache.Store
}

// kind is a kind of the cases. The cases of searches use a second one.
var kind, second = records.Shouts, records.Search

const long = time.Minute

var cacheCases = []storagetest.Case[*cacheSubject]{
	{Name: "a value is read as it was stored", Notice: "a cache returns other bytes", Run: keepsBytes},
	{Name: "a claim is exclusive", Notice: "a missing value is loaded by every process", Run: claims},
	{Name: "what is absent is remembered", Notice: "an ID that doesn't exist is looked up again and again",
		Run: remembersAbsence},
	{Name: "an invalidation wins over a claim", Notice: "a stale value stays until its TTL", Run: invalidationWins},
	{Name: "an invalidation of a tag wins over a value whose tags weren't known",
		Notice: "a stale value stays until its TTL", Run: unknownTags},
	{Name: "a writer takes over", Notice: "a loader overwrites what was written after it began", Run: writersTakeOver},
	{Name: "a value is refreshed while it is there", Notice: "readers wait at the end of each TTL", Run: refreshes},
	{Name: "values end", Notice: "temporary values stay forever", Run: ends},
	{Name: "a tag finds its values", Notice: "a value outlives the change of what it is made of", Run: tags},
	{Name: "a prefix finds its values, and no others", Notice: "an invalidation removes the values of others",
		Run: prefixes},
	{Name: "names can't break out", Notice: "who chooses an ID reaches the values of another", Run: hostileNames},
	{Name: "an entry outlives a racing invalidation", Notice: "a later invalidation doesn't find a stale value",
		Run: entriesStay},
	{Name: "changes are reported", Notice: "another process answers old values", Run: reports},
}

// RunCache runs the cases of cache.Store.
func RunCache(t *testing.T, open func(t testing.TB) CacheHarness) {
	t.Helper()
	storagetest.Run(t, cacheCases, func(t testing.TB) *cacheSubject {
		t.Helper()
		h := open(t)
		return &cacheSubject{t: t, Store: h.Store(), other: h.Other()}
	})
}

type cacheSubject struct {
	cache.Store

	t     testing.TB
	other cache.Store
	began time.Time // the last claim
}

func key(id string) cache.Key { return cache.Key{Kind: kind, ID: id} }

func (s *cacheSubject) claim(k cache.Key, token string, mode cache.Mode) cache.Claimed {
	s.t.Helper()
	s.began = time.Now()
	c, err := s.Claim(s.t.Context(), k, cache.Claim{Token: token, TTL: long, Mode: mode, Prefixed: true})
	require.NoError(s.t, err)
	return c
}

// put stores a value as a writer does.
func (s *cacheSubject) put(k cache.Key, data string, tags ...string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { // an invalidation of a tag just before the claim may count as one after it
		require.Equal(s.t, cache.Granted, s.claim(k, "put", cache.Over).Outcome)
		err := s.store(k, "put", data, tags...)
		require.NoError(s.t, storagetest.Ignoring(err, cache.ErrSuperseded))
		return err == nil
	}, storagetest.Patience, time.Millisecond)
}

func (s *cacheSubject) store(k cache.Key, token, data string, tags ...string) error {
	s.t.Helper()
	return s.Store.Store(s.t.Context(), cache.Value{Key: k, Token: token, Began: s.began, Bytes: []byte(data),
		TTL: long, Tags: tags})
}

// holds waits until both processes read those values of some IDs, as "id=value", and no others.
func (s *cacheSubject) holds(of *records.Kind, ids []string, want ...string) {
	s.t.Helper()
	require.EventuallyWithT(s.t, func(c *assert.CollectT) {
		for _, store := range []cache.Store{s.Store, s.other} {
			assert.Equal(c, strings.Join(want, "\n"), strings.Join(s.read(store, of, ids), "\n"))
		}
	}, storagetest.Patience, time.Millisecond)
}

func (s *cacheSubject) read(store cache.Store, of *records.Kind, ids []string) (found []string) {
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

// becomes waits until a process reads a value; empty: none.
func (s *cacheSubject) becomes(store cache.Store, id, data string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		found := s.read(store, kind, []string{id})
		return slices.Equal(found, []string{id + "=" + data}) || data == "" && len(found) == 0
	}, storagetest.Patience, time.Millisecond)
}

func keepsBytes(s *cacheSubject) {
	for id, data := range map[string]string{"a": "", "b": "\x00\xff", "c:d": `{"x":1}`} {
		require.NoError(s.t, s.store(key(id), "", data))
		s.becomes(s.Store, id, data)
		s.becomes(s.other, id, data)
	}
	s.holds(kind, []string{"a", "none", "b"}, "a=", "b=\x00\xff")
	require.Error(s.t, s.Store.Store(s.t.Context(), cache.Value{Key: key("a"), Tags: []string{"t"}}),
		"what is indexed needs a claim")
}

func claims(s *cacheSubject) {
	require.Equal(s.t, cache.Granted, s.claim(key("a"), "1", cache.Fill).Outcome)
	require.Equal(s.t, cache.Granted, s.claim(key("a"), "1", cache.Fill).Outcome, "a repeat")
	busy := s.claim(key("a"), "2", cache.Fill)
	require.Equal(s.t, cache.Busy, busy.Outcome)
	require.InDelta(s.t, long, busy.Left, float64(storagetest.Patience))
	require.Equal(s.t, cache.Busy, s.claim(key("a"), "2", cache.Refresh).Outcome)
	require.Equal(s.t, cache.Granted, s.claim(cache.Key{Kind: second, ID: "a"}, "2", cache.Fill).Outcome,
		"another kind")
	require.NoError(s.t, s.End(s.t.Context(), key("a"), "2", 0))
	require.Equal(s.t, cache.Busy, s.claim(key("a"), "2", cache.Fill).Outcome, "another's claim isn't ended")
	require.ErrorIs(s.t, s.store(key("a"), "2", "x"), cache.ErrSuperseded)
	require.NoError(s.t, s.store(key("a"), "1", "x"))
	require.ErrorIs(s.t, s.store(key("a"), "1", "x"), cache.ErrSuperseded, "the claim has ended")
	stored := s.claim(key("a"), "2", cache.Fill)
	require.Equal(s.t, cache.Claimed{Outcome: cache.Stored, Bytes: []byte("x")}, stored)

	short := cache.Claim{Token: "1", TTL: time.Millisecond, Mode: cache.Fill}
	_, err := s.Claim(s.t.Context(), key("b"), short)
	require.NoError(s.t, err)
	require.Eventually(s.t, func() bool { return s.claim(key("b"), "2", cache.Fill).Outcome == cache.Granted },
		storagetest.Patience, time.Millisecond)
	require.ErrorIs(s.t, s.store(key("b"), "1", "late"), cache.ErrSuperseded, "what comes after the end of the claim")
}

func remembersAbsence(s *cacheSubject) {
	s.claim(key("a"), "1", cache.Fill)
	require.NoError(s.t, s.End(s.t.Context(), key("a"), "1", long))
	absent := s.claim(key("a"), "2", cache.Fill)
	require.Equal(s.t, cache.Absent, absent.Outcome)
	require.InDelta(s.t, long, absent.Left, float64(storagetest.Patience))
	w, err := s.Watch(s.t.Context(), key("a"))
	require.NoError(s.t, err)
	require.True(s.t, w.Absent && w.Found)
	s.put(key("a"), "x")
	require.Equal(s.t, cache.Stored, s.claim(key("a"), "2", cache.Fill).Outcome)
	for _, ends := range []func(){
		func() { require.NoError(s.t, s.Invalidate(s.t.Context(), kind, []string{"a"})) },
		func() {
			s.claim(key("a"), "3", cache.Over)
			require.NoError(s.t, s.End(s.t.Context(), key("a"), "3", 0))
		},
	} {
		require.NoError(s.t, s.Invalidate(s.t.Context(), kind, []string{"a"}))
		s.claim(key("a"), "1", cache.Fill)
		require.NoError(s.t, s.End(s.t.Context(), key("a"), "1", long))
		ends()
		require.Equal(s.t, cache.Granted, s.claim(key("a"), "4", cache.Fill).Outcome, "it isn't absent any more")
		require.NoError(s.t, s.End(s.t.Context(), key("a"), "4", 0))
	}
}

func invalidationWins(s *cacheSubject) {
	require.NoError(s.t, s.Invalidate(s.t.Context(), kind, nil))
	for name, invalidate := range map[string]func() error{
		"ID":     func() error { return s.Invalidate(s.t.Context(), kind, []string{"none", "a"}) },
		"tag":    func() error { return storagetest.ErrorOf(s.InvalidateTag(s.t.Context(), "t")) },
		"prefix": func() error { return storagetest.ErrorOf(s.InvalidatePrefix(s.t.Context(), kind, "a")) },
	} {
		s.put(key("a"), "old", "t")
		s.claim(key("a"), "1", cache.Refresh)
		require.NoError(s.t, invalidate(), name)
		require.ErrorIs(s.t, s.store(key("a"), "1", "stale"), cache.ErrSuperseded, name)
		s.holds(kind, []string{"a"})
	}
}

func unknownTags(s *cacheSubject) {
	s.claim(key("a"), "1", cache.Fill)
	n, err := s.InvalidateTag(s.t.Context(), "t")
	require.NoError(s.t, err)
	require.Zero(s.t, n)
	require.ErrorIs(s.t, s.store(key("a"), "1", "stale", "other", "t"), cache.ErrSuperseded)
	require.NoError(s.t, s.End(s.t.Context(), key("a"), "1", 0))
	s.holds(kind, []string{"a"})
	s.put(key("a"), "fresh", "t")
	s.holds(kind, []string{"a"}, "a=fresh")
}

func writersTakeOver(s *cacheSubject) {
	s.put(key("a"), "old")
	s.claim(key("a"), "1", cache.Refresh)
	require.Equal(s.t, cache.Granted, s.claim(key("a"), "2", cache.Over).Outcome)
	s.holds(kind, []string{"a"}) // the older value is gone before the writer writes
	require.ErrorIs(s.t, s.store(key("a"), "1", "stale"), cache.ErrSuperseded)
	s.claim(key("a"), "3", cache.Over)
	require.NoError(s.t, s.store(key("a"), "3", "newest"))
	require.ErrorIs(s.t, s.store(key("a"), "2", "older"), cache.ErrSuperseded)
	s.holds(kind, []string{"a"}, "a=newest")
}

func refreshes(s *cacheSubject) {
	s.put(key("a"), "1")
	require.Equal(s.t, cache.Stored, s.claim(key("a"), "r", cache.Fill).Outcome)
	require.Equal(s.t, cache.Granted, s.claim(key("a"), "r", cache.Refresh).Outcome)
	s.holds(kind, []string{"a"}, "a=1")
	require.NoError(s.t, s.store(key("a"), "r", "2"))
	s.becomes(s.other, "a", "2")
}

func ends(s *cacheSubject) {
	require.NoError(s.t,
		s.Store.Store(s.t.Context(), cache.Value{Key: key("a"), Bytes: []byte("x"), TTL: 20 * time.Millisecond}))
	s.becomes(s.other, "a", "")
	permanent := cache.Key{Kind: records.Author, ID: "a"}
	require.NoError(s.t, s.Store.Store(s.t.Context(), cache.Value{Key: permanent, Bytes: []byte("x")}))
	entries, err := s.Read(s.t.Context(), records.Author, []string{"a"})
	require.NoError(s.t, err)
	require.True(s.t, entries[0].Found)
}

func tags(s *cacheSubject) {
	for i := range 1200 { // several pages
		s.put(key(fmt.Sprint(i)), "x", "all", fmt.Sprintf("mod %d", i%2))
	}
	s.put(cache.Key{Kind: second, ID: "q"}, "x", "all")
	n, err := s.InvalidateTag(s.t.Context(), "mod 1")
	require.NoError(s.t, err)
	require.Equal(s.t, 600, n)
	s.holds(kind, []string{"0", "1", "1198", "1199"}, "0=x", "1198=x")
	n, err = s.InvalidateTag(s.t.Context(), "mod 1")
	require.NoError(s.t, err)
	require.Zero(s.t, n, "entries are removed")
	_, err = s.InvalidateTag(s.t.Context(), "all")
	require.NoError(s.t, err)
	s.holds(kind, []string{"0", "1198"})
	s.holds(second, []string{"q"}) // a tag is for all kinds
}

func prefixes(s *cacheSubject) {
	ids := []string{"a", "a:1", "a:2", "ab", "b", "b\u00ff", "é"}
	put := func() {
		for _, id := range ids {
			s.put(key(id), "x")
		}
		s.put(cache.Key{Kind: second, ID: "a:1"}, "x")
	}
	for prefix, left := range map[string][]string{
		"a:": {"a=x", "ab=x", "b=x", "b\u00ff=x", "é=x"}, "b": {"a=x", "a:1=x", "a:2=x", "ab=x", "é=x"},
		"\u00e9": {"a=x", "a:1=x", "a:2=x", "ab=x", "b=x", "b\u00ff=x"},
		"":       nil,
	} {
		put()
		n, err := s.InvalidatePrefix(s.t.Context(), kind, prefix)
		require.NoError(s.t, err)
		require.Equal(s.t, len(ids)-len(left), n, "%q", prefix)
		s.holds(kind, ids, left...)
		s.holds(second, []string{"a:1"}, "a:1=x") // the other kind is not concerned
	}
	for i := range 1200 {
		s.put(key(fmt.Sprint("p", i)), "x")
	}
	n, err := s.InvalidatePrefix(s.t.Context(), kind, "p")
	require.NoError(s.t, err)
	require.Equal(s.t, 1200, n)
}

func hostileNames(s *cacheSubject) {
	hostile := []string{"a}", "{a}", "a}:shouts", "a:b", "a%7D", "a b", "*", "a*", "[a]", "absent", "\\"}
	var all []string
	for _, id := range hostile {
		s.put(key(id), "x", id)
		all = append(all, id+"=x")
	}
	for i, id := range hostile {
		require.Equal(s.t, cache.Granted, s.claim(key(id+"2"), "1", cache.Fill).Outcome)
		n, err := s.InvalidateTag(s.t.Context(), id)
		require.NoError(s.t, err)
		require.Equal(s.t, 1, n, "%q", id)
		s.holds(kind, hostile, all[i+1:]...)
	}
}

// entriesStay: if a value is stored during an invalidation of its tag, the next invalidation finds it.
func entriesStay(s *cacheSubject) {
	for range 20 {
		s.put(key("a"), "1", "t")
		done := make(chan error, 1)
		go func() { done <- storagetest.ErrorOf(s.other.InvalidateTag(s.t.Context(), "t")) }()
		s.claim(key("a"), "2", cache.Over)
		require.NoError(s.t, storagetest.Ignoring(s.store(key("a"), "2", "2", "t"), cache.ErrSuperseded))
		require.NoError(s.t, <-done)
		_, err := s.InvalidateTag(s.t.Context(), "t")
		require.NoError(s.t, err)
		s.holds(kind, []string{"a"})
	}
}

func reports(s *cacheSubject) {
	mine, others := make(chan string, 100), make(chan string, 100)
	defer s.Listen(kind, cache.Listener{Changed: func(id string) { mine <- id }, Lost: func() {}})()
	stop := s.other.Listen(kind, cache.Listener{Changed: func(id string) { others <- id }, Lost: func() {}})
	s.becomes(s.other, "a", "")
	s.put(key("a"), "1")
	require.Equal(s.t, "a", <-mine, "before the method returns")
	require.Equal(s.t, "a", awaitText(s.t, others))
	s.becomes(s.other, "a", "1")
	entries, err := s.other.Read(s.t.Context(), kind, []string{"a"})
	require.NoError(s.t, err)
	s.claim(key("b"), "1", cache.Fill)
	_, err = s.other.Watch(s.t.Context(), key("b"))
	require.NoError(s.t, err)
	drain(others)
	require.NoError(s.t, s.Invalidate(s.t.Context(), kind, []string{"a"}))
	require.Equal(s.t, "a", awaitText(s.t, others))
	require.False(s.t, entries[0].Fresh())
	require.NoError(s.t, s.End(s.t.Context(), key("b"), "1", 0))
	require.Equal(s.t, "b", awaitText(s.t, others), "the end of a claim that is watched")
	s.claim(key("b"), "2", cache.Fill)
	require.NoError(s.t, s.End(s.t.Context(), key("b"), "2", long))
	_, err = s.other.Watch(s.t.Context(), key("b"))
	require.NoError(s.t, err)
	drain(others)
	s.put(key("b"), "x")
	require.Equal(s.t, "b", awaitText(s.t, others), "it isn't absent any more")
	stop()
	s.becomes(s.other, "a", "")
	drain(others)
	s.put(key("a"), "2")
	s.becomes(s.other, "a", "2")
	require.Empty(s.t, others)
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
