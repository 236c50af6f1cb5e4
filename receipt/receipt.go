// Package receipt makes and checks receipt handles: the opaque tokens that a
// fetch hands out and that an acknowledgement brings back.
//
// A handle carries a Receipt under a message authentication code (MAC), so that
// what comes back is what a holder of the key gave out, to the same subscriber
// of the same channel. Its content is signed but not secret.
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
// Version 1 had the first 8 bytes of the SHA-1 of the message ID after the
// clock, and no message ID. Its handles are verified, to receipts without one.
package receipt

import (
	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/clock"
)

// Receipt stands for "everything up to Clock, in Epoch, where the message with
// MessageID stands at Clock, for Subscriber of Channel".
type Receipt struct {
	Channel    string // at most MaxNameBytes
	Subscriber string // at most MaxNameBytes
	Epoch      ulid.ULID
	Clock      clock.Clock
	MessageID  string // at most MaxNameBytes; empty: no message is known at that clock
}
