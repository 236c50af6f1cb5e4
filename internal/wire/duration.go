package wire

import (
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
)

// Duration is a positive time. In JSON it is a Go duration such as "1m30s".
type Duration time.Duration

// MarshalText returns the Go duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText parses a Go duration. The error is an *InputError with fault.SlugInvalidBody.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed <= 0 {
		return &InputError{
			Slug: fault.SlugInvalidBody, Offset: -1,
			Detail: fmt.Sprintf("must be a positive duration, such as 5m or 1m30s, not %.64q", text),
		}
	}
	*d = Duration(parsed)
	return nil
}
