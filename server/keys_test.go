package server_test

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

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/access/keys"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/storage/redis"
	credentials "github.com/tidemark-dev/tidemark/storage/redis/access"
	"github.com/tidemark-dev/tidemark/wire"
)

// registered is a registry on a Redis, with a key of a file that may do everything.
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
	r.root, r.rootText, err = keys.Generate(keys.NewKey{Grants: json.RawMessage(everything)}, time.Now())
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

// with checks the status of an answer.
func (a answer) with(status int) answer {
	a.t.Helper()
	require.Equal(a.t, status, a.status, "%s", a.body)
	return a
}

// closedBy closes a service by a registry.
func closedBy(t *testing.T, r *registered) func(*setup) {
	t.Helper()
	guard, err := access.New(access.Options{Authenticators: []access.Authenticator{r}, Revoked: r})
	require.NoError(t, err)
	return func(s *setup) { s.Guard, s.Keys = guard, r }
}

func TestKeys(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	h := start(t, closedBy(t, r))
	admin := h.onAdmin()
	admin.do("GET", "/v1/keys", "").problem(401, fault.SlugNoCredential)
	admin.do("POST", "/v1/keys", `{"grants":[]}`).problem(401, fault.SlugNoCredential)
	root := bearer(r.rootText)
	got := admin.do("POST", "/v1/keys",
		`{"description":"shop","grants":[{"actions": ["publish"], "channels":["orders.*"]}],"expires":"2100-01-01T00:00:00Z"}`, root)
	shop := decode[wire.CreatedKey](got.with(201))
	require.Equal(t, "key:"+r.root.ID, shop.CreatedBy)
	require.Equal(t, 2100, shop.Expires.Year())
	require.Contains(t, shop.Text, shop.ID)
	require.Equal(t, 201, h.do("PUT", "/v1/channels/orders.1/messages/a", "1", bearer(shop.Text)).status)
	h.do("PUT", "/v1/channels/others/messages/a", "1", bearer(shop.Text)).problem(403, fault.SlugNotGranted)
	for _, call := range []string{"GET /v1/keys", "POST /v1/keys", "DELETE /v1/keys/" + shop.ID, "GET /v1/revocations",
		"POST /v1/revocations"} {
		method, path, _ := strings.Cut(call, " ")
		admin.do(method, path, "", bearer(shop.Text)).problem(403, fault.SlugNotGranted)
		h.do(method, path, "", root).unrouted()
	}

	got = admin.do("GET", "/v1/keys", "", root)
	require.NotContains(t, string(got.body), shop.Text[len(shop.Text)-43:])
	require.NotContains(t, string(got.body), fmt.Sprintf("%x", r.root.Hash))
	require.Len(t, decode[wire.Keys](got.with(200)).Keys, 2)
	first := decode[wire.Keys](admin.do("GET", "/v1/keys?limit=1", "", root).with(200))
	require.Len(t, first.Keys, 1)
	second := decode[wire.Keys](admin.do("GET", "/v1/keys?limit=1&cursor="+first.Cursor, "", root).with(200))
	require.Len(t, second.Keys, 1)
	require.Empty(t, second.Cursor)
	for _, k := range append(first.Keys, second.Keys...) {
		require.Equal(t, k.ID == r.root.ID, k.Configured)
	}

	require.Equal(t, 204, admin.do("DELETE", "/v1/keys/"+shop.ID, "", root).status)
	require.Equal(t, 204, admin.do("DELETE", "/v1/keys/"+shop.ID, "", root).status, "a repeat")
	h.do("PUT", "/v1/channels/orders.1/messages/b", "1", bearer(shop.Text)).problem(401, fault.SlugRevokedCredential)
	admin.do("DELETE", "/v1/keys/aaaaaaaaaaaaaaaa", "", root).problem(404, fault.SlugNoKey)
	admin.do("DELETE", "/v1/keys/"+r.root.ID, "", root).problem(409, fault.SlugKeyFixed)
	require.NotContains(t, h.logs.Text(t), shop.Text[len(shop.Text)-43:])
}

func TestBadKeyRequests(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	admin := start(t, func(s *setup) { s.Keys = r }).onAdmin()
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
		method, path, body := cut(tt.call)
		got := admin.do(method, path, body).problem(400, tt.slug)
		require.Equal(t, tt.field, got.Field, "%.100s", tt.call)
	}
	require.Equal(t, "admin",
		decode[wire.CreatedKey](admin.do("POST", "/v1/keys", `{"grants":[]}`).with(201)).CreatedBy,
		"on an open service")
}

func TestRevocations(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	admin := start(t, func(s *setup) { s.Keys = r }).onAdmin()
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	token := decode[wire.Revocation](admin.do("POST", "/v1/revocations", `{"jti":"a/b c","until":"`+
		until.Format(time.RFC3339)+`"}`).with(201))
	require.Equal(t, "a/b c", token.JTI)
	require.Equal(t, until.Add(time.Hour), token.Until)
	subject := decode[wire.Revocation](admin.do("POST", "/v1/revocations", `{"subject":"ann"}`).with(201))
	require.Equal(t, 30*24*time.Hour, subject.Until.Sub(subject.At))
	require.True(t, r.Revoked(&access.Principal{Kind: access.User, Subject: "ann"}))
	first := decode[wire.Revocations](admin.do("GET", "/v1/revocations?limit=1", "").with(200))
	require.Equal(t, []wire.Revocation{token}, first.Revocations)
	second := decode[wire.Revocations](admin.do("GET", "/v1/revocations?limit=1&cursor="+
		strings.ReplaceAll(first.Cursor, " ", "+"), "").with(200))
	require.Equal(t, []wire.Revocation{subject}, second.Revocations)
	require.Empty(t, second.Cursor)
}

// TestARevokedKeyEndsItsWait: at once, and not after the time that it would have waited.
func TestARevokedKeyEndsItsWait(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	h := start(t, closedBy(t, r))
	k, text, err := r.Create(t.Context(), keys.NewKey{Grants: json.RawMessage(everything)})
	require.NoError(t, err)
	require.Equal(t, 201, h.do("PUT", "/v1/channels/c/subscribers/s", "", bearer(text)).status)
	h.as(text)
	answered := h.waiting(t.Context(), 1, "GET /v1/channels/c/subscribers/s/messages?wait=60s")
	require.NoError(t, r.Delete(t.Context(), k.ID))
	(<-answered).problem(401, fault.SlugRevokedCredential)
}
