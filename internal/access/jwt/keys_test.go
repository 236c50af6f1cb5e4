package jwt_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/jwt"
)

// issuer is an http.RoundTripper that answers with a set of keys.
type issuer struct {
	calls  atomic.Int32
	answer atomic.Pointer[answer]
}

type answer func(*http.Request) (*http.Response, error)

func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	i.calls.Add(1)
	return (*i.answer.Load())(r)
}

func (i *issuer) answers(a answer) { i.answer.Store(&a) }

// serves makes the issuer respond with a set of keys.
func (i *issuer) serves(body string) { i.answers(status(http.StatusOK, body)) }

func (i *issuer) fails(err error) {
	i.answers(func(*http.Request) (*http.Response, error) { return nil, err })
}

// hangs makes the issuer never respond.
func (i *issuer) hangs() {
	i.answers(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
}

func status(code int, body string) answer {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// pass advances time in a synctest bubble.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the time of synctest
	synctest.Wait()
}

var errGone = errors.New("connection refused")

const keysURL = "https://issuer.example/keys"

// withIssuer calls test in a bubble of synctest, with an issuer of the key "one", and a verifier that runs.
func withIssuer(t *testing.T, test func(t *testing.T, i *issuer, v *jwt.Verifier)) {
	t.Helper()
	_, _ = edKey(), p256Key() // outside of the bubble
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{}
		i.serves(jwks(jwk("one", edKey())))
		v := newVerifier(t, jwt.Options{Keys: []string{keysURL}, Transport: i})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = v.Run(ctx)
		}()
		synctest.Wait()
		test(t, i, v)
		stop()
		<-done
		pass(time.Minute) // fetches that hang end
	})
}

func key(t *testing.T, id string) string {
	t.Helper()
	return sign(t, "EdDSA", edKey(), fields{"kid": id}, claims(fields{"exp": time.Now().Add(100 * time.Hour).Unix()}))
}

func two(t *testing.T) string {
	t.Helper()
	return sign(t, "ES256", p256Key(), fields{"kid": "two"},
		claims(fields{"exp": time.Now().Add(100 * time.Hour).Unix()}))
}

// TestRotation: a new key is fetched when a token has it, and a key that is removed is forgotten with its tokens.
func TestRotation(t *testing.T) {
	t.Parallel()
	withIssuer(t, func(t *testing.T, i *issuer, v *jwt.Verifier) {
		guard, err := access.New(access.Options{Authenticators: []access.Authenticator{v},
			Revoked: access.AllRevocations{v}})
		require.NoError(t, err)
		old, fresh := key(t, "one"), two(t)
		p, err := guard.Authenticate(t.Context(), old)
		require.NoError(t, err)
		held, stop := guard.Hold(t.Context(), p)
		defer stop()
		require.EqualValues(t, 1, i.calls.Load(), "Run fetches at once")

		i.serves(jwks(jwk("one", edKey()), jwk("two", p256Key()), `{"kty":"new"}`, jwk("s", secret)))
		_, err = v.Authenticate(t.Context(), fresh)
		require.ErrorIs(t, err, access.ErrInvalidCredential, "the last fetch is too recent")
		pass(10 * time.Second)
		_, err = v.Authenticate(t.Context(), fresh)
		require.NoError(t, err)
		require.EqualValues(t, 2, i.calls.Load())
		n, _ := jwt.Remembered(v)
		require.Equal(t, 2, n, "the token of the first key is still known")

		require.NoError(t, held.Err())
		i.serves(jwks(jwk("two", p256Key())))
		pass(5 * time.Minute)
		require.ErrorIs(t, context.Cause(held), access.ErrRevoked, "nor does what goes on with it")
		n, _ = jwt.Remembered(v)
		require.Equal(t, 1, n)
		_, err = v.Authenticate(t.Context(), old)
		require.ErrorIs(t, err, access.ErrInvalidCredential)
		_, err = v.Authenticate(t.Context(), fresh)
		require.NoError(t, err)

		i.serves(jwks(jwk("two", edKey())))
		pass(5 * time.Minute)
		_, err = v.Authenticate(t.Context(), fresh)
		require.ErrorIs(t, err, access.ErrInvalidCredential, "another key with the same ID")
	})
}

