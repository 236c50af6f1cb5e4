package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

func TestKeyRequests(t *testing.T) {
	t.Parallel()
	ctx, end := t.Context(), time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		do   func(*client.Client) error
		want call
	}{
		"create": {func(c *client.Client) error {
			_, err := c.CreateKey(ctx, client.NewKey{Description: "shop", Grants: []byte(`[]`), Expires: end})
			return err
		}, call{"POST", "/v1/keys", `{"description":"shop","grants":[],"expires":"2030-01-31T12:00:00Z"}`, nil}},
		"delete": {func(c *client.Client) error { return c.DeleteKey(ctx, "a/b") },
			call{"DELETE", "/v1/keys/a%2Fb", "", nil}},
		"revoke": {func(c *client.Client) error {
			_, err := c.Revoke(ctx, client.NewRevocation{Subject: "ann"})
			return err
		},
			call{"POST", "/v1/revocations", `{"subject":"ann"}`, nil}},
	} {
		f := newFake(t, answer(http.StatusOK, `{}`))
		require.NoError(t, test.do(f.client(t)), name)
		require.Len(t, f.got(), 1)
		f.got()[0].header = nil
		require.Equal(t, test.want, f.got()[0], name)
	}
	require.ErrorIs(t, newClient(t, "http://127.0.0.1:1").DeleteKey(ctx, ".."), client.ErrNoKey)
}

func TestPagesOfKeys(t *testing.T) {
	t.Parallel()
	f := newFake(t,
		answer(http.StatusOK, wire.Keys{Keys: []client.Key{{ID: "a"}, {ID: "b"}}, Cursor: "b&"}),
		answer(http.StatusOK, wire.Keys{Keys: []client.Key{{ID: "c"}}}),
		answer(http.StatusOK, wire.Revocations{Revocations: []client.Revocation{{JTI: "a"}}, Cursor: "jti:a"}),
		answer(http.StatusOK, wire.Revocations{}),
	)
	keys, err := f.client(t).Keys(t.Context())
	require.NoError(t, err)
	require.Len(t, keys, 3)
	revocations, err := f.client(t).Revocations(t.Context())
	require.NoError(t, err)
	require.Len(t, revocations, 1)
	var targets []string
	for _, c := range f.got() {
		targets = append(targets, c.target)
	}
	require.Equal(t, []string{"/v1/keys", "/v1/keys?cursor=b%26", "/v1/revocations", "/v1/revocations?cursor=jti%3Aa"},
		targets)
}

func TestTokens(t *testing.T) {
	t.Parallel()
	f := newFake(t, problem(503, "storage-unavailable", 0), answer(http.StatusOK, `{}`))
	_, err := f.client(t, client.WithToken("tmk_a")).Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, "Bearer tmk_a", f.got()[0].header.Get("Authorization"))
	require.Equal(t, "Bearer tmk_a", f.got()[1].header.Get("Authorization"), "each try has it")

	tokens := []string{"first", "second"}
	c := f.client(t, client.WithTokenSource(func(context.Context) (string, error) {
		next := tokens[0]
		tokens = tokens[1:]
		return next, nil
	}))
	for range 2 {
		_, err = c.Info(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, "Bearer second", f.got()[3].header.Get("Authorization"))

	broken := errors.New("broken")
	_, err = f.client(t, client.WithTokenSource(func(context.Context) (string, error) { return "", broken })).Info(
		t.Context())
	require.ErrorIs(t, err, broken)
	_, err = f.client(t, client.WithToken("se\ncret")).Info(t.Context())
	require.ErrorContains(t, err, "characters that no token has")
	require.NotContains(t, err.Error(), "cret")
	_, err = f.client(t, client.WithToken("")).Info(t.Context())
	require.NoError(t, err)
	require.Len(t, f.got(), 5)
	require.NotContains(t, f.got()[4].header, "Authorization")
}

// TestRedirects: a redirect is an error that names where it leads. Following it would make a GET of a deletion, and
// take the token and the body elsewhere.
func TestRedirects(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect} {
		other := newFake(t, answer(http.StatusOK, `{}`))
		f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+r.URL.Path, status)
		})
		c := f.client(t, client.WithToken("secret"))
		_, err := c.Info(t.Context())
		require.ErrorContains(t, err, `the service's URL leads to "`+other.URL+`/v1/info": use that URL`)
		require.ErrorContains(t, c.DeleteChannel(t.Context(), "a"), "use that URL")
		_, err = c.Publish(t.Context(), "a", client.Draft{Content: []byte("1")})
		require.ErrorContains(t, err, "use that URL")
		require.ErrorContains(t, c.Ready(t.Context()), "use that URL")
		for _, err := range c.Stream(t.Context(), []client.Source{{Channel: "a", Subscriber: "s"}}, client.StreamOptions{}) {
			require.ErrorIs(t, err, client.ErrNoStream)
		}
		require.Empty(t, other.got())
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	require.NoError(t, err)
	f := &fake{answers: []http.HandlerFunc{answer(http.StatusOK, `{}`)}}
	f.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}}
	f.Start()
	t.Cleanup(f.Close)
	_, err = newClient(t, "unix:"+path).Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, "/v1/info", f.got()[0].target)
	_, err = client.New("unix:")
	require.ErrorContains(t, err, "has no path")
}
