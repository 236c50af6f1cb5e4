package queues

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// goneSize is the size in a notification that marks a removed ticket.
const goneSize = -1

// errNotification is the error of an unreadable notification.
var errNotification = errors.New("malformed notification")

// parseEnds calls each for the tickets of a notification: "<id> <created, µs> <size> <assignment of that many bytes>",
// one after the other. A size of 0 means that the assignment was omitted.
func parseEnds(text string, each func(matchmaking.TicketEnd)) error {
	if text == "" {
		return errNotification
	}
	for text != "" {
		parts, rest, err := cut(text)
		if err != nil {
			return err
		}
		created, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %w", errNotification, err)
		}
		size, err := strconv.Atoi(parts[2])
		if err != nil || size < goneSize || size > len(rest) {
			return fmt.Errorf("%w: size %q", errNotification, parts[2])
		}
		end := matchmaking.TicketEnd{ID: parts[0], Created: time.UnixMicro(created), Gone: size == goneSize}
		end.Content, text = rest[:max(size, 0)], rest[max(size, 0):]
		each(end)
	}
	return nil
}

// cut returns the first three words of a text, and the rest. Errors: errNotification.
func cut(text string) (words [3]string, rest string, err error) {
	for i := range words {
		word, after, found := strings.Cut(text, " ")
		if !found || word == "" {
			return words, "", errNotification
		}
		words[i], text = word, after
	}
	return words, text, nil
}
