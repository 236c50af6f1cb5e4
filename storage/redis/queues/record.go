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

// ticketRecord is what a ticket's key holds: "S<created, µs> <ttl, ms> <keep, ms> <life, ms> <attempt> <epoch> <spec>",
// with the spec as convert.Encode encodes it. The first byte is C if the ticket was cancelled. The attempt is the last one to create the ticket; the epoch is
// empty if its ID is never used again. If there is no ticket the key may hold "U <attempt> …", the attempts and epochs
// that were undone.
type ticketRecord struct {
	cancelled bool
	created   time.Time
	ttl, keep time.Duration
	life      time.Duration // at most, however often it is renewed
	epoch     ulid.ULID     // of its channel's life
	spec      matchmaking.Spec
}

var errTicketRecord = errors.New("malformed ticket in the storage")

// isTicketRecord reports whether a value is a ticket.
func isTicketRecord(value []byte) bool { return len(value) > 0 && value[0] != 'U' }

// isRecordOf reports whether a value is the ticket that was created at a time, in microseconds, and not an earlier one with
// its ID.
func isRecordOf(value []byte, created string) bool {
	return isTicketRecord(value) && bytes.HasPrefix(value[1:], []byte(created+" "))
}

func parseTicketRecord(value []byte) (ticketRecord, error) {
	r, spec, err := splitTicketRecord(value)
	if err != nil {
		return ticketRecord{}, err
	}
	if r.spec, err = convert.Decode(spec); err != nil {
		return ticketRecord{}, fmt.Errorf("%w: %w", errTicketRecord, err)
	}
	return r, nil
}

// splitTicketRecord parses a record without its spec, which it returns as it is.
func splitTicketRecord(value []byte) (r ticketRecord, spec []byte, err error) {
	parts := bytes.SplitN(value, []byte(" "), 7)
	if len(parts) != 7 || len(parts[0]) == 0 || (parts[0][0] != 'S' && parts[0][0] != 'C') {
		return ticketRecord{}, nil, errTicketRecord
	}
	var numbers [4]int64
	for i, text := range [][]byte{parts[0][1:], parts[1], parts[2], parts[3]} {
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return ticketRecord{}, nil, fmt.Errorf("%w: %w", errTicketRecord, err)
		}
		numbers[i] = n
	}
	r = ticketRecord{
		cancelled: parts[0][0] == 'C',
		created:   time.UnixMicro(numbers[0]).UTC(),
		ttl:       time.Duration(numbers[1]) * time.Millisecond,
		keep:      time.Duration(numbers[2]) * time.Millisecond,
		life:      time.Duration(numbers[3]) * time.Millisecond,
	}
	if len(parts[5]) > 0 {
		if r.epoch, err = ulid.ParseStrict(string(parts[5])); err != nil {
			return ticketRecord{}, nil, fmt.Errorf("%w: %w", errTicketRecord, err)
		}
	}
	return r, parts[6], nil
}

// ticket returns the ticket of the record. One that doesn't wait any more has no expiry of its own: it gets the one that it
// was created with.
func (r ticketRecord) ticket(queue, id string, expires time.Time) matchmaking.Ticket {
	if expires.IsZero() {
		expires = r.created.Truncate(time.Millisecond).Add(r.ttl)
	}
	return matchmaking.Ticket{
		ID: id, Queue: queue, Spec: r.spec, CreateTime: r.created, Expires: expires, TTL: r.ttl, Life: r.life, Epoch: r.epoch,
		Status: matchmaking.Searching,
	}
}

// epochText returns the argument of scripts for an epoch: empty for none.
func epochText(epoch ulid.ULID) string {
	if epoch.IsZero() {
		return ""
	}
	return epoch.String()
}
