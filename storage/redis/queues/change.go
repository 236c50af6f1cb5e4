package queues

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// parseChange parses an entry of the changes: id, expires and ticket of a new ticket; id and released of a released
// one; id alone of a cancelled one. Errors: errMalformed.
func parseChange(r matchmaking.ChangesRequest, fields map[string]string) (matchmaking.Change, error) {
	id, ok := fields["id"]
	if !ok {
		return matchmaking.Change{}, fmt.Errorf("%w: a change without a ticket", errMalformed)
	}
	if _, released := fields["released"]; released {
		return matchmaking.Change{Released: id}, nil
	}
	value, ok := fields["ticket"]
	if !ok {
		return matchmaking.Change{Cancelled: id}, nil
	}
	return added(r, id, fields["expires"], value)
}

// added returns the change of a new ticket.
func added(r matchmaking.ChangesRequest, id, expires, value string) (matchmaking.Change, error) {
	ms, err := strconv.ParseInt(expires, 10, 64)
	if err != nil {
		return matchmaking.Change{}, fmt.Errorf("%w: expires: %w", errMalformed, err)
	}
	t, err := parseRecord(r.Queue, id, []byte(value))
	if err != nil {
		return matchmaking.Change{}, err
	}
	t.KeepOnly(r.Fields)
	t.Status, t.Expires = matchmaking.Searching, time.UnixMilli(ms).UTC()
	return matchmaking.Change{Added: &t}, nil
}

// Special sizes in a notification of changes for a cancelled or released ticket.
const (
	cancelledSize = -1
	releasedSize  = -2
)

// changeNews is the position of a notification's changes in the stream.
type changeNews struct {
	First string // the entry of the first change
	After string // the position after the last one
}

// parseChanges parses a notification of changes: "<first> <after> ", and "<id> <expires, ms> <size> <ticket of that
// many bytes>" for each, one after the other. Errors: errNotification, errMalformed.
func parseChanges(r matchmaking.ChangesRequest, text string) (n changeNews, changes []matchmaking.Change, err error) {
	n.First, text, _ = strings.Cut(text, " ")
	if n.After, text, _ = strings.Cut(text, " "); text == "" {
		return changeNews{}, nil, errNotification
	}
	for text != "" {
		var parts [3]string
		if parts, text, err = cut(text); err != nil {
			return changeNews{}, nil, err
		}
		id := strings.Clone(parts[0]) // a copy, so that the whole notification isn't retained
		size, err := strconv.Atoi(parts[2])
		if err != nil || size < releasedSize || size > len(text) {
			return changeNews{}, nil, fmt.Errorf("%w: size %q", errNotification, parts[2])
		}
		change := matchmaking.Change{}
		switch size {
		case cancelledSize:
			change.Cancelled = id
		case releasedSize:
			change.Released = id
		default:
			if change, err = added(r, id, parts[1], text[:size]); err != nil {
				return changeNews{}, nil, err
			}
			text = text[size:]
		}
		changes = append(changes, change)
	}
	return n, changes, nil
}
