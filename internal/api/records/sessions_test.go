package records_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/client"
	clientrecords "github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	api "github.com/tidemark-dev/tidemark/internal/api/records"
	"github.com/tidemark-dev/tidemark/internal/lifecycle"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/program/compose"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/records/sessions"
	"github.com/tidemark-dev/tidemark/internal/records/sessions/credentials"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/storage/redis"
	stores "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

func newSession(h *servertest.Harness, user string) string {
	h.TB.Helper()
	body := `{"username":"Ann","deviceInfo":{"agent":"x"},"authData":{"secret":"only for back ends"}}`
	return servertest.Decode[clientrecords.IssuedSession](h.Do("POST", "/v1/users/"+user+"/sessions",
		body).With(http.StatusCreated)).Token
}

func checkSession(h *servertest.Harness, token string) servertest.Answer {
	h.TB.Helper()
	return h.Do("POST", "/v1/sessions/check", fmt.Sprintf(`{"token":%q}`, token))
}

// TestSessions: each user name has separate sessions, and lists contain neither tokens nor data for back ends.
func TestSessions(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	users := map[string]string{"ann": "ann", "a%2Fb": "a/b", "a%7D%3A%7Bb": "a}:{b", "%D0%B0%20%25": "а %", "*": "*",
		"..%2F": "../"}
	tokens := map[string]string{}
	for path, user := range users {
		tokens[path] = newSession(h, path)
		found := servertest.Decode[clientrecords.Session](checkSession(h, tokens[path]).With(http.StatusOK))
		require.Equal(t, user, found.User)
		require.JSONEq(t, `{"secret":"only for back ends"}`, string(found.AuthData))
	}
	for path := range users {
		list := h.Do("GET", "/v1/users/"+path+"/sessions", "").With(http.StatusOK)
		require.Len(t, servertest.Decode[wire.Sessions](list).Sessions, 1)
		require.NotContains(t, string(list.Body), "back ends")
		require.NotContains(t, string(list.Body), tokens[path])
		rotated := servertest.Decode[clientrecords.IssuedSession](h.Do("POST", "/v1/sessions/rotate",
			fmt.Sprintf(`{"token":%q}`, tokens[path])).With(http.StatusOK))
		checkSession(h, tokens[path]).Problem(http.StatusNotFound, fault.SlugNoSession)
		h.Do("DELETE", "/v1/users/"+path+"/sessions", "").With(http.StatusNoContent)
		checkSession(h, rotated.Token).Problem(http.StatusNotFound, fault.SlugNoSession)
		h.Do("DELETE", "/v1/users/"+path+"/sessions/"+strings.Repeat("0", 64), "").With(http.StatusNoContent)
	}
}

// TestTokensOfSessionsAreAllAlike: an answer doesn't reveal why a token is invalid.
func TestTokensOfSessionsAreAllAlike(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	ann, bob := newSession(h, "ann"), newSession(h, "bob")
	h.Do("DELETE", "/v1/users/bob/sessions", "").With(http.StatusNoContent)
	var first string
	for _, token := range []string{
		bob, ann[:47] + bob[47:], bob[:47] + ann[47:], "tms_" + strings.Repeat("A", 43) +
			base64.RawURLEncoding.EncodeToString([]byte("ann")),
		"", "x", "tms_", ann + "\n", "tmk_0123456789abcdef_x", strings.Repeat("x", 100_000),
		"7-Ann-eyJhIjoxfQ.eyJ1c2VyX2lkIjo3LCJ1c2VybmFtZSI6IkFubiJ9.x",
		"env_vars:{JWT_SECRET}", "user_sessions:{ann}", "session:{ann}:x",
	} {
		a := checkSession(h, token)
		a.Problem(http.StatusNotFound, fault.SlugNoSession)
		p := servertest.Decode[map[string]any](a)
		delete(p, "requestId")
		delete(p, "instance")
		text := fmt.Sprint(p)
		if first == "" {
			first = text
		}
		require.Equal(t, first, text, token)
	}
	checkSession(h, ann).With(http.StatusOK)
}

