package admin_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/storage/redis"
	credentials "github.com/tidemark-dev/tidemark/storage/redis/access"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// registered is a registry on a Redis, and a key file's key with all permissions.
type registered struct {
	*keys.Registry
	root     keys.Key
	rootText string
}

// newRegistry returns a registry that is kept up to date until the test ends.
func newRegistry(t *testing.T) *registered {
	t.Helper()
	conn, err := redis.Connect(t.Context(), redis.Options{URL: redistest.Standalone(t).URL(),
		KeyPrefix: redistest.Prefix(t), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	r := &registered{}
	r.root, r.rootText, err = keys.Generate(keys.NewKey{Grants: json.RawMessage(servertest.Everything)}, time.Now())
	require.NoError(t, err)
	line, err := json.Marshal([]keys.Key{r.root})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, os.WriteFile(path, line, 0o600))
	r.Registry, err = keys.New(keys.Options{Store: credentials.New(conn), File: path,
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, r.Refresh(t.Context()))
	return r
}

// closedBy returns an option that makes a service require credentials, and stores its keys in a registry.
func closedBy(t *testing.T, r *registered) func(*servertest.Setup) {
	t.Helper()
	guard, err := access.New(access.Options{Authenticators: []access.Authenticator{r}, Revoked: r})
	require.NoError(t, err)
	return func(s *servertest.Setup) { s.Guard, s.Keys = guard, r }
}

func TestKeys(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	h := servertest.Start(t, closedBy(t, r))
	admin := h.OnAdmin()
	admin.Do("GET", "/v1/keys", "").Problem(401, fault.SlugNoCredential)
	admin.Do("POST", "/v1/keys", `{"grants":[]}`).Problem(401, fault.SlugNoCredential)
	root := servertest.Bearer(r.rootText)
	got := admin.Do("POST", "/v1/keys",
		`{"description":"shop","grants":[{"actions": ["publish"], "channels":["orders.*"]}],"expires":"2100-01-01T00:00:00Z"}`, root)
	shop := servertest.Decode[client.CreatedKey](got.With(201))
	require.Equal(t, "key:"+r.root.ID, shop.CreatedBy)
	require.Equal(t, 2100, shop.Expires.Year())
	require.Contains(t, shop.Text, shop.ID)
	require.Equal(t, 201, h.Do("PUT", "/v1/channels/orders.1/messages/a", "1", servertest.Bearer(shop.Text)).Status)
	h.Do("PUT", "/v1/channels/others/messages/a", "1", servertest.Bearer(shop.Text)).Problem(403, fault.SlugNotGranted)
	for _, call := range []string{"GET /v1/keys", "POST /v1/keys", "DELETE /v1/keys/" + shop.ID, "GET /v1/revocations",
		"POST /v1/revocations"} {
		method, path, _ := strings.Cut(call, " ")
		admin.Do(method, path, "", servertest.Bearer(shop.Text)).Problem(403, fault.SlugNotGranted)
		unrouted(h.Do(method, path, "", root))
	}

	got = admin.Do("GET", "/v1/keys", "", root)
	require.NotContains(t, string(got.Body), shop.Text[len(shop.Text)-43:])
	require.NotContains(t, string(got.Body), fmt.Sprintf("%x", r.root.Hash))
	require.Len(t, servertest.Decode[wire.Keys](got.With(200)).Keys, 2)
	first := servertest.Decode[wire.Keys](admin.Do("GET", "/v1/keys?limit=1", "", root).With(200))
	require.Len(t, first.Keys, 1)
	second := servertest.Decode[wire.Keys](admin.Do("GET", "/v1/keys?limit=1&cursor="+first.Cursor, "", root).With(200))
	require.Len(t, second.Keys, 1)
	require.Empty(t, second.Cursor)
	for _, k := range append(first.Keys, second.Keys...) {
		require.Equal(t, k.ID == r.root.ID, k.Configured)
	}

	require.Equal(t, 204, admin.Do("DELETE", "/v1/keys/"+shop.ID, "", root).Status)
	require.Equal(t, 204, admin.Do("DELETE", "/v1/keys/"+shop.ID, "", root).Status, "a repeat")
	h.Do("PUT", "/v1/channels/orders.1/messages/b", "1", servertest.Bearer(shop.Text)).Problem(401,
		fault.SlugRevokedCredential)
	admin.Do("DELETE", "/v1/keys/aaaaaaaaaaaaaaaa", "", root).Problem(404, fault.SlugNoKey)
	admin.Do("DELETE", "/v1/keys/"+r.root.ID, "", root).Problem(409, fault.SlugKeyFixed)
	require.NotContains(t, h.Logs.Text(t), shop.Text[len(shop.Text)-43:])
}

func TestBadKeyRequests(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	admin := servertest.Start(t, func(s *servertest.Setup) { s.Keys = r }).OnAdmin()
	for _, tt := range []struct {
		call  string
		slug  fault.Slug
		field string
	}{
		{"POST /v1/keys ", fault.SlugInvalidBody, ""},
		{"POST /v1/keys {}", fault.SlugInvalidBody, "/grants"},
		{`POST /v1/keys {"grants":[],"id":"aaaaaaaaaaaaaaaa"}`, fault.SlugInvalidBody, "/id"},
		{`POST /v1/keys {"grants":{}}`, fault.SlugInvalidKey, "/grants"},
		{`POST /v1/keys {"grants":[{"actions":["publish","all"]}]}`, fault.SlugInvalidKey, "/grants/0/actions/1"},
		{`POST /v1/keys {"grants":[{}]}`, fault.SlugInvalidKey, "/grants/0/actions"},
		{`POST /v1/keys {"grants":[],"expires":"2020-01-01T00:00:00Z"}`, fault.SlugInvalidKey, "/expires"},
		{`POST /v1/keys {"grants":[],"description":"` + strings.Repeat("x", 1025) + `"}`, fault.SlugInvalidKey,
			"/description"},
		{"GET /v1/keys?limit=0", fault.SlugInvalidQuery, "limit"},
		{"GET /v1/keys?limit=1001", fault.SlugInvalidQuery, "limit"},
		{"GET /v1/keys?limit=1&limit=1", fault.SlugInvalidQuery, "limit"},
		{"GET /v1/keys?page=1", fault.SlugInvalidQuery, "page"},
		{"GET /v1/keys?cursor=%zz", fault.SlugInvalidQuery, ""},
		{"GET /v1/revocations?cursor=" + strings.Repeat("x", 2000), fault.SlugInvalidQuery, "cursor"},
		{"POST /v1/revocations {}", fault.SlugInvalidRevocation, ""},
		{`POST /v1/revocations {"jti":"a","subject":"b"}`, fault.SlugInvalidRevocation, ""},
		{`POST /v1/revocations {"jti":"` + strings.Repeat("x", 257) + `"}`, fault.SlugInvalidRevocation, "/jti"},
		{`POST /v1/revocations {"subject":"a","until":"2020-01-01T00:00:00Z"}`, fault.SlugInvalidRevocation, "/until"},
		{`POST /v1/revocations {"subject":"a","until":"9999-01-01T00:00:00Z"}`, fault.SlugInvalidRevocation, "/until"},
		{`POST /v1/revocations {"key":"a"}`, fault.SlugInvalidBody, "/key"},
	} {
		method, path, body := servertest.Cut(tt.call)
		got := admin.Do(method, path, body).Problem(400, tt.slug)
		require.Equal(t, tt.field, got.Field, "%.100s", tt.call)
	}
	require.Equal(t, "admin",
		servertest.Decode[client.CreatedKey](admin.Do("POST", "/v1/keys", `{"grants":[]}`).With(201)).CreatedBy,
		"on an open service")
}

func TestRevocations(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	admin := servertest.Start(t, func(s *servertest.Setup) { s.Keys = r }).OnAdmin()
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	token := servertest.Decode[client.Revocation](admin.Do("POST", "/v1/revocations", `{"jti":"a/b c","until":"`+
		until.Format(time.RFC3339)+`"}`).With(201))
	require.Equal(t, "a/b c", token.JTI)
	require.Equal(t, until.Add(time.Hour), token.Until)
	subject := servertest.Decode[client.Revocation](admin.Do("POST", "/v1/revocations", `{"subject":"ann"}`).With(201))
	require.Equal(t, 30*24*time.Hour, subject.Until.Sub(subject.At))
	require.True(t, r.Revoked(&access.Principal{Kind: access.User, Subject: "ann"}))
	first := servertest.Decode[wire.Revocations](admin.Do("GET", "/v1/revocations?limit=1", "").With(200))
	require.Equal(t, []client.Revocation{token}, first.Revocations)
	second := servertest.Decode[wire.Revocations](admin.Do("GET", "/v1/revocations?limit=1&cursor="+
		strings.ReplaceAll(first.Cursor, " ", "+"), "").With(200))
	require.Equal(t, []client.Revocation{subject}, second.Revocations)
	require.Empty(t, second.Cursor)
}

// TestARevokedKeyEndsItsWait: the wait ends at once, before its timeout.
func TestARevokedKeyEndsItsWait(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	h := servertest.Start(t, closedBy(t, r))
	k, text, err := r.Create(t.Context(), keys.NewKey{Grants: json.RawMessage(servertest.Everything)})
	require.NoError(t, err)
	require.Equal(t, 201, h.Do("PUT", "/v1/channels/c/subscribers/s", "", servertest.Bearer(text)).Status)
	h.As(text)
	answered := h.Waiting(t.Context(), 1, "GET /v1/channels/c/subscribers/s/messages?wait=60s")
	require.NoError(t, r.Delete(t.Context(), k.ID))
	(<-answered).Problem(401, fault.SlugRevokedCredential)
}
