// Package record reads what Redis keeps of a ticket, and the notifications about tickets.
package record

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

// Record is what a ticket's key holds: "S<created, µs> <ttl, ms> <keep, ms> <life, ms> <attempts> <epoch> <spec>", with the
// spec as convert.Encode encodes it. The first byte is C if the ticket was cancelled. The attempts are those that created or
// found the ticket; the epoch is empty if its ID is never used again. If there is no ticket the key may hold "U <attempt> …",
// the attempts and epochs that were undone.
type Record struct {
	Cancelled bool
	Created   time.Time
	TTL, Keep time.Duration
	Life      time.Duration // at most, however often it is renewed
	Epoch     ulid.ULID     // of its channel's life
	Spec      matchmaking.Spec
}

// ErrMalformed is the error of a value that isn't a ticket.
var ErrMalformed = errors.New("malformed ticket in the storage")

// Is reports whether a value is a ticket.
func Is(value []byte) bool { return len(value) > 0 && value[0] != 'U' }

// IsOf reports whether a value is the ticket that was created at a time, in microseconds, and not an earlier one with
// its ID.
func IsOf(value []byte, created string) bool {
	return Is(value) && bytes.HasPrefix(value[1:], []byte(created+" "))
}

// Parse parses the value of a ticket's key. Errors: ErrMalformed.
func Parse(value []byte) (Record, error) {
	r, spec, err := split(value)
	if err != nil {
		return Record{}, err
	}
	if r.Spec, err = convert.Decode(spec); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return r, nil
}

// split parses a record without its spec, which it returns as it is.
func split(value []byte) (r Record, spec []byte, err error) {
	parts := bytes.SplitN(value, []byte(" "), 7)
	if len(parts) != 7 || len(parts[0]) == 0 || (parts[0][0] != 'S' && parts[0][0] != 'C') {
		return Record{}, nil, ErrMalformed
	}
	var numbers [4]int64
	for i, text := range [][]byte{parts[0][1:], parts[1], parts[2], parts[3]} {
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return Record{}, nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		numbers[i] = n
	}
	r = Record{
		Cancelled: parts[0][0] == 'C',
		Created:   time.UnixMicro(numbers[0]).UTC(),
		TTL:       time.Duration(numbers[1]) * time.Millisecond,
		Keep:      time.Duration(numbers[2]) * time.Millisecond,
		Life:      time.Duration(numbers[3]) * time.Millisecond,
	}
	if len(parts[5]) > 0 {
		if r.Epoch, err = ulid.ParseStrict(string(parts[5])); err != nil {
			return Record{}, nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	return r, parts[6], nil
}

// Ticket returns the ticket of the record. One that doesn't wait any more has no expiry of its own: it gets the one that it
// was created with.
func (r Record) Ticket(queue, id string, expires time.Time) matchmaking.Ticket {
	if expires.IsZero() {
		expires = r.Created.Truncate(time.Millisecond).Add(r.TTL)
	}
	return matchmaking.Ticket{
		ID: id, Queue: queue, Spec: r.Spec, CreateTime: r.Created, Expires: expires, TTL: r.TTL, Life: r.Life, Epoch: r.Epoch,
		Status: matchmaking.Searching,
	}
}
