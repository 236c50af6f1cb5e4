// Package accesstest is the conformance suite of keys.Store. Start from [Run].
package accesstest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// Harness is a store that no other case uses, and direct access to its data.
type Harness interface {
	// Store returns the store.
	Store() keys.Store
	// Forget removes all data of the store.
	Forget(ctx context.Context) error
}

var cases = []storagetest.Case[*subject]{
	{Name: "a key is kept", Notice: "a key that was made isn't accepted", Run: keepsKeys},
	{Name: "an ID is used once", Notice: "a deleted key comes back with other rights", Run: idsAreUsedOnce},
	{Name: "keys are bounded", Notice: "a loop that makes keys fills the storage", Run: keysAreBounded},
	{Name: "a revocation has its times", Notice: "a token is valid again before its end", Run: revocationTimes},
	{Name: "a revoked key is gone", Notice: "a deleted key is still accepted", Run: revokedKeys},
	{Name: "revocations are bounded, and keys can be deleted all the same",
		Notice: "an attacker who can revoke makes keys immortal", Run: revocationsAreBounded},
	{Name: "what has ended makes room", Notice: "a service that revokes for long enough can't any more",
		Run: endsMakeRoom},
	{Name: "changes are read from a position on", Notice: "a server doesn't learn of a revocation",
		Run: followsChanges},
	{Name: "lost changes are noticed", Notice: "after a fail-over a server believes that nothing has changed",
		Run: noticesLoss},
	{Name: "everything can be read in pages", Notice: "a server that starts misses keys", Run: readsAll},
	{Name: "watchers are notified", Notice: "a revocation is known a second later than it could be",
		Run: notifiesWatchers},
	{Name: "a watch that was stopped is silent", Notice: "a server that has stopped leaves something behind",
		Run: watchStops},
}

// Run runs all cases as parallel subtests of t, each on a harness of its own.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	t.Helper()
	storagetest.Run(t, cases, func(t testing.TB) *subject {
		h := open(t)
		return &subject{t: t, h: h, store: h.Store()}
	})
}

// subject is a store, with the calls that cases make. An unexpected error fails the case.
type subject struct {
	t     testing.TB
	h     Harness
	store keys.Store
}

const limit = 1000

func idOf(n int) string { return fmt.Sprintf("%016d", n) }

func record(n int) keys.Record {
	return keys.Record{ID: idOf(n), Value: fmt.Appendf(nil, `{"description":"key %d"}`, n)}
}

func (s *subject) create(n int) {
	s.t.Helper()
	require.NoError(s.t, s.make(record(n), limit))
}

// make creates a key, and checks the returned position.
func (s *subject) make(r keys.Record, limit int) error {
	s.t.Helper()
	at, err := s.store.Create(s.t.Context(), r, limit)
	if err != nil {
		require.Empty(s.t, at)
		return err
	}
	require.NotEmpty(s.t, at)
	require.Equal(s.t, s.last(), at)
	return nil
}

func (s *subject) revoke(r keys.Revocation) keys.Revocation {
	s.t.Helper()
	done, at, err := s.store.Revoke(s.t.Context(), r, limit)
	require.NoError(s.t, err)
	require.Equal(s.t, s.last(), at)
	require.Equal(s.t, [2]string{string(r.Kind), r.Name}, [2]string{string(done.Kind), done.Name})
	return done
}

func (s *subject) fails(r keys.Revocation, limit int, want error) {
	s.t.Helper()
	_, _, err := s.store.Revoke(s.t.Context(), r, limit)
	require.ErrorIs(s.t, err, want)
}

// texts returns entries as text.
func texts(entries ...keys.Entry) []string {
	var all []string
	for _, e := range entries {
		switch {
		case e.Record != nil:
			all = append(all, fmt.Sprintf("%s=%s", e.Record.ID, e.Record.Value))
		case e.Revocation != nil:
			all = append(all, text(*e.Revocation))
		}
	}
	return all
}

func text(r keys.Revocation) string {
	return fmt.Sprintf("%s:%s %d %d", r.Kind, r.Name, r.At.UnixMilli(), r.Until.UnixMilli())
}

func keyText(n int) string { return texts(keys.Entry{Record: new(record(n))})[0] }

