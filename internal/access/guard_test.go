package access_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/access"
)

// credentials is an access.Authenticator: it maps credentials with its prefix to principals.
type credentials struct {
	prefix     string
	principals map[string]*access.Principal
	err        error
}

func (c credentials) Accepts(credential string) bool { return strings.HasPrefix(credential, c.prefix) }

func (c credentials) Authenticate(_ context.Context, credential string) (*access.Principal, error) {
	if p := c.principals[credential]; p != nil {
		return p, nil
	}
	return nil, c.err
}

// revocations is an access.Revocations.
type revocations struct {
	mu      sync.Mutex
	revoked map[string]bool // by the credential's name
	changed func()
}

func (r *revocations) Revoked(p *access.Principal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.revoked[p.Credential]
}

func (r *revocations) Notify(changed func()) func() {
	r.changed = changed
	return func() {}
}

func (r *revocations) revoke(credential string) {
	r.mu.Lock()
	r.revoked[credential] = true
	r.mu.Unlock()
	r.changed()
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	unreachable := errors.New("unreachable")
	users := map[string]*access.Principal{
		"a-ann":       {Kind: access.User, Subject: "ann", Credential: "1", Expires: time.Now().Add(time.Hour)},
		"a-old":       {Kind: access.User, Subject: "old", Expires: time.Now().Add(-time.Second)},
		"a-revoked":   {Kind: access.User, Subject: "bob", Credential: "2"},
		"a-anonymous": {Kind: access.User, Subject: "anonymous"},
		"a-long":      {Kind: access.User, Subject: strings.Repeat("x", access.MaxSubjectBytes+1)},
		"a-bell":      {Kind: access.User, Subject: "ann\u0007"},
		"a-bellID":    {Kind: access.User, Subject: "ann", Credential: "7\u0000"},
		"a-bytes":     {Kind: access.User, Subject: "ann\xff"},
		"a-longID":    {Kind: access.User, Credential: strings.Repeat("x", access.MaxSubjectBytes+1)},

		"a-" + strings.Repeat("x", access.MaxCredentialBytes-2): {Kind: access.User, Subject: "most"},
		"a-" + strings.Repeat("x", access.MaxCredentialBytes-1): {Kind: access.User, Subject: "more"},
	}
	g := newGuard(t, access.Options{
		Authenticators: []access.Authenticator{
			credentials{prefix: "a-", principals: users, err: access.ErrInvalidCredential},
			credentials{prefix: "a-", principals: map[string]*access.Principal{"a-second": {}}},
			credentials{prefix: "b-", err: unreachable},
		},
		Revoked: &revocations{revoked: map[string]bool{"2": true}},
	})
	tests := []struct {
		credential string
		name       string
		err        error
	}{
		{"", "anonymous", nil},
		{"a-ann", "user:ann", nil},
		{"a-old", "", access.ErrExpired},
		{"a-revoked", "", access.ErrRevoked},
		{"a-anonymous", "", access.ErrInvalidCredential},
		{"a-long", "", access.ErrInvalidCredential},
		{"a-longID", "", access.ErrInvalidCredential},
		{"a-bell", "", access.ErrInvalidCredential},
		{"a-bellID", "", access.ErrInvalidCredential},
		{"a-bytes", "", access.ErrInvalidCredential},
		{"a-second", "", access.ErrInvalidCredential},
		{"a-unknown", "", access.ErrInvalidCredential},
		{"b-x", "", unreachable},
		{"c-x", "", access.ErrInvalidCredential},
		{"\t", "", access.ErrInvalidCredential},
		{"a-" + strings.Repeat("x", access.MaxCredentialBytes-2), "user:most", nil},
		{"a-" + strings.Repeat("x", access.MaxCredentialBytes-1), "", access.ErrInvalidCredential},
	}
	for _, tt := range tests {
		p, err := g.Authenticate(t.Context(), tt.credential)
		require.ErrorIs(t, err, tt.err, "%.20s", tt.credential)
		if tt.err != nil {
			require.Nil(t, p)
			require.NotContains(t, err.Error(), tt.credential)
			continue
		}
		require.Equal(t, tt.name, p.Name())
		require.Equal(t, p, access.From(access.With(t.Context(), p)))
	}
	require.Nil(t, access.From(t.Context()))
}

