// Package id makes identifiers of messages, tickets, matches, attempts, epochs and requests. They are unique across
// processes, and not secret.
package id

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/oklog/ulid/v2"
)

// New returns the text of a new ULID.
func New() string { return At(time.Now()).String() }

// At returns a new ULID of a time. Its 80 random bits come from the runtime's generator, which the operating system
// seeds. ulid.Make seeds its generator with the time: two servers that start at the same moment could make the same ID,
// and the second message with it would be discarded as a duplicate.
func At(now time.Time) ulid.ULID {
	var u ulid.ULID
	_ = u.SetTime(ulid.Timestamp(now))                        // fails only after the year 10889
	binary.BigEndian.PutUint64(u[6:], rand.Uint64())          //nolint:gosec // see the package
	binary.BigEndian.PutUint16(u[14:], uint16(rand.Uint32())) //nolint:gosec // see the package
	return u
}