// all returns all data of the store.
func (s *subject) all() []string {
	s.t.Helper()
	found := []string{}
	require.NoError(s.t, s.store.Each(s.t.Context(), func(e keys.Entry) { found = append(found, texts(e)...) }))
	slices.Sort(found)
	return slices.Compact(found)
}

func (s *subject) last() keys.Position {
	s.t.Helper()
	at, err := s.store.Last(s.t.Context())
	require.NoError(s.t, err)
	return at
}

// after returns all changes after a position.
func (s *subject) after(at keys.Position) []string {
	s.t.Helper()
	var found []string
	for {
		changes, err := s.store.Changes(s.t.Context(), at)
		require.NoError(s.t, err)
		found = append(found, texts(changes.Entries...)...)
		if at = changes.At; !changes.More {
			require.Equal(s.t, s.last(), at)
			return found
		}
	}
}

func keepsKeys(s *subject) {
	require.Empty(s.t, s.last())
	require.Empty(s.t, s.all())
	s.create(1)
	s.create(2)
	require.Equal(s.t, []string{keyText(1), keyText(2)}, s.all())
	last := s.last()
	require.NotEmpty(s.t, last)
	s.create(2)
	require.Equal(s.t, last, s.last(), "a repeat changes nothing")
}

func idsAreUsedOnce(s *subject) {
	s.create(1)
	other := record(1)
	other.Value = []byte(`{}`)
	require.ErrorIs(s.t, s.make(other, limit), keys.ErrKeyExists)
	s.revoke(keys.Revocation{Kind: keys.RevokedKey, Name: idOf(1)})
	require.ErrorIs(s.t, s.make(other, limit), keys.ErrKeyExists)
	require.ErrorIs(s.t, s.make(record(1), limit), keys.ErrKeyExists)
}

func keysAreBounded(s *subject) {
	for n := range 2 {
		require.NoError(s.t, s.make(record(n), 2))
	}
	require.ErrorIs(s.t, s.make(record(2), 2), keys.ErrTooManyKeys)
	require.NoError(s.t, s.make(record(1), 2), "a repeat needs no room")
	require.Len(s.t, s.all(), 2)
}

func revocationTimes(s *subject) {
	token := keys.Revocation{Kind: keys.RevokedToken, Name: "a:1 ü"}
	first := s.revoke(token)
	require.WithinDuration(s.t, time.Now(), first.At, storagetest.Patience)
	require.Equal(s.t, keys.DefaultLife, first.Until.Sub(first.At))
	require.Equal(s.t, []string{text(first)}, s.all())

	token.Until = first.Until.Add(-time.Hour)
	second := s.revoke(token)
	require.Equal(s.t, first.Until, second.Until, "it doesn't end earlier")
	require.False(s.t, second.At.Before(first.At))
	token.Until = first.Until.Add(time.Hour)
	require.Equal(s.t, token.Until, s.revoke(token).Until)

	subject := keys.Revocation{Kind: keys.RevokedSubject, Name: "ann", At: first.At.Add(-time.Hour), Until: first.Until}
	require.Equal(s.t, subject, s.revoke(subject), "what is put back has its times")
	last := s.last()
	require.Equal(s.t, subject, s.revoke(subject))
	require.Equal(s.t, last, s.last(), "a repeat changes nothing")
	ended := keys.Revocation{Kind: keys.RevokedToken, Name: "ended", At: first.At.Add(-2 * time.Hour),
		Until: first.At.Add(-time.Hour)}
	s.revoke(ended)
	require.Len(s.t, s.all(), 2, "what has ended isn't kept")
}

func revokedKeys(s *subject) {
	key := keys.Revocation{Kind: keys.RevokedKey, Name: idOf(1)}
	s.fails(key, limit, keys.ErrNoKey)
	s.create(1)
	s.create(2)
	done := s.revoke(key)
	require.Equal(s.t, []string{keyText(2), text(done)}, s.all())
	s.revoke(key)
	lost := keys.Revocation{Kind: keys.RevokedKey, Name: idOf(2), At: done.At, Until: done.Until}
	s.revoke(lost)
	lost.Name = idOf(3)
	s.revoke(lost)
	require.Len(s.t, s.all(), 3, "three deletions, one of a key that was never seen")
}