// TestHold: a wait ends with its credential, at once, and only then.
func TestHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		revoked := &revocations{revoked: map[string]bool{"gone": true}}
		g := newGuard(t, access.Options{Revoked: access.AllRevocations{&revocations{}, revoked}})
		hold := func(credential string, life time.Duration) context.Context {
			p := &access.Principal{Kind: access.User, Credential: credential}
			if life > 0 {
				p.Expires = time.Now().Add(life)
			}
			held, stop := g.Hold(t.Context(), p)
			t.Cleanup(stop)
			return held
		}
		brief, long, forever := hold("a", time.Second), hold("b", time.Hour), hold("c", 0)
		require.ErrorIs(t, context.Cause(hold("gone", 0)), access.ErrRevoked, "revoked between authentication and wait")
		require.NoError(t, brief.Err())

		began := time.Now()
		<-brief.Done()
		require.ErrorIs(t, context.Cause(brief), access.ErrExpired)
		require.Equal(t, time.Second, time.Since(began))

		revoked.revoke("b")
		require.ErrorIs(t, context.Cause(long), access.ErrRevoked)
		require.NoError(t, forever.Err())

		held, stop := g.Hold(t.Context(), &access.Principal{Kind: access.APIKey, Credential: "d"})
		stop()
		require.ErrorIs(t, context.Cause(held), context.Canceled)
		revoked.revoke("d")
		require.ErrorIs(t, context.Cause(held), context.Canceled)
	})
}

// lasting is an origin whose expiry can change.
type lasting struct {
	ends  atomic.Pointer[time.Time]
	waits int
}

func (l *lasting) Ends() time.Time { return *l.ends.Load() }

func (l *lasting) Held(waits int) { l.waits += waits }

// TestHoldIsRenewed: if a credential is renewed while a request waits, the wait continues until the new expiry.
func TestHoldIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, began := newGuard(t, access.Options{}), time.Now()
		first, last, origin := began.Add(time.Minute), began.Add(time.Hour), &lasting{}
		origin.ends.Store(&first)
		p := &access.Principal{Kind: access.Session, Subject: "ann", Origin: origin, Expires: began.Add(time.Second)}
		held, stop := g.Hold(t.Context(), p)
		require.Equal(t, 1, origin.waits)
		<-time.After(30 * time.Second)
		require.NoError(t, g.Valid(p))
		origin.ends.Store(&last)
		<-held.Done()
		require.ErrorIs(t, context.Cause(held), access.ErrExpired)
		require.Equal(t, time.Hour, time.Since(began))
		require.ErrorIs(t, g.Valid(p), access.ErrExpired)
		stop()
		require.Zero(t, origin.waits)
	})
}

// TestHoldOfAdministrator: what nothing can end costs nothing.
func TestHoldOfAdministrator(t *testing.T) {
	t.Parallel()
	held, stop := newGuard(t, access.Options{Revoked: &revocations{}}).Hold(t.Context(), access.Local())
	require.Equal(t, t.Context(), held)
	stop()
}

