package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/config"
	"github.com/tidemark-dev/tidemark/records/keyset"
	"github.com/tidemark-dev/tidemark/wire"
)

// withKeyset starts a service that encrypts tokens with the keys of a file.
func withKeyset(path string) func(*setup) {
	return func(s *setup) { s.kept = func(o *config.RecordOptions) { o.OAuth.Keyset = path } }
}

func newKeyset(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, keyset.Create(path))
	return path
}

func (h *harness) issue(user, body string) string {
	h.t.Helper()
	return decode[wire.IssuedVerification](h.do("POST", "/v1/users/"+user+"/verifications",
		body).with(http.StatusCreated)).Token
}

// matches checks that an answer's body matches a pattern.
func (a answer) matches(status int, pattern string) {
	a.t.Helper()
	require.Regexp(a.t, pattern, string(a.with(status).body))
}

func (h *harness) take(verification, token string) answer {
	h.t.Helper()
	return h.do("POST", "/v1/verifications/take", fmt.Sprintf(`{"type":%q,"token":%q}`, verification, token))
}

func TestVerifications(t *testing.T) {
	t.Parallel()
	h := start(t)
	token := h.issue("ann%2F%7Bx%7D", `{"type":"email_change","data":{"to":"b@example.com", "n":1.50}}`)
	require.True(t, strings.HasPrefix(token, "tmv_"))
	h.take("email_verification", token).problem(404, fault.SlugNoVerification)
	h.take("email_change", token[:len(token)-4]+"Ym9i").problem(404, fault.SlugNoVerification)
	h.take("email_change", token).is(200, `{"userId":"ann/{x}","data":{"to":"b@example.com","n":1.50}}`)
	h.take("email_change", token).problem(404, fault.SlugNoVerification)
	first, second := h.issue("ann", `{"type":"password_reset"}`), h.issue("ann", `{"type":"password_reset"}`)
	h.take("password_reset", first).problem(404, fault.SlugNoVerification)
	named := fmt.Sprintf(`{"type":"password_reset","token":%q,"attempt":"mine"}`, second)
	for range 2 {
		h.do("POST", "/v1/verifications/take", named).is(200, `{"userId":"ann"}`)
	}
	h.take("password_reset", second).problem(404, fault.SlugNoVerification)

	for body, field := range map[string]string{
		`{}`: "/type", `{"type":"x"}`: "/type", `{"type":"password_reset","data":"` + strings.Repeat("x", 4096) +
			`"}`: "/data",
	} {
		require.Equal(t, field, h.do("POST", "/v1/users/ann/verifications", body).problem(400,
			fault.SlugInvalidToken).Field)
	}
	require.Equal(t, "user", h.do("POST", "/v1/users/a%00/verifications", `{"type":"password_reset"}`).problem(400,
		fault.SlugInvalidID).Field)
	h.do("POST", "/v1/verifications/take", `{"type":"password_reset","token":"tmv_","attempt":"`+strings.Repeat("x",
		129)+`"}`).problem(400, fault.SlugInvalidID)
	h.do("POST", "/v1/verifications/take", `{"type":"password_reset","tokens":""}`).problem(400, fault.SlugInvalidBody)
	require.NotContains(t, h.logs.Text(t), token[4:47], "no log has a token")
}

// TestOneTakeWins: of many callers at the same time one gets the answer.
func TestOneTakeWins(t *testing.T) {
	t.Parallel()
	h := start(t)
	token := h.issue("ann", `{"type":"password_reset"}`)
	state := decode[wire.IssuedOAuthState](h.do("POST", "/v1/oauth-states", `{"provider":"vk"}`).with(201)).State
	var won atomic.Int32
	var g sync.WaitGroup
	for range 50 {
		g.Go(func() {
			for _, a := range []answer{h.take("password_reset", token),
				h.do("POST", "/v1/oauth-states/take", fmt.Sprintf(`{"state":%q}`, state))} {
				if a.status == http.StatusOK {
					won.Add(1)
				}
			}
		})
	}
	g.Wait()
	require.EqualValues(t, 2, won.Load())
}

func TestOAuthStates(t *testing.T) {
	t.Parallel()
	h := start(t)
	asked := `{"provider":"google","redirectUri":"https://example.com/?a={b}:c","csrfToken":"x:{y}"}`
	state := decode[wire.IssuedOAuthState](h.do("POST", "/v1/oauth-states", asked).with(201)).State
	take := fmt.Sprintf(`{"state":%q}`, state)
	h.do("POST", "/v1/oauth-states/take", take).matches(200,
		`^\{"provider":"google","redirectUri":"https://example.com/\?a=\{b\}:c","csrfToken":"x:\{y\}","createdAt":"20.*Z"\}$`)
	h.do("POST", "/v1/oauth-states/take", take).problem(404, fault.SlugNoOAuthState)
	h.do("POST", "/v1/oauth-states/take", `{"state":"`+strings.Repeat("A", 43)+`"}`).problem(404,
		fault.SlugNoOAuthState)
	require.Equal(t, "/provider", h.do("POST", "/v1/oauth-states", `{"provider":"google:x"}`).problem(400,
		fault.SlugInvalidToken).Field)
	require.Equal(t, "/redirectUri",
		h.do("POST", "/v1/oauth-states", `{"provider":"vk","redirectUri":"http://[::1"}`).problem(400,
			fault.SlugInvalidToken).Field)
}

