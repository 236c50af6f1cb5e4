// Package receipt signs and verifies receipt handles: the opaque strings that a fetch returns and that an
// acknowledgement sends back.
//
// Start from [Keyring], which many goroutines may use at the same time. Sign turns a [Receipt] into a handle, and
// Verify turns a handle back into a receipt, if it was signed with a key of the ring for the same subscriber of the
// same channel. A handle is signed but not secret.
//
// # Format, version 2
//
// A handle is base64url (RFC 4648, without padding, without line breaks) of
//
//	version       1 byte, 2
//	epoch        16 bytes, the ULID
//	clock         8 bytes, big-endian two's complement
//	channel       1 byte for the length, then the name
//	subscriber    1 byte for the length, then the name
//	message ID    1 byte for the length, then the ID
//	MAC          16 bytes, the first ones of HMAC-SHA256 over all bytes before
//
// A receipt and a key have exactly one handle.
//
// Version 1 had the first 8 bytes of the SHA-1 of the message ID after the clock, and no message ID. Its handles are
// still verified; their receipts have no message ID.
//
// # Other tokens
//
// Servers that share receipt keys can sign other tokens too: with keys that [Keyring.Derive] derives from these, one
// for each purpose, so that a handle is never taken for another token.
package receipt

import (
	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/clock"
)

// Receipt means: Subscriber of Channel has read everything up to Clock in Epoch, and the message at Clock is MessageID.
type Receipt struct {
	Channel    string // at most MaxNameBytes
	Subscriber string // at most MaxNameBytes
	Epoch      ulid.ULID
	Clock      clock.Clock
	MessageID  string // at most MaxNameBytes; empty: unknown
}
