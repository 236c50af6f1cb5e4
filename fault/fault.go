// Package fault lists the errors that clients of Tidemark can receive.
//
// An [Error] has a [Kind], which classifies the outcome, a [Slug], which names it for programs, and a detail, which
// describes the error of this request for people. The domain packages and the stores return it, wrapped where that
// helps; each protocol maps kinds to its own codes in one switch. All slugs are in [List], with their kinds, titles,
// causes and remedies: docs/errors.md is generated from it.
//
// An error that no client receives, such as a lost lease, is not a fault: the package that returns it declares it.
//
// Its exported names are public API, which changes incompatibly only in a release that says so: docs/api.txt.
package fault

import "time"

// Kind is the sort of an outcome. Protocols map it to a status.
type Kind int

// The kinds of errors.
const (
	Internal         Kind = iota // a defect of the service, or stored data that the service did not write
	Invalid                      // the request can never succeed as it is
	NotFound                     // the object of the request does not exist
	Forbidden                    // the caller may not do this; nothing was changed
	Conflict                     // the request is well formed but does not fit the present state
	TooLarge                     // the request is larger than the service or a policy allows
	StorageFull                  // the storage has no memory left; nothing was written
	Unavailable                  // the service or its storage cannot serve now; trying again is safe
	MethodNotAllowed             // the path has no such method
	Timeout                      // the client took too long to send the request
	Misdirected                  // the request is for a host name that the service does not serve
	Unauthenticated              // the request has no credential, or one that isn't valid
	Limited                      // the caller has used up a limit; trying again later is safe
	Unsupported                  // the service isn't set up for the request
	Gone                         // what the request is for has existed, and won't exist again
)

// Error is an error for a client. It must not be changed once it is returned. As JSON it passes from one server to
// another, without its cause.
type Error struct {
	Kind   Kind   `json:"kind"`
	Slug   Slug   `json:"slug"`
	Detail string `json:"detail"` // for people: the error of this request
	// Field is the wrong part of the request, as a JSON pointer or a parameter's name; may be empty.
	Field string `json:"field,omitempty"`
	// RetryAfter is when trying again may help; zero: no advice.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	// OutOfReach is, of a readiness check, the parts of the storage that failed it.
	OutOfReach []string `json:"outOfReach,omitempty"`
	Cause      error    `json:"-"` // the underlying error, for the log; never shown to clients; may be nil
}

// Errors that every store returns. Compare with errors.Is, which compares slugs.
var (
	ErrStorageFull = &Error{Kind: StorageFull, Slug: SlugStorageFull,
		Detail: "the storage is out of memory; nothing was written"}
	ErrUnavailable = &Error{Kind: Unavailable, Slug: SlugUnavailable,
		Detail: "the storage can't serve the request now; trying again is safe"}
	ErrDamaged = &Error{Kind: Internal, Slug: SlugInternal,
		Detail: "a value in the storage is damaged; an operator can delete what it is part of"}
)

// Error returns the detail, followed by the cause if there is one.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Detail + ": " + e.Cause.Error()
	}
	return e.Detail
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is an *Error with the same slug.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Slug == e.Slug
}

// WithCause returns a copy of e with a cause.
func (e *Error) WithCause(cause error) *Error {
	c := *e
	c.Cause = cause
	return &c
}
