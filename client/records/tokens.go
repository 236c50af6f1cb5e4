package records

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// VerificationType is the purpose of a verification token.
type VerificationType string

// The types of verification tokens.
const (
	EmailVerification VerificationType = "email_verification"
	PhoneVerification VerificationType = "phone_verification"
	PasswordReset     VerificationType = "password_reset"
	EmailChange       VerificationType = "email_change"
)

// IssuedVerification is a new verification token, and when it ends.
type IssuedVerification = wire.IssuedVerification

// Verification is the data of a verification token.
type Verification = wire.Verification

// IssueVerification makes a verification token of a user, which is valid for an hour and ends the earlier one of this
// type. data is JSON that the take returns, or nil. If an answer was lost and the call was retried, only the returned
// token is valid. Errors: ErrInvalidID, ErrInvalidToken.
func (c *Client) IssueVerification(ctx context.Context, user string, t VerificationType, data json.RawMessage) (
	IssuedVerification, error) {
	var issued IssuedVerification
	_, err := c.service.Do(ctx, client.Call{
		What: "issue a verification token for " + user, Method: http.MethodPost,
		Path: []string{"users", user, "verifications"},
		Body: wire.NewVerification{Type: string(t), Data: data},
	}, &issued)
	return issued, err
}

// TakeVerification takes a verification token: of many calls, one returns its data, and the others return
// ErrNoVerification. Retries within one call count as one. Errors: ErrNoVerification, ErrInvalidToken.
func (c *Client) TakeVerification(ctx context.Context, t VerificationType, token string) (Verification, error) {
	var v Verification
	_, err := c.service.Do(ctx, client.Call{
		What: "take a verification token", Method: http.MethodPost, Path: []string{"verifications", "take"},
		Body: wire.VerificationTake{Type: string(t), Token: token, Attempt: id.New()},
	}, &v)
	return v, err
}

// NewOAuthState is the data that an OAuth login needs when the provider redirects the user back.
type NewOAuthState = wire.NewOAuthState

// IssuedOAuthState is the text to be sent to the provider, and its expiry.
type IssuedOAuthState = wire.IssuedOAuthState

// OAuthState is the data kept for a state.
type OAuthState = wire.OAuthState

// CreateOAuthState keeps the state of a login for ten minutes. Errors: ErrInvalidToken.
func (c *Client) CreateOAuthState(ctx context.Context, n NewOAuthState) (IssuedOAuthState, error) {
	var issued IssuedOAuthState
	_, err := c.service.Do(ctx, client.Call{
		What: "keep an OAuth state", Method: http.MethodPost, Path: []string{"oauth-states"}, Body: n,
	}, &issued)
	return issued, err
}

// TakeOAuthState takes a state, as TakeVerification does. Errors: ErrNoOAuthState.
func (c *Client) TakeOAuthState(ctx context.Context, state string) (OAuthState, error) {
	var found OAuthState
	_, err := c.service.Do(ctx, client.Call{
		What: "take an OAuth state", Method: http.MethodPost, Path: []string{"oauth-states", "take"},
		Body: wire.OAuthStateTake{State: state, Attempt: id.New()},
	}, &found)
	return found, err
}

// OAuthTokens are the tokens of a provider for a user.
type OAuthTokens = wire.OAuthTokens

// OAuthExpiry is the expiry of tokens. A time is zero if the token doesn't exist, or wasn't changed.
type OAuthExpiry = wire.OAuthExpiry

// StoredOAuthTokens are tokens, and when they end.
type StoredOAuthTokens = wire.StoredOAuthTokens

// PutOAuthTokens keeps the tokens that aren't empty, encrypted: an access token for an hour, a refresh token for 30
// days. Errors: ErrNoKeyset, ErrInvalidID, ErrInvalidToken.
func (c *Client) PutOAuthTokens(ctx context.Context, user, provider string, t OAuthTokens) (OAuthExpiry, error) {
	var ends OAuthExpiry
	_, err := c.service.Do(ctx, oauthCall("put", http.MethodPut, user, provider, t), &ends)
	return ends, err
}

// OAuthTokens returns the tokens of a user. Errors: ErrNoOAuthTokens, ErrNoKeyset, ErrUnreadable, ErrInvalidID,
// ErrInvalidToken.
func (c *Client) OAuthTokens(ctx context.Context, user, provider string) (StoredOAuthTokens, error) {
	var found StoredOAuthTokens
	_, err := c.service.Do(ctx, oauthCall("get", http.MethodGet, user, provider, nil), &found)
	return found, err
}

// DeleteOAuthTokens removes the tokens of a user. It succeeds if there are none. Errors: ErrInvalidID, ErrInvalidToken.
func (c *Client) DeleteOAuthTokens(ctx context.Context, user, provider string) error {
	_, err := c.service.Do(ctx, oauthCall("delete", http.MethodDelete, user, provider, nil), nil)
	return err
}

func oauthCall(what, method, user, provider string, body any) client.Call {
	return client.Call{
		What: what + " the OAuth tokens of " + user, Method: method, Path: []string{"users", user, "oauth", provider},
		Body: body,
	}
}
