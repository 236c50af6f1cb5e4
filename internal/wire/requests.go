package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// AckRequest is the body of an acknowledgement.
type AckRequest struct {
	ReceiptHandle string `json:"receiptHandle"`
}

// NextRequest is the body of a next: acknowledge, then fetch.
type NextRequest struct {
	ReceiptHandle string `json:"receiptHandle,omitempty"` // empty: nothing to acknowledge
	// LastReceiptHandle is one that the client had before, without a ReceiptHandle: Delivery.Lost. Empty: none.
	LastReceiptHandle string `json:"lastReceiptHandle,omitempty"`
	Max               int    `json:"max,omitempty"`  // 0: the server's default
	Wait              Wait   `json:"wait,omitempty"` // 0: don't wait
}

// Wait is the longest time that a fetch waits for a message. In JSON it is a Go duration such as "20s".
type Wait time.Duration

// MarshalText returns the Go duration.
func (w Wait) MarshalText() ([]byte, error) { return []byte(time.Duration(w).String()), nil }

// UnmarshalJSON accepts the texts of ParseWait, as a string or a number.
func (w *Wait) UnmarshalJSON(text []byte) error {
	plain := string(text)
	if strings.HasPrefix(plain, `"`) {
		if err := strictjson.Unmarshal(text, &plain); err != nil {
			return err
		}
	}
	d, err := ParseWait(plain)
	*w = Wait(d)
	return err
}

// ParseWait parses a Go duration that isn't negative, such as "20s" and "1m30s", or a number of seconds, such as "20".
// The error is an *InputError with fault.SlugInvalidWait.
func ParseWait(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, errSeconds := strconv.ParseUint(text, 10, 64); errSeconds == nil &&
		seconds <= math.MaxInt64/uint64(time.Second) {
		d, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || d < 0 {
		return 0, &InputError{
			Slug: fault.SlugInvalidWait, Field: "wait", Offset: -1,
			Detail: fmt.Sprintf(
				"wait must be a duration that isn't negative, such as 20s or 1m30s, or a number of seconds, not %.64q",
				text),
		}
	}
	return d, nil
}

// ParseMax parses an integer of at least 1. The error is an *InputError with fault.SlugInvalidMax.
func ParseMax(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, &InputError{
			Slug: fault.SlugInvalidMax, Field: "max", Offset: -1,
			Detail: fmt.Sprintf("max must be an integer of at least 1, not %.64q", text),
		}
	}
	return n, nil
}

// SubscribeRequest is the body of a subscribe. An empty body is the zero value.
type SubscribeRequest struct {
	From From `json:"from,omitzero"`
}

// From is the start of a new subscriber. In JSON it is "latest", "earliest" or a clock.
type From channel.From

// UnmarshalJSON accepts "latest", "earliest" or a clock. The error is an *InputError with fault.SlugInvalidFrom.
func (f *From) UnmarshalJSON(data []byte) error {
	switch text := string(data); text {
	case `"latest"`:
		*f = From{Start: channel.StartLatest}
	case `"earliest"`:
		*f = From{Start: channel.StartEarliest}
	default:
		at, err := clock.Parse(text)
		if err != nil {
			return &InputError{
				Slug: fault.SlugInvalidFrom, Field: "/from", Offset: -1,
				Detail: fmt.Sprintf(`from must be "latest", "earliest" or a clock from %d to %d, not %.64s`, clock.Min,
					clock.Max, text),
			}
		}
		*f = From{Start: channel.StartAt, Clock: at}
	}
	return nil
}
