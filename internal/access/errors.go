package access

import "github.com/tidemark-dev/tidemark/fault"

// The errors of a Guard and of authenticators. Compare with errors.Is.
var (
	ErrNoCredential = &fault.Error{
		Kind: fault.Unauthenticated, Slug: fault.SlugNoCredential,
		Detail: "the request needs credentials: send an API key or a token in the header Authorization, " +
			`after "Bearer "`,
	}
	ErrInvalidCredential = &fault.Error{
		Kind: fault.Unauthenticated, Slug: fault.SlugInvalidCredential, Detail: "the credentials aren't valid",
	}
	ErrExpired = &fault.Error{
		Kind: fault.Unauthenticated, Slug: fault.SlugExpiredCredential, Detail: "the credentials have expired",
	}
	ErrRevoked = &fault.Error{
		Kind: fault.Unauthenticated, Slug: fault.SlugRevokedCredential, Detail: "the credentials were revoked",
	}
	// ErrKeysUnavailable is the error of a token whose key isn't known while a set of keys can't be fetched.
	ErrKeysUnavailable = &fault.Error{
		Kind: fault.Unavailable, Slug: fault.SlugKeysUnavailable,
		Detail: "the keys that verify tokens can't be fetched; trying again is safe",
	}
	ErrNotGranted = &fault.Error{
		Kind: fault.Forbidden, Slug: fault.SlugNotGranted, Detail: "the credentials don't grant this",
	}
)

// errNoTicket equals the error of Owners for a ticket that doesn't exist.
var errNoTicket = &fault.Error{Slug: fault.SlugNoTicket}

// notGranted returns ErrNotGranted for an action.
func notGranted(a Action) error {
	e := *ErrNotGranted
	e.Detail = "the credentials don't grant the action " + string(a) + " on this resource"
	return &e
}