func TestOAuthTokens(t *testing.T) {
	t.Parallel()
	path := newKeyset(t)
	h := start(t, withKeyset(path))
	const ann, bob = "/v1/users/ann/oauth/google", "/v1/users/bob/oauth/google"
	h.do("GET", ann, "").problem(404, fault.SlugNoOAuthTokens)
	h.do("PUT", ann, `{"accessToken":"plain-access","refreshToken":"plain-refresh"}`).matches(200,
		`^\{"accessExpiresAt":"20.*Z","refreshExpiresAt":"20.*Z"\}$`)
	h.do("PUT", ann, `{"accessToken":"plain-next"}`).matches(200, `^\{"accessExpiresAt":"[^"]*"\}$`)
	h.do("GET", ann, "").matches(200,
		`^\{"accessToken":"plain-next","refreshToken":"plain-refresh","accessExpiresAt":"20.*","refreshExpiresAt":"20.*"\}$`)
	h.do("GET", "/v1/users/ann/oauth/vk", "").problem(404, fault.SlugNoOAuthTokens)
	require.Equal(t, "provider", h.do("PUT", "/v1/users/ann/oauth/goo%3Agle", `{"accessToken":"x"}`).problem(400,
		fault.SlugInvalidToken).Field)
	require.Equal(t, "/accessToken", h.do("PUT", ann, `{}`).problem(400, fault.SlugInvalidToken).Field)
	h.do("PUT", ann, `{"refreshToken":"`+strings.Repeat("x", 8193)+`"}`).problem(400, fault.SlugInvalidToken)
	sealed, err := h.redis.Do(t, "GET", h.prefix+"oauth_access:{ann}:google").ToString()
	require.NoError(t, err)
	require.NotContains(t, sealed, "plain")

	require.NoError(t, h.redis.Do(t, "COPY", h.prefix+"oauth_access:{ann}:google",
		h.prefix+"oauth_access:{bob}:google").Error())
	h.do("GET", bob, "").problem(501, fault.SlugSealed)
	require.NoError(t, h.redis.Do(t, "COPY", h.prefix+"oauth_access:{ann}:google",
		h.prefix+"oauth_refresh:{bob}:google").Error())
	require.NoError(t, h.redis.Do(t, "DEL", h.prefix+"oauth_access:{bob}:google").Error())
	h.do("GET", bob, "").problem(501, fault.SlugSealed)
	for range 2 {
		h.do("DELETE", bob, "").is(204, "")
	}
	h.do("GET", bob, "").problem(404, fault.SlugNoOAuthTokens)
	require.NotContains(t, h.logs.Text(t), "plain-")

	onPrefix := func(s *setup) { s.prefix = h.prefix }
	require.NoError(t, keyset.Rotate(path))
	start(t, withKeyset(path), onPrefix).do("GET", ann, "").matches(200, `"plain-next"`)
	other := start(t, withKeyset(newKeyset(t)), onPrefix)
	other.do("GET", ann, "").problem(501, fault.SlugSealed)
	require.Contains(t, other.logs.Text(t), "isn't in the keyset", "the log says why")
	none := start(t, onPrefix)
	none.do("GET", ann, "").problem(501, fault.SlugNoKeyset)
	none.do("PUT", ann, `{"accessToken":"x"}`).problem(501, fault.SlugNoKeyset)
	none.do("DELETE", ann, "").is(204, "")
}

