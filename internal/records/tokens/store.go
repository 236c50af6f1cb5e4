package tokens

import (
	"context"
	"time"
)

// RepeatLife is how long the same attempt may repeat a take.
const RepeatLife = time.Minute

// Verifications keeps verifications under the hashes of their tokens, for an hour.
type Verifications interface {
	// Issue keeps a verification, and ends the earlier one of its user and type. It sets no Created.
	Issue(ctx context.Context, hash string, v Verification) (ends time.Time, err error)
	// TakeVerification takes a verification of a user and type. Errors: ErrNoVerification.
	TakeVerification(ctx context.Context, hash string, of Verification, attempt string) (Verification, error)
}

// States keeps states under their hashes, for ten minutes.
type States interface {
	KeepState(ctx context.Context, hash string, s State) (ends time.Time, err error)
	// TakeState takes a state. Errors: ErrNoState.
	TakeState(ctx context.Context, hash, attempt string) (State, error)
}

// Providers keeps the sealed tokens of OAuth providers: access tokens for an hour, refresh tokens for 30 days.
type Providers interface {
	// Put keeps the tokens that aren't empty, and returns their expiry. The others stay unchanged.
	Put(ctx context.Context, of Owner, t Sealed) (Ends, error)
	// Get returns the tokens, which may both be missing.
	Get(ctx context.Context, of Owner) (Sealed, error)
	Delete(ctx context.Context, of Owner) error
}

// Store keeps all of them. Its methods may be called by many goroutines.
type Store interface {
	Verifications
	States
	Providers
}

// Owner is the user and the provider of tokens.
type Owner struct {
	User, Provider string
}

// Sealed are encrypted tokens, and when each ends. Those that don't exist are empty.
type Sealed struct {
	Access, Refresh []byte
	Ends
}

// Ends are the times at which tokens end. They are zero for those that don't exist.
type Ends struct {
	AccessEnds, RefreshEnds time.Time
}

// Sealer encrypts and authenticates values.
type Sealer interface {
	// Seal encrypts a value for a purpose.
	Seal(value, purpose []byte) ([]byte, error)
	// Open decrypts a value that was sealed for the same purpose. Its error names the reason: an unknown key, or
	// another purpose.
	Open(sealed, purpose []byte) ([]byte, error)
}
