package tokens

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"time"

	"github.com/tidemark-dev/tidemark/internal/records"
)

// The bounds of a state's parts, in bytes.
const (
	MaxURLBytes  = 2048
	MaxCSRFBytes = 512
)

// State is the data that an OAuth login needs when the provider redirects the user back.
type State struct {
	Provider    string
	RedirectURI string    // redirect target of the user; "": none
	CSRFToken   string    // CSRF token, also in the user's browser; "": none
	Created     time.Time // Redis's time, in seconds
}

// NewState stores a state for ten minutes, and returns the random text to send to the provider. Errors: one with
// fault.SlugInvalidToken, and the store's.
func (s *Service) NewState(ctx context.Context, n State) (state string, ends time.Time, err error) {
	if err := s.checkProvider(n.Provider); err != nil {
		return "", time.Time{}, err
	}
	if _, err := url.Parse(n.RedirectURI); err != nil || len(n.RedirectURI) > MaxURLBytes {
		return "", time.Time{}, invalid("redirectUri", fmt.Sprintf("must be a URL of at most %d bytes", MaxURLBytes))
	}
	if len(n.CSRFToken) > MaxCSRFBytes || !records.IsText(n.CSRFToken) {
		return "", time.Time{}, invalid("csrfToken", fmt.Sprintf("must be text of at most %d bytes", MaxCSRFBytes))
	}
	state = records.NewSecret()
	if ends, err = s.store.KeepState(ctx, hash(state), n); err != nil {
		return "", time.Time{}, fmt.Errorf("keep an OAuth state: %w", err)
	}
	return state, ends, nil
}

// TakeState returns a state, and ends it. attempt names the take: see the package comment. Errors: ErrNoState, one with
// fault.SlugInvalidToken, and the store's.
func (s *Service) TakeState(ctx context.Context, state, attempt string) (State, error) {
	attempt, err := attemptOf(attempt)
	if err != nil {
		return State{}, err
	}
	if len(state) != base64.RawURLEncoding.EncodedLen(records.SecretBytes) {
		return State{}, ErrNoState
	}
	found, err := s.store.TakeState(ctx, hash(state), attempt)
	if err != nil {
		return State{}, fmt.Errorf("take an OAuth state: %w", err)
	}
	return found, nil
}