// TestSettings: what a client sees of settings, by what it may do.
func TestSettings(t *testing.T) {
	t.Parallel()
	var p people
	h := start(t, closed(t, &p))
	p.add(t, "reader", `[{"actions":["read"],"records":["settings","settings/*"]}]`)
	p.add(t, "writer", `[{"actions":["write"],"records":["settings/SMTP_*"]}]`)
	p.add(t, "admin", `[{"actions":["read","write","admin"]}]`)
	as := func(who, method, path, body string) answer {
		t.Helper()
		return h.do(method, path, body, bearer(who))
	}
	as("admin", "PUT", "/v1/settings/LOG_LEVEL", `{"value":"debug"}`).is(200,
		`{"name":"LOG_LEVEL","category":"logging","secret":false}`)
	as("writer", "PUT", "/v1/settings/SMTP_PASSWORD", `{"value":"hidden"}`).is(200,
		`{"name":"SMTP_PASSWORD","category":"integrations","secret":true}`)
	as("writer", "PUT", "/v1/settings/LOG_LEVEL", `{"value":"x"}`).problem(403, fault.SlugNotGranted)
	as("writer", "GET", "/v1/settings/SMTP_PASSWORD", "").problem(403, fault.SlugNotGranted)
	as("reader", "GET", "/v1/settings/SMTP_PASSWORD", "").is(200,
		`{"name":"SMTP_PASSWORD","category":"integrations","secret":true}`)
	as("admin", "GET", "/v1/settings/SMTP_PASSWORD", "").is(200,
		`{"name":"SMTP_PASSWORD","category":"integrations","secret":true,"value":"hidden"}`)
	list := `{"settings":[{"name":"LOG_LEVEL","category":"logging","secret":false,"value":"debug"},{"name":"SMTP_PASSWORD","category":"integrations","secret":true}]}`
	for _, who := range []string{"reader", "admin"} {
		as(who, "GET", "/v1/settings", "").is(200, list)
	}
	as("reader", "GET", "/v1/settings?limit=1", "").is(200,
		`{"settings":[{"name":"LOG_LEVEL","category":"logging","secret":false,"value":"debug"}],"cursor":"LOG_LEVEL"}`)
	as("reader", "GET", "/v1/settings?category=integrations&cursor=LOG_LEVEL", "").is(200,
		`{"settings":[{"name":"SMTP_PASSWORD","category":"integrations","secret":true}]}`)
	for _, query := range []string{"limit=0", "limit=101", "limit=x", "category=x", "category=", "page=1",
		"limit=1&limit=2", "%zz"} {
		a := as("reader", "GET", "/v1/settings?"+query, "")
		if query == "category=" {
			a.is(200, list)
			continue
		}
		a.problem(400, fault.SlugInvalidQuery)
	}
	as("reader", "GET", "/v1/settings/NONE", "").problem(404, fault.SlugNoSetting)
	for path, slug := range map[string]fault.Slug{"A%7B": fault.SlugInvalidID, "A%3AB": fault.SlugInvalidID,
		"%C3%A4": fault.SlugInvalidID, "export": fault.SlugNoPath} {
		as("admin", "GET", "/v1/settings/"+path,
			"").problem(map[bool]int{true: 404, false: 400}[slug == fault.SlugNoPath], slug)
	}
	as("admin", "PUT", "/v1/settings/1A", `{"value":""}`).problem(400, fault.SlugInvalidID)
	as("admin", "PUT", "/v1/settings/A", `{}`).problem(400, fault.SlugInvalidBody)
	as("admin", "PUT", "/v1/settings/A", `{"value":"`+strings.Repeat("x", 16<<10+1)+`"}`).problem(400,
		fault.SlugInvalidSetting)
	as("writer", "DELETE", "/v1/settings/SMTP_PASSWORD", "").is(204, "")
	as("reader", "GET", "/v1/settings/SMTP_PASSWORD", "").problem(404, fault.SlugNoSetting)
}

// TestBackupOfSettings: an export can be imported elsewhere, and is what was exported.
func TestBackupOfSettings(t *testing.T) {
	t.Parallel()
	h, other := start(t).onAdmin(), start(t).onAdmin()
	h.do("PUT", "/v1/settings/JWT_SECRET", `{"value":"hidden"}`).with(200)
	h.do("PUT", "/v1/settings/PUBLIC_KEY", `{"value":"shown\n","secret":false}`).with(200)
	saved := h.do("GET", "/v1/settings/export", "").with(200)
	saved.is(200,
		`{"settings":[{"name":"JWT_SECRET","value":"hidden","secret":true},{"name":"PUBLIC_KEY","value":"shown\n","secret":false}]}`)
	for range 2 {
		other.do("POST", "/v1/settings/import", string(saved.body)).is(200, `{"imported":2}`)
	}
	other.do("GET", "/v1/settings/export", "").is(200, string(saved.body))
	other.do("GET", "/v1/settings", "").matches(200, `\{"name":"JWT_SECRET","category":"auth","secret":true\}`)
	bad := other.do("POST", "/v1/settings/import",
		`{"settings":[{"name":"A","value":""},{"name":"B:","value":""}]}`).problem(400, fault.SlugInvalidID)
	require.Equal(t, "/settings/1/name", bad.Field)
	bad = other.do("POST", "/v1/settings/import",
		`{"settings":[{"name":"A","value":""},{"name":"JWT_SECRET","secret":true}]}`).problem(400,
		fault.SlugInvalidBody)
	require.Equal(t, "/settings/1/value", bad.Field)
	many, err := json.Marshal(wire.SavedSettings{Settings: slices.Repeat([]wire.SavedSetting{{Value: new("")}}, 101)})
	require.NoError(t, err)
	other.do("POST", "/v1/settings/import", string(many)).problem(400, fault.SlugInvalidSetting)
	other.do("GET", "/v1/settings/A", "").problem(404, fault.SlugNoSetting)
}