func TestBadSessions(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	large := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	const sessions, id = "/v1/users/ann/sessions", "/v1/users/ann/sessions/"
	for _, tt := range []struct {
		method, path, body string
		slug               fault.Slug
		field              string
	}{
		{"POST", sessions, ``, fault.SlugInvalidBody, ""},
		{"POST", sessions, `[]`, fault.SlugInvalidBody, ""},
		{"POST", sessions, `{"username":7}`, fault.SlugInvalidBody, "/username"},
		{"POST", sessions, `{"username":"Ann","token":"x"}`, fault.SlugInvalidBody, "/token"},
		{"POST", sessions, `{"username":"Ann","username":"Bob"}`, fault.SlugInvalidBody, "/username"},
		{"POST", sessions, `{}`, fault.SlugInvalidSession, "/username"},
		{"POST", sessions, `{"username":"Ann","deviceInfo":` + large(2<<10) + `}`, fault.SlugInvalidSession,
			"/deviceInfo"},
		{"POST", sessions, `{"username":"Ann","authData":` + large(16<<10) + `}`, fault.SlugInvalidSession,
			"/authData"},
		{"POST", "/v1/users/anonymous/sessions", `{"username":"Ann"}`, fault.SlugInvalidID, "user"},
		{"GET", "/v1/users/a%00b/sessions", ``, fault.SlugInvalidID, "user"},
		{"GET", sessions + "?limit=1", ``, fault.SlugInvalidQuery, ""},
		{"DELETE", id + "x", ``, fault.SlugInvalidID, "id"},
		{"POST", "/v1/sessions/check", `{"token":null}`, fault.SlugInvalidBody, "/token"},
		{"POST", "/v1/sessions/check", `{"token":"x","user":"ann"}`, fault.SlugInvalidBody, "/user"},
	} {
		p := h.Do(tt.method, tt.path, tt.body).Problem(http.StatusBadRequest, tt.slug)
		require.Equal(t, tt.field, p.Field, "%s %s %.60s", tt.method, tt.path, tt.body)
	}
}

// TestClientOfSessions: a rotation with a lost answer has the same result when the Go client retries it.
func TestClientOfSessions(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	service, err := client.New(h.URL, client.WithHTTPClient(&http.Client{Transport: forgetful{}}),
		client.WithRetry(client.RetryPolicy{MinPause: 1}))
	require.NoError(t, err)
	defer service.Close()
	c := clientrecords.New(service)

	issued, err := c.CreateSession(t.Context(), "ann/{b}",
		clientrecords.NewSession{Username: "Ann", Device: []byte(`{"a":1}`)})
	require.NoError(t, err)
	rotated, err := c.RotateSession(t.Context(), issued.Token)
	require.NoError(t, err)
	_, err = c.CheckSession(t.Context(), issued.Token)
	require.ErrorIs(t, err, clientrecords.ErrNoSession)
	found, err := c.CheckSession(t.Context(), rotated.Token)
	require.NoError(t, err)
	require.Equal(t, "ann/{b}", found.User)
	list, err := c.Sessions(t.Context(), "ann/{b}")
	require.NoError(t, err)
	require.Len(t, list, 2, "that of the create whose answer was lost is there, too")
	require.NoError(t, c.RevokeSession(t.Context(), "ann/{b}", found.ID))
	_, err = c.CheckSession(t.Context(), rotated.Token)
	require.ErrorIs(t, err, clientrecords.ErrNoSession)
	require.NoError(t, c.RevokeSessions(t.Context(), "ann/{b}"))
	list, err = c.Sessions(t.Context(), "ann/{b}")
	require.NoError(t, err)
	require.Empty(t, list)
	_, err = c.CreateSession(t.Context(), "ann", clientrecords.NewSession{})
	require.ErrorIs(t, err, clientrecords.ErrInvalidSession)
	require.ErrorIs(t, c.RevokeSession(t.Context(), "ann", "x"), clientrecords.ErrInvalidID)
}

