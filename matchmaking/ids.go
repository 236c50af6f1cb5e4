package matchmaking

import (
	"crypto/rand"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
)

// MaxTicketIDBytes is the longest ticket ID: its channel's name must be one.
const MaxTicketIDBytes = channel.MaxNameBytes - len(ChannelPrefix)

// MaxMatchIDBytes is the longest match ID: its assignments' message ID must be one.
const MaxMatchIDBytes = channel.MaxNameBytes - len(MessagePrefix)

// CheckTicketID tells whether id can be a ticket's: it matches channel.NamePattern and has at most MaxTicketIDBytes.
// Errors: fault.SlugInvalidTicket.
func CheckTicketID(id string) error {
	switch err := channel.CheckMessageID(id); {
	case len(id) > MaxTicketIDBytes:
		return invalidTicket("id", "the ticket's ID has %d bytes, at most %d are allowed", len(id), MaxTicketIDBytes)
	case err != nil:
		return invalidTicket("id", "the ticket's ID %q must match %s", id, channel.NamePattern)
	}
	return nil
}

// CheckMatchID tells whether id can be a match's: it matches channel.NamePattern and has at most MaxMatchIDBytes.
// Errors: fault.SlugInvalidTicket, with the field "matchId".
func CheckMatchID(id string) error {
	switch err := channel.CheckMessageID(id); {
	case len(id) > MaxMatchIDBytes:
		return invalidTicket("matchId", "the match's ID has %d bytes, at most %d are allowed", len(id), MaxMatchIDBytes)
	case err != nil:
		return invalidTicket("matchId", "the match's ID %q must match %s", id, channel.NamePattern)
	}
	return nil
}

// newID makes an ID that no other server makes. Its chance comes from crypto/rand, and not from ulid's default, which
// is seeded with the time.
func newID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }
