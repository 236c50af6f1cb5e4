package tokens

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/records"
)

// Type is the purpose of a verification token.
type Type string

// The types.
const (
	EmailVerification Type = "email_verification"
	PhoneVerification Type = "phone_verification"
	PasswordReset     Type = "password_reset"
	EmailChange       Type = "email_change"
)

// Types are all types of verification tokens.
var Types = []Type{EmailVerification, PhoneVerification, PasswordReset, EmailChange}

// MaxDataBytes is the largest size of a verification's data, as JSON.
const MaxDataBytes = 4 << 10

const verificationTokens records.TokenPrefix = "tmv_"

// Verification is the data of a verification token.
type Verification struct {
	User    string
	Type    Type
	Data    json.RawMessage // of the caller: any JSON; nil: none
	Created time.Time       // Redis's time, in seconds
}

// Issue makes a verification token, which is valid for an hour and ends the earlier one of the same user and type. Only
// its hash is kept. Errors: one with fault.SlugInvalidID or SlugInvalidToken, and the store's.
func (s *Service) Issue(ctx context.Context, v Verification) (token string, ends time.Time, err error) {
	if err := records.CheckID("user", v.User); err != nil {
		return "", time.Time{}, err
	}
	if err := checkType(v.Type); err != nil {
		return "", time.Time{}, err
	}
	if len(v.Data) > MaxDataBytes || len(v.Data) > 0 && !json.Valid(v.Data) {
		return "", time.Time{}, invalid("data", fmt.Sprintf("must be JSON of at most %d bytes", MaxDataBytes))
	}
	token = verificationTokens.New(v.User)
	ends, err = s.store.Issue(ctx, hash(token), v)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("issue a verification token: %w", err)
	}
	return token, ends, nil
}

// TakeVerification returns the data of a token, and ends it. attempt names the take: see the package comment. A token
// of another type isn't taken. Errors: ErrNoVerification, one with fault.SlugInvalidToken, and the store's.
func (s *Service) TakeVerification(ctx context.Context, t Type, token, attempt string) (Verification, error) {
	if err := checkType(t); err != nil {
		return Verification{}, err
	}
	attempt, err := attemptOf(attempt)
	if err != nil {
		return Verification{}, err
	}
	user, ok := verificationTokens.User(token)
	if !ok {
		return Verification{}, ErrNoVerification
	}
	v, err := s.store.TakeVerification(ctx, hash(token), Verification{User: user, Type: t}, attempt)
	if err != nil {
		return Verification{}, fmt.Errorf("take a verification token: %w", err)
	}
	return v, nil
}

func checkType(t Type) error {
	if !slices.Contains(Types, t) {
		return invalid("type", fmt.Sprintf("%.32q is none of the types %v", t, Types))
	}
	return nil
}
