package records

import (
	"context"
	"net/http"
	"time"

	clientrecords "github.com/tidemark-dev/tidemark/client/records"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/records/tokens"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Verifications issues and consumes verification tokens.
type Verifications interface {
	Issue(ctx context.Context, v tokens.Verification) (token string, ends time.Time, err error)
	TakeVerification(ctx context.Context, t tokens.Type, token, attempt string) (tokens.Verification, error)
}

// OAuth stores the states of OAuth logins, and the tokens of providers.
type OAuth interface {
	NewState(ctx context.Context, n tokens.State) (state string, ends time.Time, err error)
	TakeState(ctx context.Context, state, attempt string) (tokens.State, error)
	PutTokens(ctx context.Context, of tokens.Owner, t tokens.Tokens) (tokens.Ends, error)
	Tokens(ctx context.Context, of tokens.Owner) (tokens.Tokens, error)
	DeleteTokens(ctx context.Context, of tokens.Owner) error
}

func addVerifications(a web.API, service Verifications) {
	h := &verificationCalls{service}
	a.Add(web.Route{
		Method: http.MethodPost, Path: "/v1/users/:user/verifications", Action: access.Write,
		Of: of("verifications", 1), Handle: h.issue,
	})
	a.Add(web.Route{Method: http.MethodPost, Path: "/v1/verifications/take", Action: access.Write,
		Of: of("verifications", 0), Handle: h.take})
}

type verificationCalls struct{ service Verifications }

// issue is POST /v1/users/{user}/verifications.
func (h *verificationCalls) issue(c *web.Call) error {
	return answer(c, http.StatusCreated, func(asked wire.NewVerification) (clientrecords.IssuedVerification, error) {
		v := tokens.Verification{User: c.Param(0), Type: tokens.Type(asked.Type), Data: asked.Data}
		token, ends, err := h.service.Issue(c.Context(), v)
		return clientrecords.IssuedVerification{Token: token, ExpiresAt: ends}, err
	}, "user")
}

// take is POST /v1/verifications/take.
func (h *verificationCalls) take(c *web.Call) error {
	return answer(c, http.StatusOK, func(asked wire.VerificationTake) (clientrecords.Verification, error) {
		v, err := h.service.TakeVerification(c.Context(), tokens.Type(asked.Type), asked.Token, asked.Attempt)
		return clientrecords.Verification{UserID: v.User, Data: v.Data}, err
	})
}

func addOAuth(a web.API, service OAuth) {
	const path = "/v1/users/:user/oauth/:provider"
	h, owner, states := &oauthCalls{service}, of("oauth", 1), of("oauth-states", 0)
	a.Add(web.Route{Method: http.MethodPost, Path: "/v1/oauth-states", Action: access.Write, Of: states,
		Handle: h.newState})
	a.Add(web.Route{Method: http.MethodPost, Path: "/v1/oauth-states/take", Action: access.Write, Of: states,
		Handle: h.takeState})
	a.Add(web.Route{Method: http.MethodPut, Path: path, Action: access.Write, Of: owner, Handle: h.put})
	a.Add(web.Route{Method: http.MethodDelete, Path: path, Action: access.Write, Of: owner, Handle: h.delete})
	a.AddGet(web.Route{Path: path, Action: access.Read, Of: owner, Handle: h.get})
	a.NothingBelow(path)
}

type oauthCalls struct{ service OAuth }

// newState is POST /v1/oauth-states.
func (h *oauthCalls) newState(c *web.Call) error {
	return answer(c, http.StatusCreated, func(asked clientrecords.NewOAuthState) (clientrecords.IssuedOAuthState, error) {
		n := tokens.State{Provider: asked.Provider, RedirectURI: asked.RedirectURI, CSRFToken: asked.CSRFToken}
		state, ends, err := h.service.NewState(c.Context(), n)
		return clientrecords.IssuedOAuthState{State: state, ExpiresAt: ends}, err
	})
}

// takeState is POST /v1/oauth-states/take.
func (h *oauthCalls) takeState(c *web.Call) error {
	return answer(c, http.StatusOK, func(asked wire.OAuthStateTake) (clientrecords.OAuthState, error) {
		n, err := h.service.TakeState(c.Context(), asked.State, asked.Attempt)
		return clientrecords.OAuthState{
			NewOAuthState: clientrecords.NewOAuthState{Provider: n.Provider, RedirectURI: n.RedirectURI, CSRFToken: n.CSRFToken},
			CreatedAt:     n.Created,
		}, err
	})
}

func tokenOwner(c *web.Call) tokens.Owner {
	return tokens.Owner{User: c.Param(0), Provider: c.Param(1)}
}

// put is PUT /v1/users/{user}/oauth/{provider}.
func (h *oauthCalls) put(c *web.Call) error {
	return answer(c, http.StatusOK, func(asked clientrecords.OAuthTokens) (clientrecords.OAuthExpiry, error) {
		ends, err := h.service.PutTokens(c.Context(), tokenOwner(c), tokens.Tokens{Access: asked.AccessToken,
			Refresh: asked.RefreshToken})
		return expiry(ends), err
	}, "user", "provider")
}

func expiry(e tokens.Ends) clientrecords.OAuthExpiry {
	return clientrecords.OAuthExpiry{AccessExpiresAt: e.AccessEnds, RefreshExpiresAt: e.RefreshEnds}
}

// get is GET /v1/users/{user}/oauth/{provider}.
func (h *oauthCalls) get(c *web.Call) error {
	found, err := h.service.Tokens(c.Context(), tokenOwner(c))
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, clientrecords.StoredOAuthTokens{
		OAuthTokens: clientrecords.OAuthTokens{AccessToken: found.Access, RefreshToken: found.Refresh},
		OAuthExpiry: expiry(found.Ends),
	})
}

// delete is DELETE /v1/users/{user}/oauth/{provider}.
func (h *oauthCalls) delete(c *web.Call) error {
	return done(c, h.service.DeleteTokens(c.Context(), tokenOwner(c)))
}
