package matchmaking

import "regexp"

// NamePattern is the regular expression of the names of queues and the IDs of tickets and matches. It is that of channel
// names and message IDs, since tickets' channels and assignments' messages are named after them.
const NamePattern = `^[0-9A-Za-z][0-9A-Za-z_.:-]{0,127}$`

// maxNameBytes is the longest channel name and message ID.
const maxNameBytes = 128

var namePattern = regexp.MustCompile(NamePattern)

// MaxTicketIDBytes is the longest ticket ID: its channel's name must be one.
const MaxTicketIDBytes = maxNameBytes - len(ChannelPrefix)

// MaxMatchIDBytes is the longest match ID: its assignments' message ID must be one.
const MaxMatchIDBytes = maxNameBytes - len(MessagePrefix)

// CheckQueueName returns an error unless name can be the name of a queue: it matches NamePattern. Errors: SlugInvalidQueue, with the field
// "queue".
func CheckQueueName(name string) error {
	if !namePattern.MatchString(name) {
		return InvalidQueue("queue", "the queue's name %q must match %s", name, NamePattern)
	}
	return nil
}

// CheckTicketID returns an error unless id can be the ID of a ticket: it matches NamePattern and has at most MaxTicketIDBytes. Errors:
// SlugInvalidTicket, with the field "id".
func CheckTicketID(id string) error {
	switch {
	case len(id) > MaxTicketIDBytes:
		return InvalidTicket("id", "the ticket's ID has %d bytes, at most %d are allowed", len(id), MaxTicketIDBytes)
	case !namePattern.MatchString(id):
		return InvalidTicket("id", "the ticket's ID %q must match %s", id, NamePattern)
	}
	return nil
}

// CheckMatchID returns an error unless id can be the ID of a match: it matches NamePattern and has at most MaxMatchIDBytes. Errors:
// SlugInvalidTicket, with the field "matchId".
func CheckMatchID(id string) error {
	switch {
	case len(id) > MaxMatchIDBytes:
		return InvalidTicket("matchId", "the match's ID has %d bytes, at most %d are allowed", len(id), MaxMatchIDBytes)
	case !namePattern.MatchString(id):
		return InvalidTicket("matchId", "the match's ID %q must match %s", id, NamePattern)
	}
	return nil
}
