package wire

import (
	"encoding/json"
	"time"
)

// NewVerification asks for a verification token.
type NewVerification struct {
	Type string          `json:"type"` // email_verification, phone_verification, password_reset or email_change
	Data json.RawMessage `json:"data,omitempty"`
}

// IssuedVerification is a verification token. It is in no other answer.
type IssuedVerification struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// VerificationTake takes a verification token.
type VerificationTake struct {
	Type    string `json:"type"`
	Token   string `json:"token"`
	Attempt string `json:"attempt,omitempty"` // names the take, so that it can be repeated; "": it can't
}

// Verification is the data of a verification token.
type Verification struct {
	UserID string          `json:"userId"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// NewOAuthState asks for the state of an OAuth login.
type NewOAuthState struct {
	Provider    string `json:"provider"`
	RedirectURI string `json:"redirectUri,omitempty"`
	CSRFToken   string `json:"csrfToken,omitempty"`
}

// IssuedOAuthState is the state that a provider is sent. It is in no other answer.
type IssuedOAuthState struct {
	State     string    `json:"state"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// OAuthStateTake takes a state.
type OAuthStateTake struct {
	State   string `json:"state"`
	Attempt string `json:"attempt,omitempty"` // names the take, so that it can be repeated; "": it can't
}

// OAuthState is the data that was kept for a state.
type OAuthState struct {
	NewOAuthState
	CreatedAt time.Time `json:"createdAt"`
}

// OAuthTokens are the tokens of a provider for a user. What is left out doesn't exist, or stays as it is.
type OAuthTokens struct {
	AccessToken  string `json:"accessToken,omitempty"`
	RefreshToken string `json:"refreshToken,omitempty"`
}

// OAuthExpiry says when tokens end. What is left out doesn't exist, or wasn't changed.
type OAuthExpiry struct {
	AccessExpiresAt  time.Time `json:"accessExpiresAt,omitzero"`
	RefreshExpiresAt time.Time `json:"refreshExpiresAt,omitzero"`
}

// StoredOAuthTokens are tokens, and when they end.
type StoredOAuthTokens struct {
	OAuthTokens
	OAuthExpiry
}
