// Package record reads what Redis keeps of a ticket, and the notifications about tickets.

package queues

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch/convert"
)

// ticketRecord is what a ticket's key holds: "S<created, µs> <ttl, ms> <keep, ms> <life, ms> <attempts> <epoch>
// <spec>", with the spec as convert.Encode encodes it. The first byte is C if the ticket was cancelled. The attempts
// are those that created or found the ticket; the epoch is empty if its ID is never used again. If there is no ticket
// the key may hold "U <attempt> …", the attempts and epochs that were undone.
type ticketRecord struct {
	Cancelled bool
	Created   time.Time
	TTL, Keep time.Duration
	Life      time.Duration // at most, however often it is renewed
	Epoch     ulid.ULID     // of its channel's life
	Spec      matchmaking.Spec
}

// errMalformed is the error of a value that isn't a ticket.
var errMalformed = errors.New("malformed ticket in the storage")

// isRecord reports whether a value is a ticket.
func isRecord(value []byte) bool { return len(value) > 0 && value[0] != 'U' }

// isRecordOf reports whether a value is the ticket that was created at a time, in microseconds, and not an earlier one
// with its ID.
func isRecordOf(value []byte, created string) bool {
	return isRecord(value) && bytes.HasPrefix(value[1:], []byte(created+" "))
}

// parseRecord parses the value of a ticket's key. Errors: ErrMalformed.
func parseRecord(value []byte) (ticketRecord, error) {
	r, spec, err := split(value)
	if err != nil {
		return ticketRecord{}, err
	}
	if r.Spec, err = convert.Decode(spec); err != nil {
		return ticketRecord{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return r, nil
}

// split parses a record without its spec, which it returns as it is.
func split(value []byte) (r ticketRecord, spec []byte, err error) {
	parts := bytes.SplitN(value, []byte(" "), 7)
	if len(parts) != 7 || len(parts[0]) == 0 || (parts[0][0] != 'S' && parts[0][0] != 'C') {
		return ticketRecord{}, nil, errMalformed
	}
	var numbers [4]int64
	for i, text := range [][]byte{parts[0][1:], parts[1], parts[2], parts[3]} {
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return ticketRecord{}, nil, fmt.Errorf("%w: %w", errMalformed, err)
		}
		numbers[i] = n
	}
	r = ticketRecord{
		Cancelled: parts[0][0] == 'C',
		Created:   time.UnixMicro(numbers[0]).UTC(),
		TTL:       time.Duration(numbers[1]) * time.Millisecond,
		Keep:      time.Duration(numbers[2]) * time.Millisecond,
		Life:      time.Duration(numbers[3]) * time.Millisecond,
	}
	if len(parts[5]) > 0 {
		if r.Epoch, err = ulid.ParseStrict(string(parts[5])); err != nil {
			return ticketRecord{}, nil, fmt.Errorf("%w: %w", errMalformed, err)
		}
	}
	return r, parts[6], nil
}

// Ticket returns the ticket of the record. One that doesn't wait any more has no expiry of its own: it gets the one
// that it was created with.
func (r ticketRecord) Ticket(queue, id string, expires time.Time) matchmaking.Ticket {
	if expires.IsZero() {
		expires = r.Created.Truncate(time.Millisecond).Add(r.TTL)
	}
	return matchmaking.Ticket{
		ID: id, Queue: queue, Spec: r.Spec, CreateTime: r.Created, Expires: expires, TTL: r.TTL, Life: r.Life,
		Epoch:  r.Epoch,
		Status: matchmaking.Searching,
	}
}
