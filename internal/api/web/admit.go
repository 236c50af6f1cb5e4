package web

import (
	"cmp"
	"context"
	"errors"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
)

// gate authenticates clients and checks their limits.
type gate struct {
	guard    *access.Guard // nil: the service is open
	failures *access.FailureLimiter
	limiter  *limits.Limiter // nil: no limits
	proxies  *proxies        // nil: there are none
}

// Guard returns the guard, or nil if the service is open.
func (g *gate) Guard() *access.Guard { return g.guard }

// Authenticate returns the principal of a credential that came from a network address. Errors: those of the guard, and
// fault.SlugRateLimited if too many invalid ones came from there. Others may share the address, behind a proxy as a
// rule: a valid credential is then still accepted, unless it is a token that was never seen.
func (g *gate) Authenticate(ctx context.Context, credential, address string) (*access.Principal, error) {
	if credential == "" {
		return g.guard.Authenticate(ctx, "")
	}
	tooMany := g.failures.Check(address)
	if tooMany != nil && !g.guard.IsCheap(credential) {
		return nil, tooMany
	}
	p, err := g.guard.Authenticate(ctx, credential)
	if g.isGuess(credential, err) {
		g.failures.Add(address)
		err = cmp.Or(tooMany, err)
	}
	return p, err
}

// isGuess reports whether the error of a credential counts as a guess. An expired token does unless it was seen before,
// because it is verified each time that it is sent. A token of an unknown key does, because it may be invented.
func (g *gate) isGuess(credential string, err error) bool {
	return errors.Is(err, access.ErrInvalidCredential) || errors.Is(err, access.ErrKeysUnavailable) ||
		errors.Is(err, access.ErrExpired) && !g.guard.IsCheap(credential)
}

// Client returns the address of the client of a request that came from the address remote, and has the headers
// X-Forwarded-For.
func (g *gate) Client(remote string, forwarded []string) string {
	return g.proxies.client(remote, forwarded)
}

// Limited reports whether clients may have limits.
func (g *gate) Limited() bool {
	return g.limiter != nil && (g.guard != nil || g.limiter.Limits().Addresses != (access.Limits{}))
}

// Renew returns the client of a principal and an address after a change of the limits.
func (g *gate) Renew(p *access.Principal, address string) limits.Client {
	return g.limiter.Client(p, address)
}

// Limits returns the limits in use: another pointer after a change.
func (g *gate) Limits() *limits.Limits { return g.limiter.Limits() }

// Limit counts a request of a principal, nil on an open service, from an address. It returns the request's context with
// the client, for other limits. Errors: those of limits.Client.Request.
func (g *gate) Limit(ctx context.Context, p *access.Principal, address string) (context.Context, error) {
	client, err := g.Count(ctx, p, address)
	return limits.With(ctx, client), err
}

// Count is Limit, but returns the client.
func (g *gate) Count(ctx context.Context, p *access.Principal, address string) (limits.Client, error) {
	client := g.limiter.Client(p, address)
	return client, client.Request(ctx)
}

// admit authenticates the client, and checks its limits and that it may do the route's action.
func (c *Call) admit() error {
	credential, err := c.credential()
	gate := &c.route.router.gate
	switch {
	case c.route.Open && c.route.always: // a probe
		return nil
	case c.route.Open:
		return c.checkRead()
	}
	if gate.guard == nil {
		if c.ctx, err = gate.Limit(c.ctx, nil, c.request.RemoteAddr); err != nil {
			return err
		}
		return c.checkRead()
	}
	if err != nil {
		return err
	}
	p := c.principal // of the connection: the user of the administrator's socket
	if p == nil {
		if p, err = gate.Authenticate(c.ctx, credential, c.request.RemoteAddr); err != nil {
			return err
		}
		c.principal, c.ctx = p, access.With(c.ctx, p)
	}
	if c.ctx, err = gate.Limit(c.ctx, p, c.request.RemoteAddr); err != nil {
		return err
	}
	if err := c.checkRead(); err != nil {
		return err
	}
	if c.route.Waits { // before the check, so that a later change of the rules ends the wait
		c.hold(p)
	}
	switch {
	case c.route.Socket && p.Kind == access.Nobody:
		return nil
	case c.route.InBody, c.route.Socket:
		return gate.guard.CheckSome(p, c.route.Action)
	}
	var of access.Resource
	if c.route.Of != nil {
		of = c.route.Of(c)
	}
	return gate.guard.Check(c.ctx, p, c.route.Action, of)
}

// checkRead is checkUnread for routes that read. The others are checked when they have a large body.
func (c *Call) checkRead() error {
	if !c.route.refusable() {
		return nil
	}
	return c.checkUnread()
}