func revocationsAreBounded(s *subject) {
	token := keys.Revocation{Kind: keys.RevokedToken, Name: "a"}
	s.create(1)
	at := s.last()
	done := s.revoke(token)
	s.fails(keys.Revocation{Kind: keys.RevokedToken, Name: "b"}, 1, keys.ErrTooManyRevocations)
	_, _, err := s.store.Revoke(s.t.Context(), token, 1)
	require.NoError(s.t, err, "one that is there needs no room")
	deleted, _, err := s.store.Revoke(s.t.Context(), keys.Revocation{Kind: keys.RevokedKey, Name: idOf(1)}, 1)
	require.NoError(s.t, err)
	require.Zero(s.t, deleted.At)
	require.Zero(s.t, deleted.Until)
	require.Len(s.t, s.all(), 1)
	changes, err := s.store.Changes(s.t.Context(), at)
	require.NoError(s.t, err)
	require.Equal(s.t, deleted, *changes.Entries[len(changes.Entries)-1].Revocation, "servers are told of the deletion")
	require.False(s.t, done.At.IsZero())
}

func endsMakeRoom(s *subject) {
	brief := record(1)
	brief.Until = time.Now().Add(-time.Second)
	require.NoError(s.t, s.make(brief, 1))
	require.NoError(s.t, s.make(record(2), 1))
	soon := keys.Revocation{Kind: keys.RevokedToken, Name: "a", Until: time.Now().Add(100 * time.Millisecond)}
	s.revoke(soon)
	next := keys.Revocation{Kind: keys.RevokedToken, Name: "b"}
	require.Eventually(s.t, func() bool {
		_, _, err := s.store.Revoke(s.t.Context(), next, 1)
		return err == nil
	}, storagetest.Patience, 5*time.Millisecond)
	require.Len(s.t, s.all(), 2)
}

func followsChanges(s *subject) {
	s.create(1)
	at := s.last()
	require.Empty(s.t, s.after(at))
	var want []string
	for n := range 150 {
		s.create(n + 2)
		want = append(want, keyText(n+2))
	}
	require.Equal(s.t, want, s.after(at), "all, in their order")
	at = s.last()
	done := s.revoke(keys.Revocation{Kind: keys.RevokedKey, Name: idOf(2)})
	subject := s.revoke(keys.Revocation{Kind: keys.RevokedSubject, Name: "ann"})
	require.Equal(s.t, []string{text(done), text(subject)}, s.after(at))
}

func noticesLoss(s *subject) {
	_, err := s.store.Changes(s.t.Context(), "")
	require.ErrorIs(s.t, err, keys.ErrLost, "nothing is before the first change")
	s.create(1)
	at := s.last()
	_, err = s.store.Changes(s.t.Context(), at, at, "")
	require.ErrorIs(s.t, err, keys.ErrLost, "nor is it among others")
	require.NoError(s.t, s.h.Forget(s.t.Context()))
	for n := range 3 {
		_, err = s.store.Changes(s.t.Context(), at)
		require.ErrorIs(s.t, err, keys.ErrLost)
		require.NotEqual(s.t, at, s.last())
		s.create(n)
		found, err := s.store.Changes(s.t.Context(), s.last(), s.last())
		require.NoError(s.t, err)
		require.Empty(s.t, found.Entries)
		_, err = s.store.Changes(s.t.Context(), s.last(), s.last(), at)
		require.ErrorIs(s.t, err, keys.ErrLost, "others must be there, too")
	}
}

func readsAll(s *subject) {
	var want []string
	for n := range 700 {
		s.create(n)
		want = append(want, keyText(n))
	}
	for n := range 300 {
		want = append(want, text(s.revoke(keys.Revocation{Kind: keys.RevokedToken, Name: fmt.Sprint("token", n)})))
	}
	slices.Sort(want)
	require.Equal(s.t, want, s.all())
}

func notifiesWatchers(s *subject) {
	first, _ := storagetest.Watch(s.t, s.store.Watch)
	second, _ := storagetest.Watch(s.t, s.store.Watch)
	s.create(1)
	storagetest.Await(s.t, first)
	storagetest.Await(s.t, second)
	s.revoke(keys.Revocation{Kind: keys.RevokedSubject, Name: "ann"})
	storagetest.Await(s.t, first)
}

func watchStops(s *subject) {
	stopped, stop := storagetest.Watch(s.t, s.store.Watch)
	stop()
	changed, _ := storagetest.Watch(s.t, s.store.Watch)
	s.create(1)
	storagetest.Await(s.t, changed)
	require.Empty(s.t, stopped)
}
