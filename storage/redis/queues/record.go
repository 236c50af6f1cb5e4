package queues

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// errMalformed is the error of a value that isn't a ticket.
var errMalformed = errors.New("malformed ticket in the storage")

// isRecord reports whether a value is a ticket.
func isRecord(value []byte) bool { return len(value) > 0 && value[0] != 'U' }

// isRecordOf reports whether a value is the ticket with the given creation time, in microseconds, and not an earlier
// one with its ID.
func isRecordOf(value []byte, created string) bool {
	return isRecord(value) && bytes.HasPrefix(value[1:], []byte(created+" "))
}

// parseRecord parses the value of a ticket's key: "S<created, µs> <ttl, ms> <keep, ms> <life, ms> <attempts> <epoch>
// <spec>", with the spec of encodeSpec. The first byte is C if the ticket was cancelled; the returned status is
// Cancelled or Searching. The attempts are those that created or found the ticket; the epoch is empty if its ID is
// never reused. Without a ticket the key may hold "U <attempt> …", the undone attempts and epochs.
//
// Expires is that of a ticket that was never renewed. Errors: errMalformed.
func parseRecord(queue, id string, value []byte) (matchmaking.Ticket, error) {
	t := matchmaking.Ticket{ID: id, Queue: queue}
	parts := bytes.SplitN(value, []byte(" "), 7)
	if len(parts) != 7 || len(parts[0]) == 0 {
		return matchmaking.Ticket{}, errMalformed
	}
	switch parts[0][0] {
	case 'S':
		t.Status = matchmaking.Searching
	case 'C':
		t.Status = matchmaking.Cancelled
	default:
		return matchmaking.Ticket{}, errMalformed
	}
	var numbers [4]int64
	for i, text := range [][]byte{parts[0][1:], parts[1], parts[2], parts[3]} {
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return matchmaking.Ticket{}, fmt.Errorf("%w: %w", errMalformed, err)
		}
		numbers[i] = n
	}
	t.CreateTime = time.UnixMicro(numbers[0]).UTC()
	t.TTL, t.Life = time.Duration(numbers[1])*time.Millisecond, time.Duration(numbers[3])*time.Millisecond
	t.Expires = t.CreateTime.Truncate(time.Millisecond).Add(t.TTL)
	var err error
	if len(parts[5]) > 0 {
		if t.Epoch, err = ulid.ParseStrict(string(parts[5])); err != nil {
			return matchmaking.Ticket{}, fmt.Errorf("%w: %w", errMalformed, err)
		}
	}
	if t.Spec, t.Owner, err = decodeSpec(parts[6]); err != nil {
		return matchmaking.Ticket{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return t, nil
}
