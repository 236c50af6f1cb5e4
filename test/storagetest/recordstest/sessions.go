package recordstest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records/sessions"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// SessionHarness is a store for a single case, with direct access to its data.
type SessionHarness interface {
	// Store returns the store.
	Store() sessions.Store
	// Age makes a session appear idle for the given time, and ends it if that is longer than its TTL.
	Age(ctx context.Context, of sessions.Ref, d time.Duration) error
}

var sessionCases = []storagetest.Case[*sessionSubject]{
	{Name: "a session is kept", Notice: "a user who has logged in is logged out", Run: keeps},
	{Name: "a session is that of its user", Notice: "a user gets the session of another one", Run: ofItsUser},
	{Name: "a repeated create changes nothing", Notice: "a retry makes a session younger", Run: createsOnce},
	{Name: "a check renews, at most once a minute",
		Notice: "each request costs a write, or the last activity of active users is old", Run: renews},
	{Name: "a session ends", Notice: "a device that was lost stays logged in permanently", Run: sessionEnds},
	{Name: "a rotated session has one token", Notice: "a stolen token stays valid", Run: rotates},
	{Name: "one of several rotations wins", Notice: "a session is doubled", Run: rotatesOnce},
	{Name: "a revoked session is gone", Notice: "a user who has logged out is still logged in", Run: revokes},
	{Name: "all sessions of a user are revoked at once", Notice: "an attacker stays logged in on one device",
		Run: revokesAll},
	{Name: "a list has what is alive, without auth data", Notice: "a user sees devices that are logged out, or secrets",
		Run: lists},
	{Name: "a list has all of many sessions, and none that was revoked",
		Notice: "a user doesn't see the device of an attacker", Run: listsMany},
	{Name: "with too many sessions the one idle for longest ends",
		Notice: "a loop of logins fills the storage, or locks the user out", Run: sessionBounded},
	{Name: "sessions that have ended make room", Notice: "a user is logged out although there is room",
		Run: endedMakeRoom},
}

// RunSessions runs all cases as parallel subtests of t, each on a harness of its own.
func RunSessions(t *testing.T, open func(t testing.TB) SessionHarness) {
	t.Helper()
	storagetest.Run(t, sessionCases, func(t testing.TB) *sessionSubject {
		h := open(t)
		return &sessionSubject{t: t, h: h, store: h.Store(), rules: sessions.Rules{TTL: 100 * time.Hour,
			PerUser: sessions.MaxPerUser}}
	})
}

// sessionSubject is a store, with the calls that cases make. An unexpected error fails the case.
type sessionSubject struct {
	t     testing.TB
	h     SessionHarness
	store sessions.Store
	rules sessions.Rules
}

// hostile are user names that try to break out of their keys.
var hostile = []string{"ann", "a:b", "a}:{b", "{", "}", "%7D", "анна é", "ann:", "*"}

func ref(user string, n int) sessions.Ref {
	return sessions.Ref{User: user, ID: fmt.Sprintf("%064x", n)}
}

func draft(of sessions.Ref) sessions.Draft {
	return sessions.Draft{Ref: of, New: sessions.New{
		Username: "Ann", Device: json.RawMessage(`{"agent":"x"}`), AuthData: json.RawMessage(`{"role":"admin"}`),
	}}
}

func (s *sessionSubject) create(of sessions.Ref) sessions.Session {
	s.t.Helper()
	made, err := s.store.Create(s.t.Context(), draft(of), s.rules)
	require.NoError(s.t, err)
	return made
}

func (s *sessionSubject) check(of sessions.Ref) sessions.Session {
	s.t.Helper()
	found, err := s.store.Check(s.t.Context(), of, s.rules)
	require.NoError(s.t, err)
	return found
}

func (s *sessionSubject) ended(of ...sessions.Ref) {
	s.t.Helper()
	for _, session := range of {
		_, err := s.store.Check(s.t.Context(), session, s.rules)
		require.ErrorIs(s.t, err, sessions.ErrNotFound, "%v", session)
		_, err = s.store.Rotate(s.t.Context(), session, ref("", 1<<20).ID, s.rules)
		require.ErrorIs(s.t, err, sessions.ErrNotFound, "%v", session)
		require.NotContains(s.t, s.list(session.User), session.ID)
	}
}

