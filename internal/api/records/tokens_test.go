package records_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	clientrecords "github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/records/keyset"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// withKeyset starts a service that encrypts tokens with the keys of a file.
func withKeyset(path string) func(*servertest.Setup) {
	return func(s *servertest.Setup) { s.Kept = func(o *config.RecordOptions) { o.OAuth.Keyset = path } }
}

func newKeyset(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, keyset.Create(path))
	return path
}

func issue(h *servertest.Harness, user, body string) string {
	h.TB.Helper()
	return servertest.Decode[clientrecords.IssuedVerification](h.Do("POST", "/v1/users/"+user+"/verifications",
		body).With(http.StatusCreated)).Token
}

// matches checks that an answer's body matches a pattern.
func matches(a servertest.Answer, status int, pattern string) {
	a.TB.Helper()
	require.Regexp(a.TB, pattern, string(a.With(status).Body))
}

func take(h *servertest.Harness, verification, token string) servertest.Answer {
	h.TB.Helper()
	return h.Do("POST", "/v1/verifications/take", fmt.Sprintf(`{"type":%q,"token":%q}`, verification, token))
}

func TestVerifications(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	token := issue(h, "ann%2F%7Bx%7D", `{"type":"email_change","data":{"to":"b@example.com", "n":1.50}}`)
	require.True(t, strings.HasPrefix(token, "tmv_"))
	take(h, "email_change", token).Expect(200, `{"userId":"ann/{x}","data":{"to":"b@example.com","n":1.50}}`)
	take(h, "email_change", token).Problem(404, fault.SlugNoVerification)
	second := issue(h, "ann", `{"type":"password_reset"}`)
	named := fmt.Sprintf(`{"type":"password_reset","token":%q,"attempt":"mine"}`, second)
	for range 2 {
		h.Do("POST", "/v1/verifications/take", named).Expect(200, `{"userId":"ann"}`)
	}
	take(h, "password_reset", second).Problem(404, fault.SlugNoVerification)

	require.Equal(t, "/type", h.Do("POST", "/v1/users/ann/verifications", `{}`).Problem(400,
		fault.SlugInvalidToken).Field)
	require.Equal(t, "user", h.Do("POST", "/v1/users/a%00/verifications", `{"type":"password_reset"}`).Problem(400,
		fault.SlugInvalidID).Field)
	h.Do("POST", "/v1/verifications/take", `{"type":"password_reset","tokens":""}`).Problem(400, fault.SlugInvalidBody)
	require.NotContains(t, h.Logs.Text(t), token[4:47], "no log has a token")
}

func TestOAuthStates(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	asked := `{"provider":"google","redirectUri":"https://example.com/?a={b}:c","csrfToken":"x:{y}"}`
	state := servertest.Decode[clientrecords.IssuedOAuthState](h.Do("POST", "/v1/oauth-states", asked).With(201)).State
	take := fmt.Sprintf(`{"state":%q}`, state)
	matches(h.Do("POST", "/v1/oauth-states/take", take), 200,
		`^\{"provider":"google","redirectUri":"https://example.com/\?a=\{b\}:c","csrfToken":"x:\{y\}","createdAt":"20.*Z"\}$`)
	h.Do("POST", "/v1/oauth-states/take", take).Problem(404, fault.SlugNoOAuthState)
	require.Equal(t, "/provider", h.Do("POST", "/v1/oauth-states", `{"provider":"google:x"}`).Problem(400,
		fault.SlugInvalidToken).Field)
}