// TestHoldOfRules: a wait ends when the rules change and no longer allow what only they allowed, and otherwise not.
func TestHoldOfRules(t *testing.T) {
	t.Parallel()
	open := access.ChannelRule{Pattern: "open", Readers: []string{"anonymous"}, Writers: []string{"ann"}}
	ann := user(t, "ann", `[{"actions":["subscribe"],"channels":["hers"]},{"actions":["ticket"]}]`)
	shop := &access.Principal{Kind: access.APIKey, Credential: "shop",
		Grants: access.Grants{{Actions: []access.Action{access.Ticket}}}}
	read := func(channel, subscriber string) access.Resource {
		return access.Resource{Channel: channel, Subscriber: subscriber}
	}
	nobody, tail := access.Anonymous(), access.Resource{Channel: "open", Tail: true}
	type rules = []access.ChannelRule
	without := rules{{Pattern: "other"}, {Pattern: "hers"}}
	onlyAnn := rules{{Pattern: "open", Readers: []string{"ann"}}}
	tests := map[string]struct {
		principal *access.Principal
		action    access.Action
		resource  access.Resource
		after     rules
		want      error // nil: it goes on
	}{
		"anonymous":          {nobody, access.Subscribe, read("open", "anonymous:1"), without, access.ErrNoCredential},
		"a tail":             {nobody, access.Subscribe, tail, without, access.ErrNoCredential},
		"a user":             {ann, access.Subscribe, read("open", "ann"), without, access.ErrNotGranted},
		"a writer":           {ann, access.Publish, read("open", ""), without, access.ErrNotGranted},
		"an API key":         {shop, access.Subscribe, read("open", "x"), without, access.ErrNotGranted},
		"an earlier rule":    {ann, access.Describe, read("open", ""), rules{{Pattern: "o.*"}, open}, access.ErrNotGranted},
		"other readers":      {ann, access.Subscribe, read("open", "ann"), onlyAnn, nil},
		"the same":           {nobody, access.Subscribe, tail, rules{{Pattern: "other"}, open}, nil},
		"a grant":            {ann, access.Subscribe, read("hers", "ann"), without, nil},
		"a ticket":           {ann, access.Subscribe, read("ticket.hers", "player"), without, nil},
		"a ticket of a shop": {shop, access.Subscribe, read("ticket.hers", "player"), without, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compiled, err := access.CompileRules(tt.after)
			require.NoError(t, err)
			before := rules{open, {Pattern: "ticket[.].*|hers", Readers: []string{"*"}}}
			guard := func() *access.Guard {
				return newGuard(t, access.Options{Rules: before, Tickets: ticketsOf(owners{"hers": "ann"})})
			}
			g, changes := guard(), 0
			g.OnRules(func() { changes++ })
			held, stop := g.Hold(t.Context(), tt.principal)
			require.NoError(t, g.Check(held, tt.principal, tt.action, tt.resource))
			require.NoError(t, held.Err())
			g.SetRules(compiled)
			require.Equal(t, 1, changes)
			if tt.want == nil {
				require.NoError(t, held.Err())
				require.NoError(t, g.Recheck(tt.principal, tt.action, tt.resource))
			} else {
				require.ErrorIs(t, context.Cause(held), tt.want)
				require.ErrorIs(t, g.Recheck(tt.principal, tt.action, tt.resource), tt.want)
			}
			stop()

			g = guard() // a wait that has ended isn't known any more
			held, stop = g.Hold(t.Context(), tt.principal)
			require.NoError(t, g.Check(held, tt.principal, tt.action, tt.resource))
			stop()
			require.NoError(t, g.Check(held, tt.principal, tt.action, tt.resource))
			g.SetRules(compiled)
			require.ErrorIs(t, context.Cause(held), context.Canceled)
		})
	}
}

// TestHoldWhileRulesChange: a check in progress while the rules change allows nothing that they don't allow.
func TestHoldWhileRulesChange(t *testing.T) {
	t.Parallel()
	for range 200 {
		g := newGuard(t, access.Options{Rules: []access.ChannelRule{{Pattern: "open", Readers: []string{"anonymous"}}}})
		held, stop := g.Hold(t.Context(), access.Anonymous())
		var changing sync.WaitGroup
		changing.Go(func() { g.SetRules(nil) })
		err := g.Check(held, access.Anonymous(), access.Subscribe, access.Resource{Channel: "open", Tail: true})
		changing.Wait()
		require.True(t, err != nil || held.Err() != nil)
		stop()
	}
}

// TestNoAllocation: a check of grants and rules without captures allocates nothing.
func TestNoAllocation(t *testing.T) { //nolint:paralleltest // testing.AllocsPerRun counts those of all goroutines
	g := newGuard(t, access.Options{Rules: []access.ChannelRule{{Pattern: "all[.].*", Readers: []string{"*"}}},
		Tickets: ticketsOf(owners{"hers": "ann"})})
	ann := user(t, "ann",
		`[{"actions":["publish"],"channels":["chat.*","inbox.{sub}"]},{"actions":["subscribe","ticket"],"channels":["x*y"]}]`)
	for _, o := range []on{
		{access.Publish, "chat.lobby", ""}, {access.Publish, "inbox.ann", ""}, {access.Subscribe, "x.y", "ann:phone"},
		{access.Subscribe, "all.x", "ann"}, {access.Subscribe, "ticket.hers", "player"},
	} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if err := g.Check(t.Context(), ann, o.action,
				access.Resource{Channel: o.channel, Subscriber: o.subscriber}); err != nil {
				t.Error(err)
			}
		}), o)
	}
}

func BenchmarkCheck(b *testing.B) {
	g := newGuard(b, access.Options{})
	ann := user(b, "ann",
		`[{"actions":["publish"],"channels":["chat.*"]},{"actions":["subscribe"],"channels":["inbox.{sub}"]}]`)
	for b.Loop() {
		if err := g.Check(b.Context(), ann, access.Subscribe,
			access.Resource{Channel: "inbox.ann", Subscriber: "ann"}); err != nil {
			b.Fatal(err)
		}
	}
}
