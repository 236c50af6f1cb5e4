package tokens_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records/tokens"
)

// fake is an in-memory store without rules of its own: the conformance suite tests those.
type fake struct {
	tokens.Store
	verifications map[string]tokens.Verification // by hash
	states        map[string]tokens.State
	sealed        map[tokens.Owner]tokens.Sealed
	attempts      []string
}

func (f *fake) Issue(_ context.Context, hash string, v tokens.Verification) (time.Time, error) {
	f.verifications[hash] = v
	return time.Time{}, nil
}

func (f *fake) TakeVerification(_ context.Context, hash string, of tokens.Verification,
	attempt string) (tokens.Verification, error) {
	f.attempts = append(f.attempts, attempt)
	v, ok := f.verifications[hash]
	if !ok || v.User != of.User || v.Type != of.Type {
		return v, tokens.ErrNoVerification
	}
	return v, nil
}

func (f *fake) KeepState(_ context.Context, hash string, s tokens.State) (time.Time, error) {
	f.states[hash] = s
	return time.Time{}, nil
}

func (f *fake) TakeState(_ context.Context, hash, attempt string) (tokens.State, error) {
	f.attempts = append(f.attempts, attempt)
	s, ok := f.states[hash]
	if !ok {
		return s, tokens.ErrNoState
	}
	return s, nil
}

func (f *fake) Put(_ context.Context, of tokens.Owner, t tokens.Sealed) (tokens.Ends, error) {
	f.sealed[of] = t
	return tokens.Ends{}, nil
}

func (f *fake) Get(_ context.Context, of tokens.Owner) (tokens.Sealed, error) {
	return f.sealed[of], nil
}

// seal is a sealer that prepends the purpose to the value.
type seal struct{}

func (seal) Seal(value, purpose []byte) ([]byte, error) {
	return bytes.Join([][]byte{purpose, value}, []byte("|")), nil
}

func (seal) Open(sealed, purpose []byte) ([]byte, error) {
	value, ok := bytes.CutPrefix(sealed, append(purpose, '|'))
	if !ok {
		return nil, errors.New("sealed for another purpose")
	}
	return value, nil
}

func newService(t *testing.T) (*tokens.Service, *fake) {
	t.Helper()
	f := &fake{verifications: map[string]tokens.Verification{}, states: map[string]tokens.State{},
		sealed: map[tokens.Owner]tokens.Sealed{}}
	s, err := tokens.New(tokens.Options{Store: f, Sealer: seal{}})
	require.NoError(t, err)
	return s, f
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// requireInvalid requires the error for an invalid field.
func requireInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var e *fault.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, fault.Invalid, e.Kind)
	require.Equal(t, field, e.Field)
}

func TestVerification(t *testing.T) {
	t.Parallel()
	s, f := newService(t)
	for _, user := range []string{"ann", "{ann}:x", strings.Repeat("ü", 64)} {
		v := tokens.Verification{User: user, Type: tokens.PasswordReset, Data: []byte(`{"a":1}`)}
		token, _, err := s.Issue(t.Context(), v)
		require.NoError(t, err)
		require.Regexp(t, `^tmv_[\w-]{43}`+base64.RawURLEncoding.EncodeToString([]byte(user))+"$", token)
		require.Contains(t, f.verifications, hash(token), "the store gets the hash")
		found, err := s.TakeVerification(t.Context(), tokens.PasswordReset, token, "")
		require.NoError(t, err)
		require.Equal(t, v, found)
		_, err = s.TakeVerification(t.Context(), tokens.EmailChange, token, "mine")
		require.ErrorIs(t, err, tokens.ErrNoVerification)
	}
	require.Len(t, f.attempts, 6)
	require.NotEqual(t, f.attempts[0], f.attempts[2], "an attempt without a name is one of its own")
	require.Equal(t, "mine", f.attempts[1])
}

// Guesses don't reach the store, unless they have the form of a token.
func TestGuesses(t *testing.T) {
	t.Parallel()
	s, f := newService(t)
	token, _, err := s.Issue(t.Context(), tokens.Verification{User: "ann", Type: tokens.PasswordReset})
	require.NoError(t, err)
	ann, bob := base64.RawURLEncoding.EncodeToString([]byte("ann")), base64.RawURLEncoding.EncodeToString([]byte("bob"))
	for guess, asks := range map[string]bool{
		"": false, "tmv_": false, strings.TrimSuffix(token, ann): false,
		"tms_" + strings.TrimPrefix(token, "tmv_"): false,
		token + "%": false, token + "\n": false, token + strings.Repeat("YWFh", 100): false,
		strings.TrimSuffix(token, ann) + bob: true, "tmv_" + strings.Repeat("A", 43) + ann: true,
		strings.TrimSuffix(token, ann) + "AAAA": false, // a user of control characters
	} {
		before := len(f.attempts)
		_, err := s.TakeVerification(t.Context(), tokens.PasswordReset, guess, "")
		require.ErrorIs(t, err, tokens.ErrNoVerification, guess)
		require.Equal(t, asks, len(f.attempts) > before, guess)
		_, err = s.TakeState(t.Context(), guess, "")
		require.ErrorIs(t, err, tokens.ErrNoState)
	}
	_, err = s.TakeState(t.Context(), strings.Repeat("A", 43), "")
	require.ErrorIs(t, err, tokens.ErrNoState)
}

