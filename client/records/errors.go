// Package records is the part of the Go client for records: sessions, tokens, settings, caches, views, locks, states and
// statistics.
package records

import (
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/wire"
)

// Errors that the service answers with, beside those of package client. Compare with errors.Is.
var (
	ErrInvalidID = named(fault.SlugInvalidID) // of a user or a record

	ErrInvalidValue  = named(fault.SlugInvalidValue) // a value of the cache that doesn't have the form of its kind
	ErrValueTooLarge = named(fault.SlugValueTooLarge)
	ErrNoKind        = named(fault.SlugNoKind) // of values in the cache
	ErrNotCached     = named(fault.SlugNotCached)

	ErrInvalidToken   = named(fault.SlugInvalidToken) // a part of a verification, an OAuth state or OAuth tokens
	ErrNoVerification = named(fault.SlugNoVerification)
	ErrNoOAuthState   = named(fault.SlugNoOAuthState)
	ErrNoOAuthTokens  = named(fault.SlugNoOAuthTokens)
	ErrNoKeyset       = named(fault.SlugNoKeyset)
	ErrUnreadable     = named(fault.SlugSealed) // a stored OAuth token
)

var all []*client.Error

// Errors returns all errors of this package.
func Errors() []*client.Error { return all }

func named(slug fault.Slug) *client.Error {
	e := &client.Error{Problem: wire.Problem{Type: wire.TypePrefix + string(slug), Title: slug.Title()}}
	all = append(all, e)
	return e
}
