package server_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

func unrevoke(p *servertest.People) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	clear(p.Ended)
}

// grantFor returns the only grant that a route needs.
func grantFor(r web.Route) string {
	of := map[access.Action]string{
		access.Publish: `,"channels":["c"]`, access.Describe: `,"channels":["c"]`,
		access.Subscribe: `,"channels":["c"],"subscribers":["s"]`,
		access.Queue:     `,"queues":["q"]`, access.Direct: `,"queues":["default"]`,
		access.Read: `,"records":["*"]`, access.Write: `,"records":["*"]`,
	}
	if r.Action == access.Any {
		r.Action = access.Publish
	}
	return `[{"actions":["` + string(r.Action) + `"]` + of[r.Action] + "}]"
}

// TestEveryRouteIsClosed calls every route without a credential, with one that grants nothing, with one that grants
// everything except the route's action, and with one that grants only that.
func TestEveryRouteIsClosed(t *testing.T) {
	t.Parallel()
	var p servertest.People
	proxied := func(s *servertest.Setup) {
		s.Clients.TrustProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	public := servertest.Start(t, servertest.WithQueues(), servertest.Closed(t, &p), proxied)
	p.Add(t, "nothing", `[]`)
	routes := public.Routes()
	require.Greater(t, len(routes), 30)
	for i, r := range routes {
		h := public
		if r.Admin {
			h = public.OnAdmin()
		}
		method, path := servertest.CallOf(r)
		if strings.HasPrefix(path, "/openmatch.") || strings.HasPrefix(path, "/grpc.") {
			continue // a test of package internal/api/grpc calls these by each protocol
		}
		require.NotEqual(t, r.Open, r.Action != "", "%s %s has an action, or is open", method, path)
		if r.Open {
			require.Regexp(t, `^/(livez|readyz|healthz|probe/liveness|probe/readiness|v1/(openapi|asyncapi)\.yaml|console(/.*)?)?$`, path)
			got := h.Do(method, path, "")
			require.Equal(t, http.StatusOK, got.Status, "%s %s: %s", method, path, got.Body)
			continue
		}
		var others []string
		for _, a := range []access.Action{access.Publish, access.Subscribe, access.Describe, access.Ticket,
			access.Queue, access.Direct, access.Backfill, access.Read, access.Write, access.Metrics, access.Admin} {
			if a != r.Action && (a != access.Admin || r.Action != access.Metrics) {
				others = append(others, `"`+string(a)+`"`)
			}
		}
		p.Add(t, "others", `[{"actions":[`+strings.Join(others, ",")+`]}]`)
		p.Add(t, "enough", grantFor(r))
		if !r.Socket { // whose first frame may have it
			refused(h, r, http.StatusUnauthorized, fault.SlugNoCredential)
		}
		// an address may send few invalid credentials
		another := servertest.Header{Name: "X-Forwarded-For", Value: fmt.Sprintf("198.51.100.%d", i)}
		refused(h, r, http.StatusUnauthorized, fault.SlugInvalidCredential, servertest.Bearer("unknown"), another)
		refused(h, r, http.StatusForbidden, fault.SlugNotGranted, servertest.Bearer("nothing"))
		if r.Action != access.Any {
			refused(h, r, http.StatusForbidden, fault.SlugNotGranted, servertest.Bearer("others"))
		}
		if path == "/debug/pprof/profile" || path == "/debug/pprof/trace" {
			path += "?seconds=0.001"
		}
		request, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, http.NoBody)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer enough")
		got, err := h.Client.Do(request)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, got.StatusCode, "%s %s", method,
			path)
		require.Empty(t, got.Header.Get("WWW-Authenticate"))
	}
}

// TestSecurityPage: docs/security.md names the paths of all calls that need the actions of operators, and no others.
func TestSecurityPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	routes := servertest.Start(t, servertest.WithQueues()).Routes()
	for _, action := range []access.Action{access.Admin, access.Metrics} {
		row := regexp.MustCompile("(?m)^\\| `" + string(action) + "` \\|.*$").FindString(string(page))
		require.NotEmpty(t, row, action)
		unused := map[string]bool{}
		for _, m := range regexp.MustCompile("`(/[^`]*)`").FindAllStringSubmatch(row, -1) {
			unused[m[1]] = true
		}
		named := slices.Collect(maps.Keys(unused))
		for _, r := range routes {
			at := slices.IndexFunc(named, func(path string) bool { return r.Path == path || strings.HasPrefix(r.Path, path+"/") })
			if r.Action == action {
				require.GreaterOrEqual(t, at, 0, "%s needs %s", r.Path, action)
				delete(unused, named[at])
			}
		}
		require.Empty(t, unused, "no call needs %s", action)
	}
}

// challenges are the expected values of WWW-Authenticate.
var challenges = map[fault.Slug]string{
	fault.SlugNoCredential:      `Bearer realm="tidemark"`,
	fault.SlugInvalidCredential: `Bearer realm="tidemark", error="invalid_token", error_description="Invalid credentials"`,
	fault.SlugExpiredCredential: `Bearer realm="tidemark", error="invalid_token", error_description="Expired credentials"`,
	fault.SlugRevokedCredential: `Bearer realm="tidemark", error="invalid_token", error_description="Revoked credentials"`,
	fault.SlugNotGranted:        `Bearer realm="tidemark", error="insufficient_scope", error_description="Not granted"`,
	fault.SlugTokenInQuery:      `Bearer realm="tidemark", error="invalid_request", error_description="Token in the query"`,
}

// refused checks that a route answers only with a problem.
func refused(h *servertest.Harness, r web.Route, status int, slug fault.Slug, headers ...servertest.Header) {
	h.TB.Helper()
	method, path := servertest.CallOf(r)
	got := h.Do(method, path, `{"content":1}`, headers...)
	require.Equal(h.TB, challenges[slug], got.Header.Get("WWW-Authenticate"), "%s %s", method, path)
	switch {
	case method == http.MethodHead:
		got.Expect(status, "")
	case strings.HasPrefix(path, "/channel/"):
		got.OldError(status, wire.OldCodeRejected)
	case strings.HasPrefix(path, "/v1/frontendservice/"), strings.HasPrefix(path, "/v1/queryservice/"),
		strings.HasPrefix(path, "/v1/backendservice/"):
		require.Regexp(h.TB, `"(grpc_)?code":`, string(got.Body))
		require.Equal(h.TB, status, got.Status)
	default:
		got.Problem(status, slug)
	}
}
