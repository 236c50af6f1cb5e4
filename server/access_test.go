package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/server/web"
	"github.com/tidemark-dev/tidemark/wire"
)

// people are the principals of a closed service, by their credentials, and what was revoked.
type people struct {
	known  map[string]*access.Principal
	unseen atomic.Bool // all credentials are slow to check

	mu      sync.Mutex
	revoked map[string]bool // by the ID of the credential
	changed []func()
}

func (p *people) Accepts(string) bool { return true }

func (p *people) Authenticate(_ context.Context, credential string) (*access.Principal, error) {
	if who := p.known[credential]; who != nil {
		return who, nil
	}
	return nil, access.ErrInvalidCredential
}

func (p *people) Knows(string) bool { return !p.unseen.Load() }

func (p *people) Revoked(who *access.Principal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revoked[who.Credential]
}

func (p *people) Notify(changed func()) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = append(p.changed, changed)
	return func() {}
}

func (p *people) revoke(credential string) {
	p.mu.Lock()
	p.revoked[credential] = true
	changed := p.changed
	p.mu.Unlock()
	for _, tell := range changed {
		tell()
	}
}

func (p *people) unrevoke() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.revoked)
}

// add adds an API key with grants in JSON.
func (p *people) add(t testing.TB, credential, grants string) {
	t.Helper()
	parsed, err := access.ParseGrants([]byte(grants))
	require.NoError(t, err)
	p.known[credential] = &access.Principal{Kind: access.APIKey, Credential: credential, Grants: parsed}
}

// closed makes the service closed, to all but p.
func closed(t testing.TB, p *people, rules ...access.ChannelRule) func(*setup) {
	t.Helper()
	p.known, p.revoked = map[string]*access.Principal{}, map[string]bool{}
	guard, err := access.New(access.Options{Authenticators: []access.Authenticator{p}, Rules: rules, Revoked: p})
	require.NoError(t, err)
	return func(s *setup) { s.Guard = guard }
}

func bearer(token string) header { return header{"Authorization", "Bearer " + token} }

// as makes requests without an Authorization header have one.
func (h *harness) as(token string) { h.client.Transport = sender{h.client.Transport, token} }

type sender struct {
	http.RoundTripper
	token string
}

func (s sender) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header["Authorization"] == nil {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	return s.RoundTripper.RoundTrip(r)
}

// callOf returns a request to a route.
func callOf(r web.Route) (method, path string) {
	return r.Method, strings.NewReplacer(
		":channel", "c", ":subscriber", "s", ":ticket_id", "i", ":id", "i", ":queue", "q", ":kind", "author", `\:`, ":",
		":profile", "heap", "pprof/profile", "pprof/profile?seconds=0", "pprof/trace", "pprof/trace?seconds=0",
	).Replace(r.Path)
}

// grantFor returns the only grant that a route needs.
func grantFor(r web.Route) string {
	of := map[access.Action]string{
		access.Publish: `,"channels":["c"]`, access.Describe: `,"channels":["c"]`,
		access.Subscribe: `,"channels":["c"],"subscribers":["s"]`,
		access.Queue:     `,"queues":["q"]`, access.Read: `,"records":["*"]`, access.Write: `,"records":["*"]`,
	}
	if r.Action == access.Any {
		r.Action = access.Publish
	}
	return `[{"actions":["` + string(r.Action) + `"]` + of[r.Action] + "}]"
}

// TestEveryRouteIsClosed calls every route without a credential, with one that grants nothing, with one that grants all
// else, and with one that grants what the route needs.
func TestEveryRouteIsClosed(t *testing.T) {
	t.Parallel()
	var p people
	proxied := func(s *setup) { s.Clients.TrustProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }
	public := start(t, withQueues(), closed(t, &p), proxied)
	p.add(t, "nothing", `[]`)
	routes := server.Routes(public.server)
	require.Greater(t, len(routes), 30)
	for i, r := range routes {
		h := public
		if r.Admin {
			h = public.onAdmin()
		}
		method, path := callOf(r)
		if strings.HasPrefix(path, "/openmatch.") || strings.HasPrefix(path, "/grpc.") {
			continue // a test of package server/grpc calls these by each protocol
		}
		require.NotEqual(t, r.Open, r.Action != "", "%s %s has an action, or is open", method, path)
		if r.Open {
			require.Regexp(t, `^/(livez|readyz|probe/liveness|probe/readiness)$`, path)
			require.Equal(t, http.StatusOK, h.do(method, path, "").status)
			continue
		}
		var others []string
		for _, a := range []access.Action{access.Publish, access.Subscribe, access.Describe, access.Ticket,
			access.Queue, access.Read, access.Write, access.Admin} {
			if a != r.Action {
				others = append(others, `"`+string(a)+`"`)
			}
		}
		p.add(t, "others", `[{"actions":[`+strings.Join(others, ",")+`]}]`)
		p.add(t, "enough", grantFor(r))
		h.refused(r, http.StatusUnauthorized, fault.SlugNoCredential)
		// an address may send few invalid credentials
		another := header{"X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i)}
		h.refused(r, http.StatusUnauthorized, fault.SlugInvalidCredential, bearer("unknown"), another)
		h.refused(r, http.StatusForbidden, fault.SlugNotGranted, bearer("nothing"))
		if r.Action != access.Any {
			h.refused(r, http.StatusForbidden, fault.SlugNotGranted, bearer("others"))
		}
		if path == "/debug/pprof/profile" || path == "/debug/pprof/trace" {
			path += "?seconds=0.001"
		}
		request, err := http.NewRequestWithContext(t.Context(), method, h.url+path, http.NoBody)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer enough")
		got, err := h.client.Do(request)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, got.StatusCode, "%s %s", method,
			path)
		require.Empty(t, got.Header.Get("WWW-Authenticate"))
	}
}

// challenges are what WWW-Authenticate says.
var challenges = map[fault.Slug]string{
	fault.SlugNoCredential:      `Bearer realm="tidemark"`,
	fault.SlugInvalidCredential: `Bearer realm="tidemark", error="invalid_token", error_description="Invalid credentials"`,
	fault.SlugExpiredCredential: `Bearer realm="tidemark", error="invalid_token", error_description="Expired credentials"`,
	fault.SlugRevokedCredential: `Bearer realm="tidemark", error="invalid_token", error_description="Revoked credentials"`,
	fault.SlugNotGranted:        `Bearer realm="tidemark", error="insufficient_scope", error_description="Not granted"`,
	fault.SlugTokenInQuery:      `Bearer realm="tidemark", error="invalid_request", error_description="Token in the query"`,
}

// refused checks that a route answers with nothing but a problem.
func (h *harness) refused(r web.Route, status int, slug fault.Slug, headers ...header) {
	h.t.Helper()
	method, path := callOf(r)
	got := h.do(method, path, `{"content":1}`, headers...)
	require.Equal(h.t, challenges[slug], got.header.Get("WWW-Authenticate"), "%s %s", method, path)
	switch {
	case method == http.MethodHead:
		got.is(status, "")
	case strings.HasPrefix(path, "/channel/"):
		got.oldError(status, wire.OldCodeRejected)
	case strings.HasPrefix(path, "/v1/frontendservice/"), strings.HasPrefix(path, "/v1/queryservice/"):
		require.Contains(h.t, string(got.body), `"code":`)
		require.Equal(h.t, status, got.status)
	default:
		got.problem(status, slug)
	}
}