// TestUnknownKeys: tokens of unknown keys, however many, cause one fetch in ten seconds.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	withIssuer(t, func(t *testing.T, i *issuer, v *jwt.Verifier) {
		pass(11 * time.Second)
		results := make(chan error)
		for range 100 {
			go func() {
				_, err := v.Authenticate(t.Context(), key(t, "unknown"))
				results <- err
			}()
		}
		for range 100 {
			require.ErrorIs(t, <-results, access.ErrInvalidCredential)
		}
		require.EqualValues(t, 2, i.calls.Load())

		pass(11 * time.Second)
		_, err := v.Authenticate(t.Context(), key(t, "one")+"AAAA")
		require.ErrorIs(t, err, access.ErrInvalidCredential)
		require.EqualValues(t, 2, i.calls.Load(), "a wrong signature of a known key makes none")
	})
}

// TestSlowSet: while the set doesn't answer, tokens of known keys are verified at once, and others wait for five
// seconds.
func TestSlowSet(t *testing.T) {
	t.Parallel()
	withIssuer(t, func(t *testing.T, i *issuer, v *jwt.Verifier) {
		i.hangs()
		pass(time.Minute)
		began := time.Now()
		unknown := make(chan error)
		go func() {
			_, err := v.Authenticate(t.Context(), two(t))
			unknown <- err
		}()
		synctest.Wait()
		_, err := v.Authenticate(t.Context(), key(t, "one"))
		require.NoError(t, err)
		require.Zero(t, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = v.Authenticate(ctx, two(t))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began), "a request that ends doesn't wait")
		require.ErrorIs(t, <-unknown, access.ErrKeysUnavailable)
		require.Equal(t, 5*time.Second, time.Since(began))
		_, err = v.Authenticate(t.Context(), two(t))
		require.ErrorIs(t, err, access.ErrKeysUnavailable)
		require.Equal(t, 5*time.Second, time.Since(began), "nor is there another fetch so soon")
	})
}

// TestSetIsGone: while the set can't be fetched its keys stay in use, for a day.
func TestSetIsGone(t *testing.T) {
	t.Parallel()
	withIssuer(t, func(t *testing.T, i *issuer, v *jwt.Verifier) {
		token := key(t, "one")
		i.fails(errGone)
		pass(24*time.Hour - time.Minute)
		_, err := v.Authenticate(t.Context(), token)
		require.NoError(t, err)
		pass(2 * time.Minute)
		_, err = v.Authenticate(t.Context(), token)
		require.ErrorIs(t, err, access.ErrKeysUnavailable)
		require.ErrorIs(t, err, errGone)

		source := v.Sources()[0]
		require.Equal(t, "issuer.example/keys", source.Name)
		require.Greater(t, time.Since(source.Fetched), 24*time.Hour)
		require.InDelta(t, 24*60*6, source.Failures, 100, "a failed fetch is tried again after ten seconds")

		i.serves(jwks(jwk("one", edKey())))
		pass(10 * time.Second)
		_, err = v.Authenticate(t.Context(), token)
		require.NoError(t, err)
		require.Less(t, time.Since(v.Sources()[0].Fetched), 10*time.Second)
	})
}

// TestBadSets: a response that isn't a set of keys changes nothing.
func TestBadSets(t *testing.T) {
	t.Parallel()
	redirect := func(to string) answer {
		return func(r *http.Request) (*http.Response, error) {
			if r.URL.String() != keysURL {
				t.Error("redirected to " + r.URL.String())
			}
			return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {to}},
				Body: http.NoBody}, nil
		}
	}
	withIssuer(t, func(t *testing.T, i *issuer, v *jwt.Verifier) {
		token := key(t, "one")
		for want, wrong := range map[string]answer{
			"more than 1048576 bytes": status(http.StatusOK, `{"keys":[`+strings.Repeat(" ", 1<<20)),
			"another host":            redirect("https://evil.example/keys"),
			"another host, or":        redirect("http://issuer.example/keys"),
			"too often":               redirect(keysURL),
			"status 500":              status(http.StatusInternalServerError, jwks()),
			"no JSON Web Key Set":     status(http.StatusOK, "<html>"),
			"it has no keys":          status(http.StatusOK, "{}"),
		} {
			i.answers(wrong)
			pass(5 * time.Minute)
			_, err := v.Authenticate(t.Context(), two(t))
			require.ErrorIs(t, err, access.ErrKeysUnavailable, want)
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), keysURL)
			_, err = v.Authenticate(t.Context(), token)
			require.NoError(t, err, want)
		}
	})
}