func TestOAuthTokens(t *testing.T) {
	t.Parallel()
	path := newKeyset(t)
	h := servertest.Start(t, withKeyset(path))
	const ann, bob = "/v1/users/ann/oauth/google", "/v1/users/bob/oauth/google"
	h.Do("GET", ann, "").Problem(404, fault.SlugNoOAuthTokens)
	matches(h.Do("PUT", ann, `{"accessToken":"plain-access","refreshToken":"plain-refresh"}`), 200,
		`^\{"accessExpiresAt":"20.*Z","refreshExpiresAt":"20.*Z"\}$`)
	matches(h.Do("PUT", ann, `{"accessToken":"plain-next"}`), 200, `^\{"accessExpiresAt":"[^"]*"\}$`)
	matches(h.Do("GET", ann, ""), 200,
		`^\{"accessToken":"plain-next","refreshToken":"plain-refresh","accessExpiresAt":"20.*","refreshExpiresAt":"20.*"\}$`)
	h.Do("GET", "/v1/users/ann/oauth/vk", "").Problem(404, fault.SlugNoOAuthTokens)
	require.Equal(t, "provider", h.Do("PUT", "/v1/users/ann/oauth/goo%3Agle", `{"accessToken":"x"}`).Problem(400,
		fault.SlugInvalidToken).Field)
	require.Equal(t, "/accessToken", h.Do("PUT", ann, `{}`).Problem(400, fault.SlugInvalidToken).Field)
	sealed, err := h.Redis.Do(t, "GET", h.Prefix+"oauth_access:{ann}:google").ToString()
	require.NoError(t, err)
	require.NotContains(t, sealed, "plain")

	require.NoError(t, h.Redis.Do(t, "COPY", h.Prefix+"oauth_access:{ann}:google",
		h.Prefix+"oauth_access:{bob}:google").Error())
	h.Do("GET", bob, "").Problem(501, fault.SlugSealed)
	for range 2 {
		h.Do("DELETE", bob, "").Expect(204, "")
	}
	h.Do("GET", bob, "").Problem(404, fault.SlugNoOAuthTokens)
	require.NotContains(t, h.Logs.Text(t), "plain-")

	onPrefix := func(s *servertest.Setup) { s.Prefix = h.Prefix }
	require.NoError(t, keyset.Rotate(path))
	matches(servertest.Start(t, withKeyset(path), onPrefix).Do("GET", ann, ""), 200, `"plain-next"`)
	other := servertest.Start(t, withKeyset(newKeyset(t)), onPrefix)
	other.Do("GET", ann, "").Problem(501, fault.SlugSealed)
	require.Contains(t, other.Logs.Text(t), "isn't in the keyset", "the log says why")
	none := servertest.Start(t, onPrefix)
	none.Do("GET", ann, "").Problem(501, fault.SlugNoKeyset)
	none.Do("PUT", ann, `{"accessToken":"x"}`).Problem(501, fault.SlugNoKeyset)
	none.Do("DELETE", ann, "").Expect(204, "")
}

