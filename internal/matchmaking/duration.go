package matchmaking

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration that is encoded in JSON and YAML as text, such as "1m30s".
type Duration time.Duration

// Unlimited is the life of tickets that never expire: a hundred years. Its text is "none".
const Unlimited = Duration(100 * 365 * 24 * time.Hour)

const unlimitedText = "none"

// Std returns the time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the text.
func (d Duration) String() string {
	if d == Unlimited {
		return unlimitedText
	}
	return time.Duration(d).String()
}

// MarshalJSON writes the text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads the text.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("must be a duration, such as \"500ms\" or \"10m\", not %s", raw)
	}
	if text == unlimitedText {
		*d = Unlimited
		return nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("must be a duration, such as \"500ms\" or \"10m\", not %q", text)
	}
	*d = Duration(parsed)
	return nil
}