// TestUnfetchedSet: until the keys are fetched, no token can be verified, and the error says so.
func TestUnfetchedSet(t *testing.T) {
	t.Parallel()
	i := &issuer{}
	i.fails(errGone)
	v := newVerifier(t, jwt.Options{Keys: []string{keysURL}, Transport: i})
	_, err := v.Authenticate(t.Context(), key(t, "one"))
	require.ErrorIs(t, err, access.ErrKeysUnavailable)
	i.serves(jwks(jwk("one", edKey())))
	v = newVerifier(t, jwt.Options{Keys: []string{keysURL}, Transport: i})
	_, err = v.Authenticate(t.Context(), key(t, "one"))
	require.NoError(t, err, "a token doesn't wait for Run")

	i.serves(jwks(jwk("s", secret)))
	v = newVerifier(t, jwt.Options{Keys: []string{keysURL}, Transport: i, Algorithms: []string{"HS256"}})
	_, err = v.Authenticate(t.Context(), sign(t, "HS256", secret, fields{"kid": "s"}, claims(nil)))
	require.ErrorIs(t, err, access.ErrInvalidCredential, "what is fetched can't be secret")
}

// TestServer fetches from a real server, which redirects to itself.
func TestServer(t *testing.T) {
	t.Parallel()
	served := http.NewServeMux()
	served.Handle("/moved", http.RedirectHandler("/keys", http.StatusFound))
	served.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(w, jwks(jwk("one", edKey())))
	})
	server := httptest.NewServer(served)
	defer server.Close()
	v := newVerifier(t, jwt.Options{Keys: []string{server.URL + "/moved"}})
	_, err := v.Authenticate(t.Context(), key(t, "one"))
	require.NoError(t, err)
}

// TestFilesChange: a file is read again when it changes. If it is missing or invalid, its keys stay in use.
func TestFilesChange(t *testing.T) {
	t.Parallel()
	path := write(t, publicPEM(edKey()))
	change := func(content string) {
		require.NoError(t, os.WriteFile(path+".new", []byte(content), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
	}
	synctest.Test(t, func(t *testing.T) {
		v := newVerifier(t, jwt.Options{Keys: []string{path}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = v.Run(ctx)
		}()
		_, err := v.Authenticate(t.Context(), key(t, ""))
		require.NoError(t, err)
		for _, spoil := range []func(){
			func() { require.NoError(t, os.Remove(path)) }, func() { change("") }, func() { change(jwk("", secret)) },
		} {
			spoil()
			pass(time.Second)
			_, err = v.Authenticate(t.Context(), key(t, ""))
			require.NoError(t, err)
		}
		change(publicPEM(p256Key()))
		pass(3 * time.Second)
		_, err = v.Authenticate(t.Context(), key(t, ""))
		require.ErrorIs(t, err, access.ErrInvalidCredential, "also of a token that was seen")
		_, err = v.Authenticate(t.Context(), two(t))
		require.NoError(t, err)
		stop()
		<-done
	})
}

// TestFileThatIsBeingWritten: a file that has only its first key for a while doesn't end the tokens of the second one.
func TestFileThatIsBeingWritten(t *testing.T) {
	t.Parallel()
	both := publicPEM(edKey()) + publicPEM(p256Key())
	path := write(t, both)
	synctest.Test(t, func(t *testing.T) {
		v := newVerifier(t, jwt.Options{Keys: []string{path}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = v.Run(ctx)
		}()
		p, err := v.Authenticate(t.Context(), two(t))
		require.NoError(t, err)
		for _, late := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond} {
			pass(late)
			require.NoError(t, os.WriteFile(path, []byte(publicPEM(edKey())), 0o600))
			pass(1500 * time.Millisecond)
			require.NoError(t, os.WriteFile(path, []byte(both), 0o600))
			pass(5 * time.Second)
			require.False(t, v.Revoked(p), "written %s after a check", late)
		}
		require.NoError(t, os.WriteFile(path, []byte(publicPEM(edKey())), 0o600))
		pass(3 * time.Second)
		require.True(t, v.Revoked(p), "the second key was removed")
		stop()
		<-done
	})
}
