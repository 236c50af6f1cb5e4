package matchmaking

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration that JSON and YAML write as text, such as "1m30s".
type Duration time.Duration

// Std gives the time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String gives the text.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes the text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads the text.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("%s isn't a duration, such as \"500ms\" or \"10m\"", raw)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q isn't a duration, such as \"500ms\" or \"10m\"", text)
	}
	*d = Duration(parsed)
	return nil
}