func (s *sessionSubject) list(user string) []string {
	s.t.Helper()
	found, err := s.store.List(s.t.Context(), user)
	require.NoError(s.t, err)
	ids := []string{}
	for _, session := range found {
		ids = append(ids, session.ID)
	}
	slices.Sort(ids)
	return ids
}

func (s *sessionSubject) age(of sessions.Ref, d time.Duration) {
	s.t.Helper()
	require.NoError(s.t, s.h.Age(s.t.Context(), of, d))
}

func keeps(s *sessionSubject) {
	made := s.create(ref("ann", 1))
	require.Equal(s.t, draft(ref("ann", 1)).New, sessions.New{Username: made.Username, Device: made.Device,
		AuthData: made.AuthData})
	require.Equal(s.t, made.Created, made.LastActivity)
	require.WithinDuration(s.t, made.Created.Add(s.rules.TTL), made.Expires, time.Second)
	require.Equal(s.t, made, s.check(ref("ann", 1)))

	bare := sessions.Draft{Ref: ref("ann", 2), New: sessions.New{Username: "Ann"}}
	_, err := s.store.Create(s.t.Context(), bare, s.rules)
	require.NoError(s.t, err)
	found := s.check(bare.Ref)
	require.Nil(s.t, found.Device)
	require.Nil(s.t, found.AuthData)
}

func ofItsUser(s *sessionSubject) {
	for i, user := range hostile {
		s.ended(ref(user, 1))
		s.create(ref(user, i))
	}
	for i, user := range hostile {
		require.Equal(s.t, []string{ref(user, i).ID}, s.list(user))
		require.Equal(s.t, user, s.check(ref(user, i)).User)
		for _, other := range hostile {
			if other != user {
				s.ended(ref(other, i))
			}
		}
	}
}

func createsOnce(s *sessionSubject) {
	made := s.create(ref("ann", 1))
	s.age(ref("ann", 1), time.Hour)
	again := s.create(ref("ann", 1))
	require.Equal(s.t, made.Created.Add(-time.Hour), again.Created)
	require.Equal(s.t, []string{ref("ann", 1).ID}, s.list("ann"))
}

func renews(s *sessionSubject) {
	made := s.create(ref("ann", 1))
	s.age(ref("ann", 1), 20*time.Second)
	found := s.check(ref("ann", 1))
	require.Equal(s.t, made.LastActivity.Add(-20*time.Second), found.LastActivity, "not yet")
	require.WithinDuration(s.t, made.Expires.Add(-20*time.Second), found.Expires, time.Second)
	s.age(ref("ann", 1), 11*time.Hour-20*time.Second)
	found = s.check(ref("ann", 1))
	require.WithinDuration(s.t, made.LastActivity, found.LastActivity, storagetest.Patience)
	require.WithinDuration(s.t, made.Expires, found.Expires, storagetest.Patience)
	require.Equal(s.t, made.Created.Add(-11*time.Hour), found.Created)
	require.Equal(s.t, found, s.check(ref("ann", 1)))
}

func sessionEnds(s *sessionSubject) {
	s.create(ref("ann", 1))
	s.create(ref("ann", 2))
	s.age(ref("ann", 1), 101*time.Hour)
	s.ended(ref("ann", 1))
	s.check(ref("ann", 2))
	s.age(ref("ann", 2), 101*time.Hour)
	s.ended(ref("ann", 2))
}

func rotates(s *sessionSubject) {
	made := s.create(ref("ann", 1))
	s.age(ref("ann", 1), 5*time.Hour)
	for range 2 { // it may be repeated
		rotated, err := s.store.Rotate(s.t.Context(), ref("ann", 1), ref("ann", 2).ID, s.rules)
		require.NoError(s.t, err)
		require.WithinDuration(s.t, made.LastActivity, rotated.LastActivity, storagetest.Patience)
		require.WithinDuration(s.t, made.Expires, rotated.Expires, storagetest.Patience, "a whole life")
		want := made
		want.ID, want.Created, want.LastActivity, want.Expires = ref("ann", 2).ID, made.Created.Add(-5*time.Hour),
			rotated.LastActivity, rotated.Expires
		require.Equal(s.t, want, rotated)
		require.Equal(s.t, []string{ref("ann", 2).ID}, s.list("ann"))
		s.ended(ref("ann", 1))
	}
	require.NoError(s.t, s.store.Revoke(s.t.Context(), ref("ann", 2)))
	s.ended(ref("ann", 1), ref("ann", 2))
}

