package records

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/id"
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
type IssuedVerification struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// Verification is the data of a verification token.
type Verification struct {
	UserID string          `json:"userId"`
	Data   json.RawMessage `json:"data,omitempty"`
}

type verificationRequest struct {
	Type VerificationType `json:"type"`
	Data json.RawMessage  `json:"data,omitempty"`
}

// IssueVerification makes a verification token of a user, which is valid for an hour and ends the earlier one of this
// type. data is JSON that the take returns, or nil. If an answer was lost and the call was retried, only the returned
// token is valid. Errors: ErrInvalidID, ErrInvalidToken.
func (c *Client) IssueVerification(ctx context.Context, user string, t VerificationType, data json.RawMessage) (
	IssuedVerification, error) {
	var issued IssuedVerification
	_, err := c.service.Do(ctx, client.Call{
		What: "issue a verification token for " + user, Method: http.MethodPost,
		Path: []string{"users", user, "verifications"},
		Body: verificationRequest{Type: t, Data: data},
	}, &issued)
	return issued, err
}

// TakeVerification takes a verification token: of many calls, one returns its data, and the others return
// ErrNoVerification. Retries within one call count as one. Errors: ErrNoVerification, ErrInvalidToken.
func (c *Client) TakeVerification(ctx context.Context, t VerificationType, token string) (Verification, error) {
	var v Verification
	_, err := c.service.Do(ctx, client.Call{
		What: "take a verification token", Method: http.MethodPost, Path: []string{"verifications", "take"},
		Body: map[string]string{"type": string(t), "token": token, "attempt": id.New()},
	}, &v)
	return v, err
}

// NewOAuthState is the data that an OAuth login needs when the provider redirects the user back.
type NewOAuthState struct {
	Provider    string `json:"provider"`
	RedirectURI string `json:"redirectUri,omitempty"`
	CSRFToken   string `json:"csrfToken,omitempty"`
}

// IssuedOAuthState is the text to be sent to the provider, and its expiry.
type IssuedOAuthState struct {
	State     string    `json:"state"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// OAuthState is the data kept for a state.
type OAuthState struct {
	NewOAuthState
	CreatedAt time.Time `json:"createdAt"`
}

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
		Body: map[string]string{"state": state, "attempt": id.New()},
	}, &found)
	return found, err
}

// OAuthTokens are the tokens of a provider for a user.
type OAuthTokens struct {
	AccessToken  string `json:"accessToken,omitempty"`
	RefreshToken string `json:"refreshToken,omitempty"`
}

// OAuthExpiry is the expiry of tokens. A time is zero if the token doesn't exist, or wasn't changed.
type OAuthExpiry struct {
	AccessExpiresAt  time.Time `json:"accessExpiresAt,omitzero"`
	RefreshExpiresAt time.Time `json:"refreshExpiresAt,omitzero"`
}

// StoredOAuthTokens are tokens, and when they end.
type StoredOAuthTokens struct {
	OAuthTokens
	OAuthExpiry
}

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