// checkUnread refuses a request whose answer may be large while the client leaves many answers unread.
func (c *Call) checkUnread() error {
	if c.route.Admin {
		return nil
	}
	return c.route.router.answers.Check(c.client)
}

// credential returns the client's credential, or "" if it sends none, and removes it from the query, so that no other
// code reads, shows or logs it.
func (c *Call) credential() (string, error) {
	header := c.request.Header[authorizationHeader]
	token, times := takeToken(c.request)
	switch {
	case times == 0:
		return BearerToken(header)
	case times > 1 || len(header) > 0:
		return "", errTwice
	}
	c.inQuery = true
	if !c.mayBeInQuery() {
		return "", ErrInQuery
	}
	return token, wellFormed(token)
}

// mayBeInQuery reports whether rules of all channels of the request allow the credential there.
func (c *Call) mayBeInQuery() bool {
	allowed := c.route.router.guard.QueryToken
	switch {
	case c.route.Socket:
		return true
	case c.route.Of != nil:
		return allowed(c.route.Of(c).Channel)
	case c.route.Named != nil:
		return c.route.Named(c, allowed)
	}
	return false
}

// LimitsOf returns the limits of a principal, in words; empty: it has none.
func (c *Call) LimitsOf(p *access.Principal) string { return c.route.router.limiter.LimitsOf(p) }

// InQuery reports whether the client's credential was in the query.
func (c *Call) InQuery() bool { return c.inQuery }

// Principal returns the client, or nil if the service is open.
func (c *Call) Principal() *access.Principal { return c.principal }

// Allow returns an error if the client may not do an action. It is for resources in the body, which a route's Of can't
// know.
func (c *Call) Allow(a access.Action, r access.Resource) error {
	return c.route.router.guard.Check(c.ctx, c.principal, a, r)
}

// hold gives the call a context that ends with the client's credential, or with what the rules allow it.
func (c *Call) hold(p *access.Principal) {
	request := c.ctx
	held, stop := c.route.router.guard.Hold(request, p)
	c.ctx = held
	c.release = func() {
		stop()
		c.ctx, c.release = request, nil
	}
}

// endHold ends hold, if it was called.
func (c *Call) endHold() {
	if c.release != nil {
		c.release()
	}
}

// handle checks the call and calls the route's handler.
func (c *Call) handle() error {
	defer func() {
		if c.conn == nil { // else EndDetached ends it
			c.endHold()
		}
	}()
	if err := c.check(); err != nil {
		return err
	}
	err := c.route.Handle(c)
	if err == nil { // a detached call is another goroutine's
		return nil
	}
	if lapsed := c.lapsed(); lapsed != nil {
		return lapsed
	}
	return err
}

// lapsed returns why the client may not wait any more, or nil if it may.
func (c *Call) lapsed() error { return Lapsed(c.ctx) }

// Lapsed returns why the context of a call that waits has ended, if the client's credential has ended (of the kind
// fault.Unauthenticated), or the client may not do any more what it was allowed (fault.Forbidden; without a credential
// access.ErrNoCredential). Otherwise it returns nil.
func Lapsed(ctx context.Context) error {
	var e *fault.Error
	if errors.As(context.Cause(ctx), &e) && (e.Kind == fault.Unauthenticated || e.Kind == fault.Forbidden) {
		return e
	}
	return nil
}

// Withdrawn reports whether the call's context has ended because a change of the rules took from the client something
// that Allow had allowed. The call then has a context that hasn't ended, so that the handler can check again and
// answer.
func (c *Call) Withdrawn() bool {
	lapsed := c.lapsed()
	if !errors.Is(lapsed, access.ErrNotGranted) && !errors.Is(lapsed, access.ErrNoCredential) {
		return false
	}
	c.endHold()
	return true
}

// challenge sets the header that describes the error of the client's credential, as in RFC 6750.
func (c *Call) challenge(err error) {
	var e *fault.Error
	if !errors.As(err, &e) {
		return
	}
	code := ""
	switch {
	case e.Slug == fault.SlugNoCredential:
	case e.Slug == fault.SlugNotGranted:
		code = "insufficient_scope"
	case e.Slug == fault.SlugTokenInQuery:
		code = "invalid_request"
	case e.Kind == fault.Unauthenticated:
		code = "invalid_token"
	default:
		return
	}
	value := bearerScheme + ` realm="tidemark"`
	if code != "" {
		value += `, error="` + code + `", error_description="` + e.Slug.Title() + `"`
	}
	c.response.Header()[headerChallenge] = []string{value}
}
