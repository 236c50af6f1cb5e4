// Package id makes identifiers that no other process makes: of messages, tickets, matches, attempts and epochs.
package id

import (
	"crypto/rand"

	"github.com/oklog/ulid/v2"
)

// New returns the text of a new ULID.
func New() string { return ULID().String() }

// ULID returns a new ULID, which starts with the time. Its entropy comes from crypto/rand: that of ulid.Make is seeded
// with the time, so that two servers that start at once could make the same ID, and the second message with it would be
// taken for a repetition.
func ULID() ulid.ULID { return ulid.MustNew(ulid.Now(), rand.Reader) }
