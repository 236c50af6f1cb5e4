package wire

import (
	"encoding/json"
)

// NewVerification asks for a verification token.
type NewVerification struct {
	Type string          `json:"type"` // email_verification, phone_verification, password_reset or email_change
	Data json.RawMessage `json:"data,omitempty"`
}

// VerificationTake takes a verification token.
type VerificationTake struct {
	Type    string `json:"type"`
	Token   string `json:"token"`
	Attempt string `json:"attempt,omitempty"` // names the take, so that it can be repeated; "": it can't
}

// OAuthStateTake takes a state.
type OAuthStateTake struct {
	State   string `json:"state"`
	Attempt string `json:"attempt,omitempty"` // names the take, so that it can be repeated; "": it can't
}