// TestSettings: the visible settings of clients, by their permissions.
func TestSettings(t *testing.T) {
	t.Parallel()
	var p servertest.People
	h := servertest.Start(t, servertest.Closed(t, &p))
	p.Add(t, "reader", `[{"actions":["read"],"records":["settings","settings/*"]}]`)
	p.Add(t, "writer", `[{"actions":["write"],"records":["settings/SMTP_*"]}]`)
	p.Add(t, "admin", `[{"actions":["read","write","admin"]}]`)
	as := func(who, method, path, body string) servertest.Answer {
		t.Helper()
		return h.Do(method, path, body, servertest.Bearer(who))
	}
	as("admin", "PUT", "/v1/settings/LOG_LEVEL", `{"value":"debug"}`).Expect(200,
		`{"name":"LOG_LEVEL","category":"logging","secret":false}`)
	as("writer", "PUT", "/v1/settings/SMTP_PASSWORD", `{"value":"hidden"}`).Expect(200,
		`{"name":"SMTP_PASSWORD","category":"integrations","secret":true}`)
	as("writer", "PUT", "/v1/settings/LOG_LEVEL", `{"value":"x"}`).Problem(403, fault.SlugNotGranted)
	as("writer", "GET", "/v1/settings/SMTP_PASSWORD", "").Problem(403, fault.SlugNotGranted)
	as("reader", "GET", "/v1/settings/SMTP_PASSWORD", "").Expect(200,
		`{"name":"SMTP_PASSWORD","category":"integrations","secret":true}`)
	as("admin", "GET", "/v1/settings/SMTP_PASSWORD", "").Expect(200,
		`{"name":"SMTP_PASSWORD","category":"integrations","secret":true,"value":"hidden"}`)
	list := `{"settings":[{"name":"LOG_LEVEL","category":"logging","secret":false,"value":"debug"},{"name":"SMTP_PASSWORD","category":"integrations","secret":true}]}`
	for _, who := range []string{"reader", "admin"} {
		as(who, "GET", "/v1/settings", "").Expect(200, list)
	}
	as("reader", "GET", "/v1/settings?limit=1", "").Expect(200,
		`{"settings":[{"name":"LOG_LEVEL","category":"logging","secret":false,"value":"debug"}],"cursor":"LOG_LEVEL"}`)
	as("reader", "GET", "/v1/settings?category=integrations&cursor=LOG_LEVEL", "").Expect(200,
		`{"settings":[{"name":"SMTP_PASSWORD","category":"integrations","secret":true}]}`)
	for _, query := range []string{"limit=0", "limit=101", "limit=x", "category=x", "category=", "page=1",
		"limit=1&limit=2", "%zz"} {
		a := as("reader", "GET", "/v1/settings?"+query, "")
		if query == "category=" {
			a.Expect(200, list)
			continue
		}
		a.Problem(400, fault.SlugInvalidQuery)
	}
	as("reader", "GET", "/v1/settings/NONE", "").Problem(404, fault.SlugNoSetting)
	as("admin", "GET", "/v1/settings/A%7B", "").Problem(400, fault.SlugInvalidID)
	as("admin", "GET", "/v1/settings/export", "").Problem(404, fault.SlugNoPath)
	as("admin", "PUT", "/v1/settings/A", `{}`).Problem(400, fault.SlugInvalidBody)
	as("writer", "DELETE", "/v1/settings/SMTP_PASSWORD", "").Expect(204, "")
	as("reader", "GET", "/v1/settings/SMTP_PASSWORD", "").Problem(404, fault.SlugNoSetting)
}

// TestBackupOfSettings: an export can be imported elsewhere, and the import equals the original.
func TestBackupOfSettings(t *testing.T) {
	t.Parallel()
	h, other := servertest.Start(t).OnAdmin(), servertest.Start(t).OnAdmin()
	h.Do("PUT", "/v1/settings/JWT_SECRET", `{"value":"hidden"}`).With(200)
	h.Do("PUT", "/v1/settings/PUBLIC_KEY", `{"value":"shown\n","secret":false}`).With(200)
	saved := h.Do("GET", "/v1/settings/export", "").With(200)
	saved.Expect(200,
		`{"settings":[{"name":"JWT_SECRET","value":"hidden","secret":true},{"name":"PUBLIC_KEY","value":"shown\n","secret":false}]}`)
	for range 2 {
		other.Do("POST", "/v1/settings/import", string(saved.Body)).Expect(200, `{"imported":2}`)
	}
	other.Do("GET", "/v1/settings/export", "").Expect(200, string(saved.Body))
	matches(other.Do("GET", "/v1/settings", ""), 200, `\{"name":"JWT_SECRET","category":"auth","secret":true\}`)
	bad := other.Do("POST", "/v1/settings/import",
		`{"settings":[{"name":"A","value":""},{"name":"B:","value":""}]}`).Problem(400, fault.SlugInvalidID)
	require.Equal(t, "/settings/1/name", bad.Field)
	bad = other.Do("POST", "/v1/settings/import",
		`{"settings":[{"name":"A","value":""},{"name":"JWT_SECRET","secret":true}]}`).Problem(400,
		fault.SlugInvalidBody)
	require.Equal(t, "/settings/1/value", bad.Field)
	other.Do("GET", "/v1/settings/A", "").Problem(404, fault.SlugNoSetting)
}
