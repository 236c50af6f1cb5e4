package record

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// goneSize is the size in a notification that stands for a ticket that was removed.
const goneSize = -1

// ErrNotification is the error of a notification that can't be read.
var ErrNotification = errors.New("malformed notification")

// Ends calls each for the tickets of a notification: "<id> <created, µs> <size> <assignment of so many bytes>", one
// after the other. A size of 0 says that the assignment was left out.
func Ends(text string, each func(matchmaking.TicketEnd)) error {
	if text == "" {
		return ErrNotification
	}
	for text != "" {
		parts, rest, err := cut(text)
		if err != nil {
			return err
		}
		created, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotification, err)
		}
		size, err := strconv.Atoi(parts[2])
		if err != nil || size < goneSize || size > len(rest) {
			return fmt.Errorf("%w: size %q", ErrNotification, parts[2])
		}
		end := matchmaking.TicketEnd{ID: parts[0], Created: time.UnixMicro(created), Gone: size == goneSize}
		end.Content, text = rest[:max(size, 0)], rest[max(size, 0):]
		each(end)
	}
	return nil
}

// cut returns the first three words of a text, and what follows. Errors: ErrNotification.
func cut(text string) (words [3]string, rest string, err error) {
	for i := range words {
		word, after, found := strings.Cut(text, " ")
		if !found || word == "" {
			return words, "", ErrNotification
		}
		words[i], text = word, after
	}
	return words, text, nil
}