// credentialsOf returns sessions in a Redis that serve as credentials, with grants.
func credentialsOf(t *testing.T, address, granted string) (api.Sessions, *credentials.Credentials) {
	t.Helper()
	conn, err := redis.Connect(t.Context(), redis.Options{URL: address, KeyPrefix: redistest.Prefix(t),
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	grants, err := access.ParseGrants([]byte(granted))
	require.NoError(t, err)
	parts := lifecycle.New(t.Context())
	t.Cleanup(func() { require.NoError(t, parts.Stop()) })
	kept, err := compose.Open(t.Context(), compose.Needs{
		Config:   config.RecordOptions{Site: site.Community(), Sessions: config.SessionOptions{Grants: grants}},
		Redis:    stores.Instances{Records: conn, Sessions: conn, Cache: conn},
		Channels: servertest.Start(t).Service, Parts: parts, Log: slog.New(slog.DiscardHandler),
		Metrics: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	cached, err := kept.SessionCredentials(t.Context())
	require.NoError(t, err)
	return kept.API.Sessions, cached
}

// TestARevokedSessionEndsItsWaits: waits on one or many channels and gRPC watches end, and those of other sessions
// don't.
func TestARevokedSessionEndsItsWaits(t *testing.T) {
	t.Parallel()
	sessionsOf, cached := credentialsOf(t, redistest.Standalone(t).URL(),
		`[{"actions":["subscribe","publish","ticket"]}]`)
	owners := &servertest.OwnersOf{}
	guard, err := access.New(access.Options{Authenticators: []access.Authenticator{cached},
		Tickets: access.Tickets{Owners: owners, Channels: matchmaking.ChannelPrefix,
			Subscriber: matchmaking.Subscriber},
		Revoked: cached})
	require.NoError(t, err)
	h := servertest.Start(t, servertest.WithQueues(), func(s *servertest.Setup) { s.Guard = guard })
	owners.Harness = h
	var tokens []string
	for range 2 {
		issued, err := sessionsOf.Create(t.Context(), "ann", sessions.New{Username: "Ann"})
		require.NoError(t, err)
		tokens = append(tokens, issued.Token)
	}
	other, mine := servertest.Bearer(tokens[0]), servertest.Bearer(tokens[1])
	for _, name := range []string{"a", "b", "c"} {
		h.Do("PUT", "/v1/channels/"+name+"/subscribers/ann", "", mine).With(http.StatusCreated)
	}
	ticket := h.CreatedBy(tokens[1], `{"queue":"duel"}`)

	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", mine.Value)
	watched := make(chan error, 1)
	go func() {
		watch, err := openmatch.NewFrontendServiceClient(servertest.Native.Dial(t, h.GRPCAddr, h.URL)).
			WatchAssignments(ctx, &openmatch.WatchAssignmentsRequest{TicketId: ticket.ID})
		if err == nil {
			_, err = watch.Recv()
		}
		watched <- err
	}()
	require.Eventually(t, func() bool { waits, _ := h.Matches.Waits(); return waits == 1 }, servertest.Patience,
		servertest.Step)
	body := strings.Replace(servertest.FetchBody("a/ann", "b/ann", "c/ann"), "{", `{"wait":"20s",`, 1)
	waitWith := func(token string) <-chan servertest.Answer {
		user := *h
		user.Client = servertest.Client(t, false)
		user.As(token)
		return user.Waiting(t.Context(), 1, "POST /v1/fetch "+body)
	}
	stays, ends := waitWith(tokens[0]), waitWith(tokens[1])

	checked, err := sessionsOf.Check(t.Context(), tokens[1])
	require.NoError(t, err)
	require.NoError(t, sessionsOf.Revoke(t.Context(), "ann", checked.ID))
	(<-ends).Problem(http.StatusUnauthorized, fault.SlugRevokedCredential)
	err = <-watched
	require.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
	require.Equal(t, access.ErrRevoked.Detail, status.Convert(err).Message())
	h.Do("PUT", "/v1/channels/b/messages/1", "1", other).With(http.StatusCreated)
	require.Len(t, servertest.Decode[servertest.Deliveries]((<-stays).With(http.StatusOK)).Deliveries, 1)
}

// TestGuessedSessions: a client that guesses session tokens is soon refused without a read of Redis, while users with
// valid ones are served. Malformed tokens never cause a read of Redis.
func TestGuessedSessions(t *testing.T) {
	t.Parallel()
	tap := redistest.NewProxy(t, redistest.Standalone(t))
	sessionsOf, cached := credentialsOf(t, tap.Addr(), `[{"actions":["describe"]}]`)
	guard, err := access.New(access.Options{Authenticators: []access.Authenticator{cached}, Revoked: cached})
	require.NoError(t, err)
	h := servertest.Start(t, func(s *servertest.Setup) { s.Guard = guard })

	issued, err := sessionsOf.Create(t.Context(), "ann", sessions.New{Username: "Ann"})
	require.NoError(t, err)
	mine := servertest.Header{Name: "Authorization", Value: "Bearer " + issued.Token}
	h.Do("GET", "/v1/channels/c", "", mine).Problem(http.StatusNotFound, fault.SlugNoChannel)
	before := tap.Count()
	for n := range 2000 {
		guess := fmt.Sprintf("tms_%042dA%s", n, base64.RawURLEncoding.EncodeToString([]byte("ann")))
		if n%2 == 0 {
			guess = fmt.Sprintf("tms_%d", n)
		}
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusTooManyRequests},
			h.Do("GET", "/v1/channels/c", "", servertest.Header{Name: "Authorization",
				Value: "Bearer " + guess}).Status)
	}
	require.Less(t, tap.Count()-before, 1000)
	h.Do("GET", "/v1/channels/c", "", mine).Problem(http.StatusNotFound, fault.SlugNoChannel)
}

// TestLargeListsCount: a list counts as a request for each 16 KiB of it.
func TestLargeListsCount(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "all", `[{"actions":["read","write"]}]`)
	p.Add(t, "limited", `[{"actions":["read","write"]}]`)
	limits, err := access.ParseLimits("requests=20/h")
	require.NoError(t, err)
	p.Known["limited"].Limits = limits
	body := `{"username":"Ann","deviceInfo":"` + strings.Repeat("x", sessions.MaxDeviceBytes-2) + `"}`
	const path = "/v1/users/ann/sessions"
	for range 40 {
		h.Do("POST", path, body, servertest.Bearer("all")).With(http.StatusCreated)
	}
	got := h.Do("GET", path, "", servertest.Bearer("limited")).With(http.StatusOK)
	require.Len(t, servertest.Decode[wire.Sessions](got).Sessions, 40)
	require.Regexp(t, `"requests";r=14;`, got.Header.Get("Ratelimit"), "90,000 bytes are 6 requests")
}
