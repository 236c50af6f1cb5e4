// Package records is the part of the Go client for records: sessions, tokens, settings, caches, views, locks, states
// and statistics.
//
// Its exported names are public API, which changes incompatibly only in a release that says so: docs/api.txt.
package records

import (
	"slices"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
)

// Errors returned by the service, besides those of package client. Compare with errors.Is.
var (
	ErrInvalidID = named(fault.SlugInvalidID) // of a user or a record
)

// Errors of sessions.
var (
	ErrNoSession      = named(fault.SlugNoSession)      // no session has the token
	ErrInvalidSession = named(fault.SlugInvalidSession) // username, device info, auth data, or idempotency key
)

// Errors of caches.
var (
	ErrInvalidValue  = named(fault.SlugInvalidValue) // a value of the cache that doesn't have the form of its kind
	ErrValueTooLarge = named(fault.SlugValueTooLarge)
	ErrNoKind        = named(fault.SlugNoKind) // of values in the cache
	ErrNotCached     = named(fault.SlugNotCached)
	ErrTagFull       = named(fault.SlugTagFull)
)

// Errors of verifications and OAuth tokens.
var (
	ErrInvalidToken   = named(fault.SlugInvalidToken) // a part of a verification, an OAuth state or OAuth tokens
	ErrNoVerification = named(fault.SlugNoVerification)
	ErrNoOAuthState   = named(fault.SlugNoOAuthState)
	ErrNoOAuthTokens  = named(fault.SlugNoOAuthTokens)
	ErrNoKeyset       = named(fault.SlugNoKeyset)
	ErrUnreadable     = named(fault.SlugSealed) // a stored OAuth token
)

// Errors of locks.
var (
	ErrInvalidLock = named(fault.SlugInvalidLock)
	ErrLockHeld    = named(fault.SlugLockHeld)
	ErrLockLost    = named(fault.SlugLockLost)
)

// Errors of views, states and statistics.
var (
	ErrInvalidAmount    = named(fault.SlugInvalidAmount) // of views, or a change of statistics
	ErrCounterRange     = named(fault.SlugCounterRange)
	ErrNoState          = named(fault.SlugNoState)
	ErrInvalidState     = named(fault.SlugInvalidState)
	ErrManyFields       = named(fault.SlugManyFields) // of a state, or a window of statistics
	ErrInvalidTimeframe = named(fault.SlugInvalidTimeframe)
	ErrInvalidImport    = named(fault.SlugInvalidImport) // of views
	ErrImportConflict   = named(fault.SlugImportConflict)
)

// Errors of settings.
var (
	ErrNoSetting       = named(fault.SlugNoSetting)
	ErrInvalidSetting  = named(fault.SlugInvalidSetting) // its value
	ErrTooManySettings = named(fault.SlugManySettings)
)

// all are the errors that named has made.
var all []*client.Error

// Errors returns all errors of this package.
func Errors() []*client.Error { return slices.Clone(all) }

// named returns the error for a slug. It is for variables of the package.
func named(slug fault.Slug) *client.Error {
	e := &client.Error{Problem: client.Problem{Type: client.TypePrefix + string(slug), Title: slug.Title()}}
	all = append(all, e)
	return e
}