func TestStates(t *testing.T) {
	t.Parallel()
	s, f := newService(t)
	n := tokens.State{Provider: "google", RedirectURI: "https://example.com/a?b=c", CSRFToken: "x"}
	state, _, err := s.NewState(t.Context(), n)
	require.NoError(t, err)
	require.Regexp(t, `^[\w-]{43}$`, state)
	require.Contains(t, f.states, hash(state))
	found, err := s.TakeState(t.Context(), state, "mine")
	require.NoError(t, err)
	require.Equal(t, n, found)
	require.Equal(t, []string{"mine"}, f.attempts)
}

func TestTokensOfProviders(t *testing.T) {
	t.Parallel()
	s, f := newService(t)
	ann, bob := tokens.Owner{User: "ann", Provider: "google"}, tokens.Owner{User: "bob", Provider: "google"}
	_, err := s.PutTokens(t.Context(), ann, tokens.Tokens{Access: "a", Refresh: "r"})
	require.NoError(t, err)
	require.Equal(t, "oauth_access:{ann}:google|a", string(f.sealed[ann].Access))
	require.Equal(t, "oauth_refresh:{ann}:google|r", string(f.sealed[ann].Refresh))
	found, err := s.Tokens(t.Context(), ann)
	require.NoError(t, err)
	require.Equal(t, tokens.Tokens{Access: "a", Refresh: "r"}, found)
	_, err = s.Tokens(t.Context(), bob)
	require.ErrorIs(t, err, tokens.ErrNoTokens)
	f.sealed[bob] = f.sealed[ann]
	_, err = s.Tokens(t.Context(), bob)
	require.ErrorIs(t, err, tokens.ErrSealed, "a value that was copied to another user's key")
	f.sealed[ann] = tokens.Sealed{Access: f.sealed[ann].Refresh}
	_, err = s.Tokens(t.Context(), ann)
	require.ErrorIs(t, err, tokens.ErrSealed, "a refresh token isn't an access token")

	_, err = s.PutTokens(t.Context(), ann, tokens.Tokens{Refresh: "r2"})
	require.NoError(t, err)
	require.Empty(t, f.sealed[ann].Access, "nothing is sealed for what is left as it is")
	closed, err := tokens.New(tokens.Options{Store: f})
	require.NoError(t, err)
	_, err = closed.PutTokens(t.Context(), ann, tokens.Tokens{Access: "a"})
	require.ErrorIs(t, err, tokens.ErrNoKeyset)
	_, err = closed.Tokens(t.Context(), ann)
	require.ErrorIs(t, err, tokens.ErrNoKeyset)
}

func TestBounds(t *testing.T) {
	t.Parallel()
	s, _ := newService(t)
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, v := range map[string]tokens.Verification{
		"user": {User: "", Type: tokens.EmailChange}, "type": {User: "ann", Type: "email"},
		"data": {User: "ann", Type: tokens.EmailChange, Data: []byte(`"` + long(tokens.MaxDataBytes-1) + `"`)},
	} {
		_, _, err := s.Issue(t.Context(), v)
		requireInvalid(t, err, name)
	}
	_, _, err := s.Issue(t.Context(), tokens.Verification{User: "ann", Type: tokens.EmailChange, Data: []byte(`{`)})
	requireInvalid(t, err, "data")
	_, err = s.TakeVerification(t.Context(), "email", "tmv_", "")
	requireInvalid(t, err, "type")
	_, err = s.TakeVerification(t.Context(), tokens.EmailChange, "tmv_", long(129))
	requireInvalid(t, err, "attempt")
	_, err = s.TakeState(t.Context(), "", "a\n")
	requireInvalid(t, err, "attempt")
	for field, n := range map[string]tokens.State{
		"provider": {Provider: "Google"}, "redirectUri": {Provider: "google", RedirectURI: "https://example.com/" +
			long(tokens.MaxURLBytes)},
		"csrfToken": {Provider: "google", CSRFToken: long(tokens.MaxCSRFBytes + 1)},
	} {
		_, _, err := s.NewState(t.Context(), n)
		requireInvalid(t, err, field)
	}
	_, _, err = s.NewState(t.Context(), tokens.State{Provider: "google", RedirectURI: "https://example.com/\x7f"})
	requireInvalid(t, err, "redirectUri")
	for field, of := range map[string]tokens.Owner{"user": {User: "a\x00", Provider: "google"},
		"provider": {User: "ann", Provider: "goo:gle"}} {
		_, err := s.PutTokens(t.Context(), of, tokens.Tokens{Access: "a"})
		requireInvalid(t, err, field)
		requireInvalid(t, s.DeleteTokens(t.Context(), of), field)
	}
	for field, token := range map[string]tokens.Tokens{
		"accessToken": {}, "refreshToken": {Access: "a", Refresh: long(tokens.MaxTokenBytes + 1)},
	} {
		_, err := s.PutTokens(t.Context(), tokens.Owner{User: "ann", Provider: "vk"}, token)
		requireInvalid(t, err, field)
	}
	for _, list := range [][]string{{"Google"}, {""}, {"a:b"}, {"a", long(65)}, {"a", "b", "a"},
		make([]string, tokens.MaxProviders+1)} {
		_, err := tokens.New(tokens.Options{Providers: list})
		require.Error(t, err)
	}
}
