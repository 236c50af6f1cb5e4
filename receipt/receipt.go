// Package receipt signs and verifies receipt handles: the opaque strings that a fetch returns and that an
// acknowledgement sends back.
//
// Start from [Keyring], which many goroutines may use at the same time. Sign turns a [Receipt] into a handle, and
// Verify turns a handle back into a receipt, if it was signed with a key of the ring for the same subscriber of the
// same channel. A handle is signed but not secret.
//
// # Format, versions 3 and 4
//
// A handle is base64url (RFC 4648, without padding, without line breaks) of
//
//	version       1 byte: 3, or 4 if the channel's name has more than 255 bytes
//	epoch        16 bytes, the ULID
//	clock         8 bytes, big-endian two's complement
//	write         8 bytes; zeros: unknown
//	published     8 bytes, big-endian milliseconds since 1970; zeros: unknown
//	channel       1 byte for the length, of version 4 2 bytes, big-endian, then the name
//	subscriber    1 byte for the length, then the name
//	message ID    1 byte for the length, then the ID
//	MAC          16 bytes, the first ones of HMAC-SHA256 over all bytes before
//
// A receipt and a key have exactly one handle.
//
// # Other tokens
//
// Servers that share receipt keys can sign other tokens too: with keys that [Keyring.Derive] derives from these, one
// for each purpose, so that a handle is never taken for another token.
//
// Its exported names are public API, which changes incompatibly only in a release that says so: docs/api.txt.
package receipt

import (
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/clock"
)

// Receipt means: Subscriber of Channel has read everything up to Clock in Epoch, and the message at Clock is MessageID,
// as it was stored by Write. All three are unknown if the message was gone when the receipt was made.
type Receipt struct {
	Channel     string // at most MaxChannelBytes
	Subscriber  string // at most MaxNameBytes
	Epoch       ulid.ULID
	Clock       clock.Clock
	MessageID   string    // at most MaxNameBytes; empty: unknown
	Write       Write     // zero also for a message that has none, as those of another program
	PublishedAt time.Time // Redis time, to the millisecond; zero: unknown
}
