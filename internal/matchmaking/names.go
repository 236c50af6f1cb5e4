package matchmaking

import (
	"encoding/base32"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/names"
)

// NamePattern is the regular expression of the names of queues and the IDs of tickets and matches. It equals that of
// channel names and message IDs, since the names of tickets' channels and the message IDs of assignments contain them.
const NamePattern = names.Pattern

// MaxTicketIDBytes is the length limit of ticket IDs: the name of the ticket's channel must be valid.
const MaxTicketIDBytes = names.MaxBytes - len(ChannelPrefix)

// MaxMatchIDBytes is the length limit of match IDs: the message ID of its assignments must be valid.
const MaxMatchIDBytes = names.MaxBytes - len(MessagePrefix)

// MaxQueueNameBytes is the length limit of queue names: the result of NewID must be a valid ID of a ticket or a match.
const MaxQueueNameBytes = MaxMatchIDBytes - ulid.EncodedSize - 1

// NewID returns a unique ID for a ticket or a match of a queue: a ULID, a dot, and the queue's name.
func NewID(queue string) string { return id.New() + "." + queue }

// QueueOf returns the queue that is part of an ID of the form that NewID returns. ok is false for any other ID.
func QueueOf(id string) (queue string, ok bool) {
	if len(id) <= ulid.EncodedSize || id[ulid.EncodedSize] != '.' || id[0] > '7' {
		return "", false
	}
	for i := range ulid.EncodedSize {
		if !isULIDDigit(id[i]) {
			return "", false
		}
	}
	queue = id[ulid.EncodedSize+1:]
	return queue, CheckQueueName(queue) == nil
}

// backfillIDs encodes the ULIDs of backfills: lower case, since Open Match's backfills have such IDs.
var backfillIDs = base32.HexEncoding.WithPadding(base32.NoPadding)

// NewBackfillID returns a unique ID for a backfill of a queue: a ULID in 26 digits and letters from 0 to v, a dot, and
// the queue's name. IDs are in the order of their creation.
func NewBackfillID(queue string) string {
	unique := ulid.Make()
	return strings.ToLower(backfillIDs.EncodeToString(unique[:])) + "." + queue
}

// QueueOfBackfill returns the queue that is part of an ID from NewBackfillID. ok is false for any other ID.
func QueueOfBackfill(id string) (queue string, ok bool) {
	if len(id) <= ulid.EncodedSize || id[ulid.EncodedSize] != '.' {
		return "", false
	}
	for i := range ulid.EncodedSize {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'v') {
			return "", false
		}
	}
	queue = id[ulid.EncodedSize+1:]
	return queue, CheckQueueName(queue) == nil
}

// isULIDDigit reports whether an upper-case ULID can contain a character.
func isULIDDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' && c != 'I' && c != 'L' && c != 'O' && c != 'U'
}

// CheckQueueName returns an error unless name is a valid queue name: it matches NamePattern and has at most
// MaxQueueNameBytes. Errors: SlugInvalidQueue, with the field "queue".
func CheckQueueName(name string) error {
	switch {
	case names.Wrong(name) != "":
		return InvalidQueue("queue", "the queue's name %q must match %s", name, NamePattern)
	case len(name) > MaxQueueNameBytes:
		return InvalidQueue("queue", "the queue's name has %d bytes, at most %d are allowed", len(name),
			MaxQueueNameBytes)
	}
	return nil
}

// CheckTicketID returns an error unless id is a valid ticket ID: it matches NamePattern and has at most
// MaxTicketIDBytes. Errors: SlugInvalidTicket, with the field "id".
func CheckTicketID(id string) error {
	switch {
	case len(id) > MaxTicketIDBytes:
		return InvalidTicket("id", "the ticket's ID has %d bytes, at most %d are allowed", len(id), MaxTicketIDBytes)
	case names.Wrong(id) != "":
		return InvalidTicket("id", "the ticket's ID %q must match %s", id, NamePattern)
	}
	return nil
}

// CheckChosenID returns an error unless a caller may choose id for a ticket: it passes CheckTicketID, and doesn't have
// the form of IDs from NewID. Errors: SlugInvalidTicket, with the field "id".
func CheckChosenID(id string) error {
	if err := CheckTicketID(id); err != nil {
		return err
	}
	if _, ok := QueueOf(id); ok {
		return InvalidTicket("id",
			"the ticket's ID %q has the form of those that the service makes, a ULID, a dot and a queue's name: choose another one, or none", id)
	}
	return nil
}

// CheckMatchID returns an error unless id is a valid match ID: it matches NamePattern and has at most MaxMatchIDBytes.
// Errors: SlugInvalidTicket, with the field "matchId".
func CheckMatchID(id string) error {
	switch {
	case len(id) > MaxMatchIDBytes:
		return InvalidTicket("matchId", "the match's ID has %d bytes, at most %d are allowed", len(id), MaxMatchIDBytes)
	case names.Wrong(id) != "":
		return InvalidTicket("matchId", "the match's ID %q must match %s", id, NamePattern)
	}
	return nil
}
