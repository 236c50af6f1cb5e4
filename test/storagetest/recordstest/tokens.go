package recordstest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/records/tokens"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// TokenHarness is a store for a single case, with direct access to its data.
type TokenHarness interface {
	Store() tokens.Store
	// Pass moves all stored data into the past.
	Pass(ctx context.Context, d time.Duration) error
}

var tokenCases = []storagetest.Case[*tokenSubject]{
	{Name: "a verification is taken once", Notice: "a link in a mail works twice", Run: takenOnce},
	{Name: "one of many racing takes wins", Notice: "a password is reset twice with one token", Run: oneTakeWins},
	{Name: "an attempt can be repeated, and no other", Notice: "a lost answer loses a token", Run: attemptsRepeat},
	{Name: "issuing again ends the earlier token", Notice: "an old mail's link works after a new one was asked for",
		Run: issuedAgain},
	{Name: "another type or user takes nothing", Notice: "a mail token resets a password", Run: otherTypes},
	{Name: "a verification ends after an hour", Notice: "a token in an old mail stays valid permanently",
		Run: verificationsEnd},
	{Name: "a state is taken once, within ten minutes", Notice: "an OAuth answer can be replayed", Run: states},
	{Name: "tokens of providers are kept apart", Notice: "a user gets another's tokens", Run: providers},
	{Name: "tokens of providers end, each after its time", Notice: "tokens stay in the storage permanently",
		Run: providersEnd},
	{Name: "names are any text", Notice: "a user with braces in the name reaches another's tokens", Run: oddNames},
}

// RunTokens runs all cases as parallel subtests of t, each on a harness of its own.
func RunTokens(t *testing.T, open func(t testing.TB) TokenHarness) {
	t.Helper()
	storagetest.Run(t, tokenCases, func(t testing.TB) *tokenSubject {
		h := open(t)
		return &tokenSubject{t: t, h: h, store: h.Store()}
	})
}

// tokenSubject is a store, with the calls that cases make. An unexpected error fails the case.
type tokenSubject struct {
	t     testing.TB
	h     TokenHarness
	store tokens.Store
}

// slack is the tolerance for late events on a busy machine.
const slack = float64(30 * time.Second)

// hash returns the form in which a store receives a token.
func hash(name string) string { return strings.Repeat("0", 64-len(name)) + name }

func reset(user string) tokens.Verification {
	return tokens.Verification{User: user, Type: tokens.PasswordReset}
}

func (s *tokenSubject) issue(name string, v tokens.Verification) {
	s.t.Helper()
	ends, err := s.store.Issue(s.t.Context(), hash(name), v)
	require.NoError(s.t, err)
	require.InDelta(s.t, time.Hour, time.Until(ends), slack)
}

// taken returns the verification that an attempt takes.
func (s *tokenSubject) taken(name string, of tokens.Verification, attempt string) tokens.Verification {
	s.t.Helper()
	v, err := s.store.TakeVerification(s.t.Context(), hash(name), of, attempt)
	require.NoError(s.t, err)
	require.InDelta(s.t, 0, time.Since(v.Created), slack+float64(2*time.Hour))
	v.Created = time.Time{}
	return v
}

func (s *tokenSubject) isGone(name string, of tokens.Verification, attempt string) {
	s.t.Helper()
	_, err := s.store.TakeVerification(s.t.Context(), hash(name), of, attempt)
	require.ErrorIs(s.t, err, tokens.ErrNoVerification)
}

func (s *tokenSubject) pass(d time.Duration) {
	s.t.Helper()
	require.NoError(s.t, s.h.Pass(s.t.Context(), d))
}

func takenOnce(s *tokenSubject) {
	v := reset("ann")
	v.Data = []byte(`{"to":"ann@example.com"}`)
	s.issue("1", v)
	require.Equal(s.t, v, s.taken("1", reset("ann"), "a"))
	s.isGone("1", reset("ann"), "b")
	s.isGone("2", reset("ann"), "b")
	s.issue("3", reset("ann"))
	require.Equal(s.t, reset("ann"), s.taken("3", reset("ann"), "a"), "without data")
}

func oneTakeWins(s *tokenSubject) {
	s.issue("1", reset("ann"))
	_, err := s.store.KeepState(s.t.Context(), hash("2"), tokens.State{Provider: "google"})
	require.NoError(s.t, err)
	var verifications, states atomic.Int32
	var g errgroup.Group
	for n := range 50 {
		g.Go(func() error {
			if _, err := s.store.TakeVerification(s.t.Context(), hash("1"), reset("ann"), fmt.Sprint(n)); err == nil {
				verifications.Add(1)
			}
			if _, err := s.store.TakeState(s.t.Context(), hash("2"), fmt.Sprint(n)); err == nil {
				states.Add(1)
			}
			return nil
		})
	}
	require.NoError(s.t, g.Wait())
	require.Equal(s.t, []int32{1, 1}, []int32{verifications.Load(), states.Load()})
}

func attemptsRepeat(s *tokenSubject) {
	s.issue("1", reset("ann"))
	first := s.taken("1", reset("ann"), "a")
	s.isGone("1", reset("ann"), "b")
	require.Equal(s.t, first, s.taken("1", reset("ann"), "a"))
	s.pass(tokens.RepeatLife)
	s.isGone("1", reset("ann"), "a")

	s.issue("2", reset("ann"))
	s.pass(time.Hour - tokens.RepeatLife/2)
	s.taken("2", reset("ann"), "a")
	s.pass(tokens.RepeatLife / 2)
	s.isGone("2", reset("ann"), "a")
}

func issuedAgain(s *tokenSubject) {
	other := tokens.Verification{User: "ann", Type: tokens.EmailChange}
	s.issue("1", reset("ann"))
	s.issue("2", reset("bob"))
	s.issue("3", other)
	s.issue("4", reset("ann"))
	s.issue("4", reset("ann")) // a repeat, whose answer was lost
	s.isGone("1", reset("ann"), "a")
	s.taken("2", reset("bob"), "a")
	s.taken("3", other, "a")
	s.taken("4", reset("ann"), "a")
}

func otherTypes(s *tokenSubject) {
	s.issue("1", reset("ann"))
	for _, t := range tokens.Types {
		if t != tokens.PasswordReset {
			s.isGone("1", tokens.Verification{User: "ann", Type: t}, "a")
		}
	}
	s.isGone("1", reset("bob"), "a")
	s.taken("1", reset("ann"), "a")
}

func verificationsEnd(s *tokenSubject) {
	s.issue("1", reset("ann"))
	s.pass(30 * time.Minute)
	s.issue("2", reset("bob"))
	s.pass(30 * time.Minute)
	s.isGone("1", reset("ann"), "a")
	s.taken("2", reset("bob"), "a")
}

func states(s *tokenSubject) {
	google := tokens.State{Provider: "google", RedirectURI: "https://example.com/a?b={c}", CSRFToken: "x:y"}
	for _, name := range []string{"1", "2"} {
		ends, err := s.store.KeepState(s.t.Context(), hash(name), google)
		require.NoError(s.t, err)
		require.InDelta(s.t, 10*time.Minute, time.Until(ends), slack)
	}
	for range 2 {
		found, err := s.store.TakeState(s.t.Context(), hash("1"), "a")
		require.NoError(s.t, err)
		require.InDelta(s.t, 0, time.Since(found.Created), slack)
		found.Created = time.Time{}
		require.Equal(s.t, google, found)
	}
	_, err := s.store.TakeState(s.t.Context(), hash("1"), "b")
	require.ErrorIs(s.t, err, tokens.ErrNoState)
	s.pass(10 * time.Minute)
	_, err = s.store.TakeState(s.t.Context(), hash("2"), "a")
	require.ErrorIs(s.t, err, tokens.ErrNoState)
}

func (s *tokenSubject) put(of tokens.Owner, access, refresh string) tokens.Ends {
	s.t.Helper()
	ends, err := s.store.Put(s.t.Context(), of, tokens.Sealed{Access: []byte(access), Refresh: []byte(refresh)})
	require.NoError(s.t, err)
	return ends
}

// has expects the tokens of a user.
func (s *tokenSubject) has(of tokens.Owner, access, refresh string) {
	s.t.Helper()
	found, err := s.store.Get(s.t.Context(), of)
	require.NoError(s.t, err)
	require.Equal(s.t, []string{access, refresh}, []string{string(found.Access), string(found.Refresh)})
	require.Equal(s.t, []bool{access == "", refresh == ""},
		[]bool{found.AccessEnds.IsZero(), found.RefreshEnds.IsZero()})
}

func providers(s *tokenSubject) {
	ann, bob := tokens.Owner{User: "ann", Provider: "google"}, tokens.Owner{User: "bob", Provider: "google"}
	vk := tokens.Owner{User: "ann", Provider: "vk"}
	s.has(ann, "", "")
	s.put(ann, "\x01\x00\xff", "r1")
	s.put(bob, "a2", "")
	s.has(ann, "\x01\x00\xff", "r1")
	s.has(bob, "a2", "")
	s.has(vk, "", "")
	s.put(ann, "a3", "")
	s.has(ann, "a3", "r1")
	require.NoError(s.t, s.store.Delete(s.t.Context(), ann))
	require.NoError(s.t, s.store.Delete(s.t.Context(), ann))
	s.has(ann, "", "")
	s.has(bob, "a2", "")
}

func providersEnd(s *tokenSubject) {
	of := tokens.Owner{User: "ann", Provider: "google"}
	ends := s.put(of, "a", "r")
	require.InDelta(s.t, time.Hour, time.Until(ends.AccessEnds), slack)
	require.InDelta(s.t, 30*24*time.Hour, time.Until(ends.RefreshEnds), slack)
	found, err := s.store.Get(s.t.Context(), of)
	require.NoError(s.t, err)
	require.Equal(s.t, ends, found.Ends)
	s.pass(time.Hour)
	s.has(of, "", "r")
	require.True(s.t, s.put(of, "b", "").RefreshEnds.IsZero())
	s.pass(30*24*time.Hour - time.Hour)
	s.has(of, "", "")
}

func oddNames(s *tokenSubject) {
	names := []string{"ann", "{ann}", "ann}:google", "ann}", "a:b", "a", "a b", "%", "ä{}", strings.Repeat("ü", 64)}
	for _, name := range names {
		s.put(tokens.Owner{User: name, Provider: "google"}, "a "+name, "r "+name)
		s.issue("1", reset(name))
	}
	for _, name := range names {
		s.has(tokens.Owner{User: name, Provider: "google"}, "a "+name, "r "+name)
		require.Equal(s.t, reset(name), s.taken("1", reset(name), "a"))
	}
}
