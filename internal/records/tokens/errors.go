package tokens

import "github.com/tidemark-dev/tidemark/fault"

// Errors that are returned to clients. Compare with errors.Is.
var (
	ErrNoVerification = &fault.Error{
		Kind: fault.NotFound, Slug: fault.SlugNoVerification,
		Detail: "there is no such verification token of this type: it was never issued, was taken, replaced, or has ended",
	}
	ErrNoState = &fault.Error{
		Kind: fault.NotFound, Slug: fault.SlugNoOAuthState,
		Detail: "there is no such OAuth state: it was never made, was taken, or has ended",
	}
	ErrNoTokens = &fault.Error{
		Kind: fault.NotFound, Slug: fault.SlugNoOAuthTokens,
		Detail: "there are no tokens of this provider for the user",
	}
	ErrNoKeyset = &fault.Error{
		Kind: fault.Unsupported, Slug: fault.SlugNoKeyset,
		Detail: "the service has no keyset, which OAuth tokens are encrypted with",
	}
	ErrSealed = &fault.Error{
		Kind: fault.Unsupported, Slug: fault.SlugSealed,
		Detail: "the stored token can't be decrypted with the service's keyset; store the user's tokens again, or restore the key",
	}
)

// invalid returns the error for an invalid part of a request.
func invalid(field, detail string) error {
	return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidToken, Field: field, Detail: detail}
}
