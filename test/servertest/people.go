package servertest

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/records/followers"
)

// People are the principals of a closed service, by their credentials, and what was revoked.
type People struct {
	Known  map[string]*access.Principal
	Unseen atomic.Bool // all credentials are slow to check

	Mu      sync.Mutex
	Ended   map[string]bool // by the ID of the credential
	changed []func()
}

// Accepts implements access.Authenticator.
func (p *People) Accepts(string) bool { return true }

// Authenticate implements access.Authenticator.
func (p *People) Authenticate(_ context.Context, credential string) (*access.Principal, error) {
	if who := p.Known[credential]; who != nil {
		return who, nil
	}
	return nil, access.ErrInvalidCredential
}

// Knows implements access.Costly.
func (p *People) Knows(string) bool { return !p.Unseen.Load() }

// Revoked implements access.Revocations.
func (p *People) Revoked(who *access.Principal) bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return p.Ended[who.Credential]
}

// Notify implements access.Revocations.
func (p *People) Notify(changed func()) (stop func()) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.changed = append(p.changed, changed)
	return func() {}
}

// Revoke revokes a credential.
func (p *People) Revoke(credential string) {
	p.Mu.Lock()
	p.Ended[credential] = true
	changed := p.changed
	p.Mu.Unlock()
	for _, tell := range changed {
		tell()
	}
}

// Add adds an API key with grants in JSON.
func (p *People) Add(t testing.TB, credential, grants string) {
	t.Helper()
	parsed, err := access.ParseGrants([]byte(grants))
	require.NoError(t, err)
	p.Known[credential] = &access.Principal{Kind: access.APIKey, Credential: credential, Grants: parsed}
}

// Closed makes the service closed, to all but p.
func Closed(t testing.TB, p *People, rules ...access.ChannelRule) func(*Setup) {
	t.Helper()
	p.Known, p.Ended = map[string]*access.Principal{}, map[string]bool{}
	guard, err := access.New(access.Options{Authenticators: []access.Authenticator{p}, Rules: rules,
		Shared: followers.Shared, Revoked: p})
	require.NoError(t, err)
	return func(s *Setup) { s.Guard = guard }
}

// Bearer returns the header for a credential.
func Bearer(token string) Header { return Header{"Authorization", "Bearer " + token} }

// As adds an Authorization header to requests without one.
func (h *Harness) As(token string) { h.Client.Transport = sender{h.Client.Transport, token} }

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

// CallOf returns a request to a route.
func CallOf(r web.Route) (method, path string) {
	return r.Method, strings.NewReplacer(
		"stream/*", "stream/c", ":channel", "c", ":subscriber", "s", ":ticket_id", "i", ":id", "i", ":queue", "q", ":kind", "author", `\:`, ":",
		":profile", "heap", "pprof/profile", "pprof/profile?seconds=0", "pprof/trace", "pprof/trace?seconds=0",
	).Replace(r.Path)
}

// OwnersOf are the owners of the tickets of a harness, which is made after its guard.
type OwnersOf struct{ *Harness }

// Owner implements access.Owners.
func (o *OwnersOf) Owner(ctx context.Context, id string) (string, time.Time, error) {
	return o.Matches.Owner(ctx, id)
}

// Forbids checks that a credential is refused by each call.
func (h *Harness) Forbids(credential string, calls ...string) {
	h.TB.Helper()
	for _, call := range calls {
		method, path, body := Cut(call)
		require.Equal(h.TB, 403, h.Do(method, path, body, Bearer(credential)).Status, "%s: %s", credential, call)
	}
}

// Serves checks that each call succeeds.
func (h *Harness) Serves(credential string, calls ...string) {
	h.TB.Helper()
	for _, call := range calls {
		method, path, body := Cut(call)
		got := h.Do(method, path, body, Bearer(credential))
		require.Contains(h.TB, []int{200, 204}, got.Status, "%s: %s: %s", credential, call, got.Body)
	}
}

// CreatedBy creates a ticket with a credential.
func (h *Harness) CreatedBy(credential, body string) client.CreatedTicket {
	h.TB.Helper()
	got := h.Do("POST", "/v1/tickets", body, Bearer(credential))
	require.Equal(h.TB, 201, got.Status, "%s", got.Body)
	return Decode[client.CreatedTicket](got)
}