func rotatesOnce(s *sessionSubject) {
	s.create(ref("ann", 1))
	var won sync.Map
	var g sync.WaitGroup
	for n := range 20 {
		g.Go(func() {
			next := ref("ann", 100+n)
			if _, err := s.store.Rotate(s.t.Context(), ref("ann", 1), next.ID, s.rules); err == nil {
				won.Store(next.ID, true)
			}
		})
	}
	g.Wait()
	count := 0
	won.Range(func(any, any) bool { count++; return true })
	require.Equal(s.t, 1, count)
	require.Len(s.t, s.list("ann"), 1)
}

func revokes(s *sessionSubject) {
	s.create(ref("ann", 1))
	s.create(ref("ann", 2))
	for range 2 {
		require.NoError(s.t, s.store.Revoke(s.t.Context(), ref("bob", 2)))
		require.NoError(s.t, s.store.Revoke(s.t.Context(), ref("ann", 1)))
		s.ended(ref("ann", 1))
		require.Equal(s.t, []string{ref("ann", 2).ID}, s.list("ann"))
	}
}

func revokesAll(s *sessionSubject) {
	for n := range sessions.MaxPerUser {
		s.create(ref("ann", n))
	}
	s.create(ref("bob", 1))
	s.age(ref("ann", 7), 101*time.Hour)
	count, err := s.store.RevokeAll(s.t.Context(), "ann")
	require.NoError(s.t, err)
	require.Equal(s.t, sessions.MaxPerUser-1, count)
	require.Empty(s.t, s.list("ann"))
	s.ended(ref("ann", 0), ref("ann", 999))
	s.check(ref("bob", 1))
	count, err = s.store.RevokeAll(s.t.Context(), "ann")
	require.NoError(s.t, err)
	require.Zero(s.t, count)
	s.create(ref("ann", 1))
	s.check(ref("ann", 1))
}

func lists(s *sessionSubject) {
	require.Empty(s.t, s.list("ann"))
	made := s.create(ref("ann", 1))
	s.create(ref("ann", 2))
	s.age(ref("ann", 2), 101*time.Hour)
	found, err := s.store.List(s.t.Context(), "ann")
	require.NoError(s.t, err)
	made.AuthData = nil
	require.Equal(s.t, []sessions.Session{made}, found)
}

func listsMany(s *sessionSubject) {
	const many = 230
	want := []string{}
	for n := range many {
		s.create(ref("ann", n))
		want = append(want, ref("ann", n).ID)
	}
	slices.Sort(want)
	require.Equal(s.t, want, s.list("ann"))
	for _, id := range want[:many/2] {
		require.NoError(s.t, s.store.Revoke(s.t.Context(), sessions.Ref{User: "ann", ID: id}))
	}
	require.Equal(s.t, want[many/2:], s.list("ann"))
}

func sessionBounded(s *sessionSubject) {
	s.rules.PerUser = 3
	for n := range 3 {
		s.create(ref("ann", n))
		s.age(ref("ann", n), time.Duration(n+1)*20*time.Hour)
	}
	s.check(ref("ann", 2)) // it was idle for longest
	s.create(ref("ann", 3))
	s.ended(ref("ann", 1))
	require.Len(s.t, s.list("ann"), 3)
	s.rules.PerUser = 1
	s.create(ref("ann", 4))
	require.Equal(s.t, []string{ref("ann", 4).ID}, s.list("ann"))
}

func endedMakeRoom(s *sessionSubject) {
	s.rules.PerUser = 3
	for n := range 3 {
		s.create(ref("ann", n))
	}
	s.age(ref("ann", 1), 101*time.Hour)
	s.create(ref("ann", 3))
	require.Equal(s.t, []string{ref("ann", 0).ID, ref("ann", 2).ID, ref("ann", 3).ID}, s.list("ann"))
}
