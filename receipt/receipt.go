// Package receipt makes and checks receipt handles: the opaque tokens that a
// fetch hands out and that an acknowledgement brings back.
//
// A handle carries a Receipt under a message authentication code (MAC), so that
// what comes back is what a holder of the key gave out, to the same subscriber
// of the same channel. Its content is signed but not secret.
//
// # Format, version 1
//
// A handle is base64url (RFC 4648, without padding, without line breaks) of
//
//	version       1 byte, 1
//	epoch        16 bytes, the ULID
//	clock         8 bytes, big-endian two's complement
//	fingerprint   8 bytes
//	channel       1 byte for the length, then the name
//	subscriber    1 byte for the length, then the name
//	MAC          16 bytes, the first ones of HMAC-SHA256 over all bytes before
//
// A receipt and a key have exactly one handle.
package receipt

import (
	"crypto/sha1" //nolint:gosec // the one hash that Redis scripts have; not a security boundary, the MAC is
	"encoding/hex"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/clock"
)

// Receipt stands for "everything up to Clock, in Epoch, where the message with
// Fingerprint stands at Clock, for Subscriber of Channel".
type Receipt struct {
	Channel     string // at most MaxNameBytes
	Subscriber  string // at most MaxNameBytes
	Epoch       ulid.ULID
	Clock       clock.Clock
	Fingerprint Fingerprint
}

// Fingerprint is the first 8 bytes of the SHA-1 of a message ID. The zero value
// says that no message was known at that clock.
//
// It is SHA-1 because that is the one hash that a Redis script can compute
// (redis.sha1hex). It tells messages apart that publishers gave different IDs;
// it doesn't resist a publisher who searches for equal ones.
type Fingerprint [8]byte

// FingerprintOf returns the fingerprint of the message with this ID.
func FingerprintOf(messageID string) Fingerprint {
	var onStack [128]byte                              // as long as an ID may be
	sum := sha1.Sum(append(onStack[:0], messageID...)) //nolint:gosec // see Fingerprint
	return Fingerprint(sum[:])
}

// String returns the fingerprint as 16 lower-case hex digits, which are the
// first 16 that redis.sha1hex returns, or "" for the zero value.
func (f Fingerprint) String() string {
	if f == (Fingerprint{}) {
		return ""
	}
	return hex.EncodeToString(f[:])
}
