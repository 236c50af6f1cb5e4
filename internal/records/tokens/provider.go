package tokens

import (
	"context"
	"fmt"

	"github.com/tidemark-dev/tidemark/internal/records"
)

// MaxTokenBytes is the largest size of a provider's token.
const MaxTokenBytes = 8 << 10

// Tokens are the tokens that a provider issued for a user. Missing ones are empty.
type Tokens struct {
	Access, Refresh string
	Ends
}

// PutTokens keeps the tokens that aren't empty: an access token for an hour, a refresh token for 30 days. The others
// stay as they are. Errors: ErrNoKeyset, one with fault.SlugInvalidID or SlugInvalidToken, and the store's.
func (s *Service) PutTokens(ctx context.Context, of Owner, t Tokens) (Ends, error) {
	if err := s.checkOwner(of); err != nil {
		return Ends{}, err
	}
	if t.Access == "" && t.Refresh == "" {
		return Ends{}, invalid("accessToken", "a token is needed: accessToken, refreshToken or both")
	}
	var sealed Sealed
	for _, token := range []struct {
		field, text string
		kind        *records.Kind
		to          *[]byte
	}{
		{"accessToken", t.Access, records.OAuthAccessKind, &sealed.Access},
		{"refreshToken", t.Refresh, records.OAuthRefreshKind, &sealed.Refresh},
	} {
		if len(token.text) > MaxTokenBytes || !records.IsText(token.text) {
			return Ends{}, invalid(token.field, fmt.Sprintf("must be text of at most %d bytes", MaxTokenBytes))
		}
		if token.text == "" {
			continue
		}
		var err error
		if *token.to, err = s.sealer.Seal([]byte(token.text), of.Purpose(token.kind)); err != nil {
			return Ends{}, fmt.Errorf("encrypt a token: %w", err)
		}
	}
	ends, err := s.store.Put(ctx, of, sealed)
	if err != nil {
		return Ends{}, fmt.Errorf("put OAuth tokens: %w", err)
	}
	return ends, nil
}

// Tokens returns the tokens of a user. Errors: ErrNoTokens if there are none, ErrSealed if one can't be decrypted,
// ErrNoKeyset, one with fault.SlugInvalidID or SlugInvalidToken, and the store's.
func (s *Service) Tokens(ctx context.Context, of Owner) (Tokens, error) {
	if err := s.checkOwner(of); err != nil {
		return Tokens{}, err
	}
	sealed, err := s.store.Get(ctx, of)
	if err != nil {
		return Tokens{}, fmt.Errorf("get OAuth tokens: %w", err)
	}
	t := Tokens{Ends: sealed.Ends}
	if t.Access, err = s.open(sealed.Access, of.Purpose(records.OAuthAccessKind)); err != nil {
		return Tokens{}, err
	}
	if t.Refresh, err = s.open(sealed.Refresh, of.Purpose(records.OAuthRefreshKind)); err != nil {
		return Tokens{}, err
	}
	if t.Access == "" && t.Refresh == "" {
		return Tokens{}, ErrNoTokens
	}
	return t, nil
}

// DeleteTokens removes the tokens of a user. It succeeds if there are none, and needs no keyset.
func (s *Service) DeleteTokens(ctx context.Context, of Owner) error {
	if err := s.checkNames(of); err != nil {
		return err
	}
	if err := s.store.Delete(ctx, of); err != nil {
		return fmt.Errorf("delete OAuth tokens: %w", err)
	}
	return nil
}

// Purpose is the purpose for which a token of the owner is sealed: its key. So it can't be opened under another key.
func (of Owner) Purpose(k *records.Kind) []byte { return []byte(k.Key(of.User, of.Provider)) }

func (s *Service) open(sealed, purpose []byte) (string, error) {
	if len(sealed) == 0 {
		return "", nil
	}
	text, err := s.sealer.Open(sealed, purpose)
	if err != nil {
		return "", ErrSealed.WithCause(err)
	}
	return string(text), nil
}
