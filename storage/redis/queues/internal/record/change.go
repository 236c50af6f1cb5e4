package record

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// ParseChange parses an entry of the changes: id, expires and ticket of a new ticket; id and released of a released one; id alone
// of a cancelled one. Errors: ErrMalformed.
func ParseChange(r matchmaking.ChangesRequest, fields map[string]string) (matchmaking.Change, error) {
	id, ok := fields["id"]
	if !ok {
		return matchmaking.Change{}, fmt.Errorf("%w: a change without a ticket", ErrMalformed)
	}
	if _, released := fields["released"]; released {
		return matchmaking.Change{Released: id}, nil
	}
	value, ok := fields["ticket"]
	if !ok {
		return matchmaking.Change{Cancelled: id}, nil
	}
	expires, err := strconv.ParseInt(fields["expires"], 10, 64)
	if err != nil {
		return matchmaking.Change{}, fmt.Errorf("%w: expires: %w", ErrMalformed, err)
	}
	found, err := Parse([]byte(value))
	if err != nil {
		return matchmaking.Change{}, err
	}
	found.Spec.Keep(r.Fields)
	t := found.Ticket(r.Queue, id, time.UnixMilli(expires).UTC())
	return matchmaking.Change{Added: &t}, nil
}
