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
)

// Errors returns all errors of this package.
func Errors() []*client.Error {
	return []*client.Error{ErrInvalidID}
}

func named(slug fault.Slug) *client.Error {
	return &client.Error{Problem: wire.Problem{Type: wire.TypePrefix + string(slug), Title: slug.Title()}}
}
